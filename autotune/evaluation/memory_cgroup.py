"""Is there a control group that bounds the memory of a judged program, whatever it does to its own limits?

Version 2 where the memory controller may be used in our group, beside it or at the top; version 1 at its old place.
Where none may be made, as for most ordinary users, the limit on the address space is all there is.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

_ROOT = Path("/sys/fs/cgroup")
_MEMBERSHIP = Path("/proc/self/cgroup")
_PREFIX = "autotune-sandbox-"
_BESIDE_PROGRAM = 64 << 20
"""Bytes for the interpreter that waits outside, and for what the kernel keeps."""
_MOST_PROCESSES = 64
_PATIENCE_S = 2.0


def find_parents(membership: str, root: Path = _ROOT) -> Iterator[tuple[Path, int]]:
    """Yield folders below which a group might be made, with the version of control groups, best first.

    Args:
        membership: text of ``/proc/self/cgroup``.
        root: where control groups are mounted.
    """
    for line in membership.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        inside = path.lstrip("/")
        if number == "0" and (root / "cgroup.controllers").exists():
            own = root / inside
            yield from dict.fromkeys([(own, 2), (own.parent if inside else own, 2), (root, 2)])
        elif "memory" in controllers.split(","):
            yield from dict.fromkeys([(root / "memory" / inside, 1), (root / "memory", 1)])


def remove_leftovers() -> None:
    """Remove the empty groups of processes that were killed before they could."""
    for parent, _version in find_parents(_read_membership()):
        for folder in parent.glob(f"{_PREFIX}*-*"):
            pid = folder.name.removeprefix(_PREFIX).partition("-")[0]
            if not Path(f"/proc/{pid}").exists():
                with contextlib.suppress(OSError):
                    folder.rmdir()


def _read_membership() -> str:
    try:
        return _MEMBERSHIP.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""


class MemoryCgroup:
    """One group for one program; use as a context manager, which removes it.

    Args:
        memory_bytes: of the program.
    """

    def __init__(self, memory_bytes: int) -> None:
        self._memory_bytes = memory_bytes
        self._folder: Path | None = None
        self._version = 0

    @property
    def is_there(self) -> bool:
        """False when no group could be made."""
        return self._folder is not None

    def __enter__(self) -> Self:
        """Make the group where that is possible."""
        name = f"{_PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
        for parent, version in find_parents(_read_membership()):
            folder = parent / name
            try:
                folder.mkdir()
            except OSError:
                continue
            try:
                self._limit(folder, version)
            except OSError:
                with contextlib.suppress(OSError):
                    folder.rmdir()
                continue
            self._folder, self._version = folder, version
            break
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Kill what is left inside and remove the group."""
        if self._folder is None:
            return
        if self._version == 2:
            with contextlib.suppress(OSError):
                (self._folder / "cgroup.kill").write_text("1", encoding="ascii")
        deadline_s = time.monotonic() + _PATIENCE_S
        while True:
            try:
                self._folder.rmdir()
            except FileNotFoundError:
                return
            except OSError:  # the kernel has not taken leave of its last process
                if time.monotonic() > deadline_s:
                    return
                time.sleep(0.002)
            else:
                return

    def add(self, pid: int) -> bool:
        """Put a process, and all that it will start, into the group; False when that is not allowed."""
        if self._folder is None:
            return False
        try:
            (self._folder / "cgroup.procs").write_text(str(pid), encoding="ascii")
        except OSError:
            return False
        return True

    def _limit(self, folder: Path, version: int) -> None:
        limit = str(self._memory_bytes + _BESIDE_PROGRAM)
        if version == 1:
            (folder / "memory.limit_in_bytes").write_text(limit, encoding="ascii")
            return
        (folder / "memory.max").write_text(limit, encoding="ascii")
        for name, value in (("memory.swap.max", "0"), ("pids.max", str(_MOST_PROCESSES))):
            with contextlib.suppress(OSError):  # the machine has no swap, or the controller is not given to us
                (folder / name).write_text(value, encoding="ascii")
