"""Putting a configuration on a host and taking it off again."""
