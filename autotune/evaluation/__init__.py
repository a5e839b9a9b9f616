"""Coding problems, extraction of code from answers, the sandbox that runs it, and scoring."""
