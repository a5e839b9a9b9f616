"""What could go wrong tonight? Every precondition of a night, looked at without changing anything."""
