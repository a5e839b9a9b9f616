"""Runs one server and sees to it that the server and all its descendants die when the tuner does, however it dies.

Executed as a script under ``python -I -S``, in a session of its own, with nothing but the standard library. It is the
parent of the server and the reaper of everything the server starts, so that no descendant can slip away by double
forking or by a session of its own. Its arguments: control descriptor, status descriptor, the tuner's process id, the
patience in seconds when the tuner has died, and the server's argument vector.

The tuner holds the other end of the control pipe and writes ``stop SECONDS``; the end of file means that the tuner is
dead. The guard answers on the status pipe: ``started PID`` or ``error TEXT``, then ``exited CODE`` as soon as the
server's own process ends (negative for a signal). The guard itself exits when no descendant is left.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import time
from pathlib import Path
from typing import NoReturn

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LEFTOVER_PATIENCE_S = 2.0
_TICK_S = 0.05
_IDLE_TICK_S = 1.0


class Guard:
    """One server process and whatever descends from it.

    Args:
        control: readable end of the tuner's pipe.
        status: writable end of the pipe to the tuner.
        tuner: the tuner's process id.
        orphan_patience_s: time between SIGTERM and SIGKILL when the tuner has died.
        command: the server's argument vector.
    """

    def __init__(self, control: int, status: int, tuner: int, orphan_patience_s: float, command: list[str]) -> None:
        self._control: int | None = control
        self._status = status
        self._tuner = tuner
        self._orphan_patience_s = orphan_patience_s
        self._command = command
        self._server = 0
        self._has_exited = False
        self._kill_at: float | None = None
        self._buffer = b""
        self._is_signalled = False

    def run(self) -> int:
        """Start the server, wait for its end or for a reason to end it; return once no descendant lives."""
        for descriptor in (self._control, self._status):
            if descriptor is not None:
                os.set_inheritable(descriptor, False)
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        wake = self._catch_signals()
        try:
            self._server = _spawn(self._command)
        except OSError as error:
            self._report(f"error {error.strerror}: {self._command[0]}")
            return 1
        self._report(f"started {self._server}")
        while True:
            if self._reap():
                return 0
            self._wait(wake)
            if self._is_orphaned() or self._is_signalled:
                self._stop(self._orphan_patience_s)
            if self._kill_at is not None and time.monotonic() >= self._kill_at:
                for process in find_descendants(os.getpid()):
                    _send(process, signal.SIGKILL)

    def _catch_signals(self) -> int:
        """Turn SIGCHLD and requests to end into bytes of a pipe, and return its readable end."""
        readable, writable = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        return readable

    def _on_signal(self, *_: object) -> None:
        self._is_signalled = True

    def _wait(self, wake: int) -> None:
        """Sleep until a child ends, the tuner speaks or dies, or it is time to look again."""
        tick_s = _TICK_S if self._kill_at is not None else _IDLE_TICK_S
        sources = [wake] if self._control is None else [wake, self._control]
        ready, _, _ = select.select(sources, [], [], tick_s)
        if wake in ready:
            while True:
                try:
                    if not os.read(wake, 512):
                        break
                except BlockingIOError:
                    break
        if self._control is not None and self._control in ready:
            self._listen(self._control)

    def _listen(self, control: int) -> None:
        """Read the tuner's requests; the end of file is its death."""
        data = os.read(control, 512)
        if not data:
            os.close(control)
            self._control = None
            return
        self._buffer += data
        *lines, self._buffer = self._buffer.split(b"\n")
        for line in lines:
            word, _, seconds = line.partition(b" ")
            if word == b"stop":
                self._stop(float(seconds))

    def _is_orphaned(self) -> bool:
        """True when the tuner is dead, even if somebody else still holds its end of the pipe."""
        return self._control is None or os.getppid() != self._tuner

    def _stop(self, patience_s: float) -> None:
        """Ask the server to end, and remember when patience ends; a later call can only shorten it."""
        until = time.monotonic() + patience_s
        if self._kill_at is None:
            self._kill_at = until
            if not self._has_exited:
                _send(self._server, signal.SIGTERM)
        self._kill_at = min(self._kill_at, until)

    def _reap(self) -> bool:
        """Collect ended children; return True when none is left."""
        while True:
            try:
                process, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if process == 0:
                return False
            if process == self._server:
                self._has_exited = True
                self._report(f"exited {os.waitstatus_to_exitcode(status)}")
                leftovers = find_descendants(os.getpid())
                for leftover in leftovers:
                    _send(leftover, signal.SIGTERM)
                self._stop(_LEFTOVER_PATIENCE_S)

    def _report(self, line: str) -> None:
        """Tell the tuner; a dead tuner is noticed elsewhere."""
        try:
            os.write(self._status, line.encode() + b"\n")
        except OSError:
            self._is_signalled = True


def find_descendants(ancestor: int) -> list[int]:
    """Return the ids of all living processes below ``ancestor``, parents before children."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):  # noqa: PTH208  # names suffice
        if entry.isdigit():
            try:
                fields = Path("/proc", entry, "stat").read_bytes().rpartition(b")")[2].split()
            except OSError:
                continue
            if fields[0] != b"Z":
                children.setdefault(int(fields[1]), []).append(int(entry))
    found: list[int] = []
    front = [ancestor]
    while front:
        below = [child for parent in front for child in children.get(parent, [])]
        found += below
        front = below
    return found


def _spawn(command: list[str]) -> int:
    """Start ``command`` in a session of its own; it dies with this process. Raises OSError when it cannot start."""
    readable, writable = os.pipe2(os.O_CLOEXEC)
    guard = os.getpid()
    process = os.fork()
    if process == 0:
        _become(command, guard, writable)
    os.close(writable)
    with os.fdopen(readable, "rb") as pipe:
        failure = pipe.read()
    if failure:
        os.waitpid(process, 0)
        number = int(failure)
        raise OSError(number, os.strerror(number))
    return process


def _become(command: list[str], guard: int, failure: int) -> NoReturn:
    """Turn the forked child into the server, or write the error number and end."""
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guard:
            os._exit(1)
        os.execvp(command[0], command)  # noqa: S606
    except OSError as error:
        os.write(failure, str(error.errno).encode())
    os._exit(127)


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {option}")


def _send(process: int, number: int) -> None:
    """Send a signal to a process that may be gone by now."""
    try:
        os.kill(process, number)
    except ProcessLookupError:
        return


if __name__ == "__main__":
    sys.exit(Guard(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]), sys.argv[5:]).run())
