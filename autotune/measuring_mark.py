"""Does another process on this machine do what would spoil figures? Who measures or judges programs says so, by a name.

Judging starts a program on every processor, so it and measuring exclude each other, whichever began first. The name is
that of an abstract socket, which the kernel lists and forgets with its process: nothing is left on a disk.
"""

from __future__ import annotations

import os
import re
import socket
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Self

from autotune.errors import HostBusyError

PREFIX = "autotune"
"""What all names begin with."""
_SOCKETS = Path("/proc/net/unix")


class Work(Enum):
    """What a process does that others must not disturb, or would be disturbed by; each value is its verb."""

    MEASURING = "measures"
    """Figures are taken; what else runs on the machine is in them."""
    JUDGING = "judges"
    """Generated programs run, or will as soon as all answers are there."""


_EXCLUDES = {Work.MEASURING: Work.JUDGING, Work.JUDGING: Work.MEASURING}


class WorkMark:
    """Marks this process as one that does some work; use as a context manager. Where no mark can be made, there is none.

    Args:
        work: what it does.
    """

    def __init__(self, work: Work) -> None:
        self._work = work
        self._socket: socket.socket | None = None

    def __enter__(self) -> Self:
        """Make the mark, then see whether another process does what excludes this work.

        Raises:
            HostBusyError: one does; of two that begin at the same moment at least one is refused.
        """
        self._make()
        busy = find_workers(_EXCLUDES[self._work])
        if busy:
            self._take_away()
            raise _explain(self._work, busy[0])
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take it away."""
        self._take_away()

    def _make(self) -> None:
        try:
            mark = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        except OSError:
            return
        try:
            mark.bind(f"\0{PREFIX}-{self._work.name.lower()}-{os.getpid()}-{id(self)}")
        except OSError:
            mark.close()
        else:
            self._socket = mark

    def _take_away(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def find_workers(work: Work) -> tuple[int, ...]:
    """Return the ids of other processes on this machine that do some work, in order."""
    try:
        text = _SOCKETS.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ()
    found = re.findall(rf"@{re.escape(PREFIX)}-{work.name.lower()}-(\d+)(?:-\d+)?$", text, re.MULTILINE)
    return tuple(sorted({int(pid) for pid in found} - {os.getpid()}))


def _explain(work: Work, pid: int) -> HostBusyError:
    if work is Work.JUDGING:
        return HostBusyError(
            f"process {pid} of autotune measures on this machine, and judging programs would disturb it",
            where="this machine",
            hint="wait until it has ended, or evaluate from another machine",
        )
    return HostBusyError(
        f"process {pid} of autotune evaluates on this machine, and the programs that it judges would be in the figures",
        where="this machine",
        hint="wait until it has ended, or measure from another machine",
    )
