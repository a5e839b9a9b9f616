"""Putting the result of a study into a service's own configuration on its host, and taking it back."""
