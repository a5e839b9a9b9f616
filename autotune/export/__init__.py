"""What leaves a study: the drop-in with its provenance, plain flags, and the report."""
