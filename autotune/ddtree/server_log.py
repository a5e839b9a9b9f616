"""How log lines of the server look: SGLang's time prefix, one record a line."""

from __future__ import annotations

import logging
import sys


def configure_logging() -> None:
    """Send log lines to standard error as ``[YYYY-MM-DD HH:MM:SS] message``."""
    logging.basicConfig(
        level=logging.INFO,
        format="[%(asctime)s] %(message)s",
        datefmt="%Y-%m-%d %H:%M:%S",
        stream=sys.stderr,
        force=True,
    )
