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

        Text that is no Unicode is written with escapes instead: what a model wrote must not end a study.

        Raises:
            OSError: the disk is full or the file cannot be written.
            ValueError: the file is not open.
        """
        if self._file is None:
            raise ValueError(f"{self._path} is not open")
        try:
            data = orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)
        except TypeError:
            data = orjson.dumps(_make_writable(line), option=orjson.OPT_APPEND_NEWLINE, default=repr)
        self._file.write(data)
        self._file.flush()


def _make_writable(value: Any) -> Any:
    """Put what JSON in UTF-8 cannot hold, halves of surrogate pairs and huge integers, into escapes and digits."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_make_writable(str(key)): _make_writable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_make_writable(item) for item in value]
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        return hex(value)
    return value
