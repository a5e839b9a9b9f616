"""Whole nights in seconds: recorded and parametric surfaces replayed as a server, on an injected clock."""
