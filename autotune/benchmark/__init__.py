"""Load generation and the figures made from it."""
