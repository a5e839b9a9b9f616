"""How does a server of the open DDTree pull request log its drafts? By a file that its interpreters load at their start."""

from __future__ import annotations

from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent
"""Goes on the ``PYTHONPATH`` of the server; Python then loads ``sitecustomize.py`` from it."""

FILE: Final = FOLDER / "sitecustomize.py"
"""All of the hook, for a server that runs elsewhere."""

LIMIT_BYTES: Final = 256 * 2**20
"""Largest size of a log, unless its file system has less room."""

KEPT_FREE_BYTES: Final = 64 * 2**20
"""A log leaves so much of its file system free."""

PATH_VARIABLE: Final = "PYTHONPATH"
LOG_VARIABLE: Final = "AUTOTUNE_DRAFT_LOG"
TOPK_VARIABLE: Final = "AUTOTUNE_DRAFT_LOG_TOPK"
LIMIT_VARIABLE: Final = "AUTOTUNE_DRAFT_LOG_LIMIT_BYTES"

VARIABLES: Final = (PATH_VARIABLE, LOG_VARIABLE, TOPK_VARIABLE, LIMIT_VARIABLE)
"""What a server's environment needs for it; ``sitecustomize.py``, which imports nothing of ours, says them too."""
