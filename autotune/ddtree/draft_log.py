"""What did the drafter think at each step, and what came of it? JSON lines from which other trees can be replayed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import orjson


class DraftLog:
    """Appends one line per request and step, and one when a request has ended.

    A line holds ``rid`` (a server adds ``#`` and a serial number to the client's), ``committed`` (tokens committed since
    the line before, the very first one by the prompt's own pass), ``position`` (of the first drafted token, counted from
    the start of the prompt), ``tokens`` and ``logprobs`` (per drafted position a list by rank, best first). A draft for
    another window follows in a line of its own, with ``window`` instead of ``committed``. The last line of a request has no
    draft. Writing costs time: measure no speed with it on.

    Args:
        path: file to append to.
    """

    def __init__(self, path: Path | str) -> None:
        self._file = Path(path).open("ab")  # noqa: SIM115 - closed by close()
        self._committed: dict[str, list[int]] = {}

    def commit(self, request_id: str, tokens: Sequence[int]) -> None:
        """Keep what a request has committed for its next line."""
        self._committed.setdefault(request_id, []).extend(tokens)

    def write(
        self,
        request_id: str,
        position: int,
        tokens: Sequence[Sequence[int]],
        logprobs: Sequence[Sequence[float]],
        window: int | None = None,
    ) -> None:
        """Append the draft of one request at one step; ``window`` is one that the drafter does not run with."""
        line: dict[str, object] = {"rid": request_id, "position": position, "tokens": tokens, "logprobs": logprobs}
        if window is None:
            line["committed"] = self._committed.pop(request_id, [])
        else:
            line["window"] = window
        self._write(line)

    def end(self, request_id: str) -> None:
        """Append the last tokens of a request."""
        self._write({"rid": request_id, "committed": self._committed.pop(request_id, [])})

    def forget(self, request_id: str) -> None:
        """Drop what is kept of a request that was given up."""
        self._committed.pop(request_id, None)

    def _write(self, line: dict[str, object]) -> None:
        self._file.write(orjson.dumps(line) + b"\n")

    def flush(self) -> None:
        """Make everything written visible to other processes."""
        self._file.flush()

    def close(self) -> None:
        """Flush and close; a second call does nothing."""
        self._file.close()
