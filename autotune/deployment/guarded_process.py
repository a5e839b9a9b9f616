"""One server of ours under its guard: started, watched, ended together with everything it started."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from autotune.deployment import guard
from autotune.deployment.process import find_tree, identify, list_processes, read_environment
from autotune.errors import HostError
from autotune.servers.base import LaunchSpec

MARKER: Final = "AUTOTUNE_BOOT"
"""The variable that every process of our server carries, so that it can be found when even its guard was killed."""

DEATH_PATIENCE_S: Final = 10.0
"""How long processes may take to go after SIGKILL."""

_LOOK_AGAIN_S = 0.05


class GuardedProcess:
    """A running server and the guard that is its parent.

    Args:
        launch: what to start.
        log_path: file that receives the output of the server.
        marker: value of :data:`MARKER`, unique to this boot.
        orphan_patience_s: time between SIGTERM and SIGKILL when this tuner has died.

    Attributes:
        pid: process id of the server.
        launch: what was started.

    Raises:
        HostError: the program does not exist or may not be run.
    """

    def __init__(self, launch: LaunchSpec, log_path: Path, marker: str, orphan_patience_s: float) -> None:
        environment = {**os.environ, MARKER: marker}
        for name, value in launch.environment.items():
            environment.pop(name, None)
            if value is not None:
                environment[name] = value
        theirs_control, self._control = os.pipe()
        self._status, theirs_status = os.pipe()
        arguments = [theirs_control, theirs_status, os.getpid(), orphan_patience_s]
        try:
            with log_path.open("ab") as log:
                self._guard = subprocess.Popen(
                    [sys.executable, "-I", "-S", guard.__file__, *map(str, arguments), *launch.command],
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=(theirs_control, theirs_status),
                    start_new_session=True,
                )
        except BaseException:
            self._close()
            raise
        finally:
            os.close(theirs_control)
            os.close(theirs_status)
        self.launch = launch
        self.marker = marker
        self.guard_identity = identify(self._guard.pid)
        self._buffer = b""
        self._exit_code: int | None = None
        self.pid = self._read_start()

    def poll(self) -> int | None:
        """Return the server's exit code (negative for a signal), or ``None`` while it lives."""
        if self._exit_code is None:
            with contextlib.suppress(BlockingIOError):
                self._buffer += os.read(self._status, 4096)
            for line in self._buffer.split(b"\n")[:-1]:
                word, _, code = line.partition(b" ")
                if word == b"exited":
                    self._exit_code = int(code)
            if self._exit_code is None and self._guard.poll() is not None:
                self._exit_code = -signal.SIGKILL
        return self._exit_code

    def list_pids(self) -> set[int]:
        """Return the ids of the guard, the server and all its descendants."""
        return {identity.pid for identity in find_tree(self._guard.pid)}

    def stop(self, patience_s: float) -> None:
        """End the server: SIGTERM, patience, SIGKILL to all of it; returns when none of its processes lives.

        Raises:
            HostError: a process survives SIGKILL.
        """
        with contextlib.suppress(BrokenPipeError):
            os.write(self._control, f"stop {patience_s}\n".encode())
        try:
            self._guard.wait(patience_s + DEATH_PATIENCE_S)
        except subprocess.TimeoutExpired as error:
            raise HostError(
                "processes of our server survive SIGKILL",
                where=f"below process {self._guard.pid}",
                hint="look at them with ps; a stuck driver may need a reboot",
            ) from error
        self.poll()
        self._close()
        end_marked(self.marker)

    def _read_start(self) -> int:
        """Wait for the guard's first line and return the server's process id."""
        answer = b""
        while not answer.endswith(b"\n"):
            data = os.read(self._status, 1)
            if not data:
                break
            answer += data
        word, _, rest = answer.decode(errors="replace").strip().partition(" ")
        if word != "started":
            self._close()
            self._guard.wait()
            raise HostError(
                f"the server cannot be started: {rest or 'its guard ended'}",
                where=shlex.join(self.launch.command),
                hint="check server.command in the study file",
            )
        os.set_blocking(self._status, False)
        return int(rest)

    def _close(self) -> None:
        os.close(self._control)
        os.close(self._status)


def end_marked(marker: str) -> None:
    """Kill every process that carries the mark of a boot.

    Raises:
        HostError: one survives.
    """
    deadline = time.monotonic() + DEATH_PATIENCE_S
    while True:
        marked = [
            identity
            for identity in map(identify, list_processes())
            if identity is not None and (read_environment(identity.pid) or {}).get(MARKER) == marker
        ]
        if not marked:
            return
        if time.monotonic() > deadline:
            raise HostError(
                f"processes of our server survive SIGKILL: {', '.join(str(item.pid) for item in marked)}",
                hint="look at them with ps; a stuck driver may need a reboot",
            )
        for item in marked:
            item.send(signal.SIGKILL)
        time.sleep(_LOOK_AGAIN_S)
