"""What differs between server dialects: flags, readiness, effective flags, fatal log lines."""
