"""How does a server of the open DDTree pull request log its drafts? By a file that its interpreters load at their start."""

from __future__ import annotations

from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent
"""Goes on the ``PYTHONPATH`` of the server; Python then loads ``sitecustomize.py`` from it."""
