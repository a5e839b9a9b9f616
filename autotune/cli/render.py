"""How the command line prints: people's text to stderr, data to stdout. The only module that writes to either."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any, TextIO

from autotune.errors import AutotuneError, ServerError
from autotune.export.wording import clean


def say(text: str) -> None:
    """Print a sentence for people, on stderr."""
    _write(sys.stderr, f"{text}\n")


def is_terminal() -> bool:
    """Whether people's text goes to a terminal."""
    return sys.stderr is not None and sys.stderr.isatty()


def show(text: str) -> None:
    """Print what was asked for, on stdout."""
    _write(sys.stdout, text if text.endswith("\n") else f"{text}\n")


def _write(stream: TextIO | None, text: str) -> None:
    """Write at once; a stream that was closed before this program began (``>&-``) is none, and takes nothing."""
    if stream is not None:
        stream.write(text)
        stream.flush()


def show_json(data: Any) -> None:
    """Print data and nothing else, on stdout; NaN and infinity are refused, unknown is null."""
    show(json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False))


def show_error(error: AutotuneError) -> None:
    """Print what happened, where, and what to do next, on stderr; secrets hidden."""
    say(f"error: {_plain(error.message)}")
    if error.where:
        say(f"  where: {_plain(error.where)}")
    if isinstance(error, ServerError) and error.log_lines:
        say("  log:")
        for line in error.log_lines[-8:]:
            say(f"    {_plain(line)}")
    if error.hint:
        say(f"  next:  {_plain(error.hint)}")


def _plain(text: str) -> str:
    from autotune.export.provenance import hide_secrets_in  # noqa: PLC0415 - help and --version load nothing heavy

    return clean(hide_secrets_in(text))


def show_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print an aligned table on stdout; columns that hold numbers are aligned to the right."""
    if not rows:
        return
    columns = [[clean(cell) for cell in column] for column in zip(headers, *rows, strict=True)]
    widths = [max(map(len, column)) for column in columns]
    right = [all(cell[:1] in "+-0123456789" for cell in column[1:]) for column in columns]
    for line in zip(*columns, strict=True):
        cells = [
            cell.rjust(width) if is_number else cell.ljust(width)
            for cell, width, is_number in zip(line, widths, right, strict=True)
        ]
        show("  ".join(cells).rstrip())
