"""The grey-box sampler: accept length and step time modelled apart, every configuration scored."""
