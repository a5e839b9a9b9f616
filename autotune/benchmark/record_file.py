"""Where do request records go: one JSON line each, on disk as soon as the request has ended."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import orjson


class RecordFile:
    """Appends JSON lines to a file; use as a context manager. Folders are made, earlier lines are kept."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None

    def __enter__(self) -> Self:
        """Open the file and make its folders."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._path.open("ab")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def append(self, line: dict[str, Any]) -> None:
        """Write one line and hand it to the operating system, so that a killed tuner loses nothing.

        Raises:
            OSError: the disk is full or the file cannot be written.
            ValueError: the file is not open.
        """
        if self._file is None:
            raise ValueError(f"{self._path} is not open")
        self._file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
        self._file.flush()
