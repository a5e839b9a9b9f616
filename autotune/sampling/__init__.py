"""Who proposes the next configuration."""
