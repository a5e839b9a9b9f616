"""Who holds this study? One process at a time, and the lock ends with the process, however it ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import IO

from autotune.errors import HostBusyError

LOCK_NAME = "study.lock"


class StudyLock:
    """An exclusive lock on the folder of a study, held from construction to :meth:`release`.

    Raises:
        HostBusyError: another process holds it; the message names it.
    """

    def __init__(self, directory: Path) -> None:
        self._file: IO[str] | None = None
        # Opened for appending: the holder's number must survive until the lock is ours.
        file = (directory / LOCK_NAME).open("a+", encoding="utf-8")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = read_holder(directory)
            file.close()
            who = f"process {holder}" if holder is not None else "another process"
            raise HostBusyError(
                f"{who} is working on this study", where=str(directory), hint="wait for it to end, or stop it"
            ) from error
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        self._file = file

    def release(self) -> None:
        """Give the lock back; does nothing when it is not held."""
        if self._file is not None:
            self._file.truncate(0)
            self._file.close()
            self._file = None


def is_free(directory: Path) -> bool:
    """True when somebody held this study once and nobody does now; asking never waits and writes nothing."""
    try:
        file = (directory / LOCK_NAME).open("rb")
    except OSError:
        return False
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return False
    return True


def read_holder(directory: Path) -> int | None:
    """Return the process that wrote its number last; ``None`` when none is noted. It may be gone by now."""
    try:
        text = (directory / LOCK_NAME).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return int(text) if text.isdecimal() else None
