"""What did the drafter think at each step? JSON lines from which other trees can be replayed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path


class DraftLog:
    """Appends one line per request and step.

    A line holds ``rid`` (a server adds ``#`` and a serial number to the client's), ``position`` (of the first drafted
    token, counted from the start of the prompt), ``tokens`` and ``logprobs`` (per drafted position a list by rank, best
    first). Writing costs time: measure no speed with it on.

    Args:
        path: file to append to.
    """

    def __init__(self, path: Path | str) -> None:
        self._file = Path(path).open("a", encoding="utf-8")  # noqa: SIM115 - closed by close()

    def write(
        self, request_id: str, position: int, tokens: Sequence[Sequence[int]], logprobs: Sequence[Sequence[float]]
    ) -> None:
        """Append the draft of one request at one step."""
        rounded = [[round(value, 5) for value in values] for values in logprobs]
        line = {"rid": request_id, "position": position, "tokens": tokens, "logprobs": rounded}
        self._file.write(json.dumps(line, separators=(",", ":")) + "\n")

    def flush(self) -> None:
        """Make everything written visible to other processes."""
        self._file.flush()

    def close(self) -> None:
        """Flush and close; a second call does nothing."""
        self._file.close()
