"""Lets ``python -m autotune`` do what the console script does."""

from __future__ import annotations

from autotune.cli import main

if __name__ == "__main__":
    main(prog_name="autotune")
