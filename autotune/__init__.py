"""Find the best speculative-decoding configuration of a live LLM server, and leave the server as it was found."""

__version__ = "0.1.0"
