"""Does another process measure on this machine? Who measures says so, by a name that ends with the process.

The mark is a socket with an abstract name, which the kernel lists and forgets: nothing is left on a disk.
"""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path
from types import TracebackType
from typing import Self

_PREFIX = "autotune-measuring-"
_SOCKETS = Path("/proc/net/unix")
_MARK = re.compile(rf"@{_PREFIX}(\d+)(?:-\d+)?$", re.MULTILINE)


class MeasuringMark:
    """Marks this process as one that measures; use as a context manager. Where no mark can be made, there is none."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None

    def __enter__(self) -> Self:
        """Make the mark."""
        try:
            mark = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        except OSError:
            return self
        try:
            mark.bind(f"\0{_PREFIX}{os.getpid()}-{id(self)}")
        except OSError:
            mark.close()
        else:
            self._socket = mark
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take it away."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def find_measuring() -> tuple[int, ...]:
    """Return the ids of other processes on this machine that measure, in order."""
    try:
        text = _SOCKETS.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ()
    return tuple(sorted({int(pid) for pid in _MARK.findall(text)} - {os.getpid()}))
