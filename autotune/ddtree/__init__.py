"""The embedded DDTree server: a small language model with real tree speculation behind SGLang's HTTP surface."""
