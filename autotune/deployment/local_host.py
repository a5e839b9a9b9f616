"""Commands on this machine, for a tuner that runs where the service does."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import IO, Final, Self

from autotune.deployment.command_end import describe_left, end_command
from autotune.deployment.drained_stream import drain_pipe, wait_for_rest
from autotune.deployment.host import PLAIN_OUTPUT, CommandOutput, Host
from autotune.errors import RemoteTimeout

_END_PATIENCE_S: Final = 30.0
_REAP_S: Final = 0.5
_REST_PATIENCE_S: Final = 30.0


class LocalHost(Host):
    """This machine. Every command has a session of its own, so that a Ctrl-C for the tuner does not reach it."""

    name = "this host"

    def __enter__(self) -> Self:
        """Nothing is needed to reach this machine."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is kept open."""

    @property
    def user_id(self) -> int:
        """The user id of this process."""
        return os.geteuid()

    def run(
        self,
        command: Sequence[str],
        *,
        stdin: bytes = b"",
        timeout_s: float = 30.0,
        is_idempotent: bool = False,  # noqa: ARG002  # no connection can be lost here
    ) -> CommandOutput:
        """Run one command with ``LC_ALL=C`` to its end; see :meth:`Host.run`.

        A program that does not exist or may not be executed is exit code 127 or 126, as in a shell.

        Raises:
            RemoteTimeout: the time was over; it and all its descendants were ended.
        """
        deadline = time.monotonic() + timeout_s
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=os.environ | PLAIN_OUTPUT,
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            is_missing = isinstance(error, FileNotFoundError)
            return CommandOutput(127 if is_missing else 126, b"", f"{command[0]}: {error.strerror}\n".encode())
        return _finish(self.name, process, command, stdin, deadline, timeout_s)


def _finish(
    where: str,
    process: subprocess.Popen[bytes],
    command: Sequence[str],
    stdin: bytes,
    deadline: float,
    timeout_s: float,
) -> CommandOutput:
    """Feed and drain a process to its end or to the deadline."""
    outputs = [drain_pipe(process.stdout), drain_pipe(process.stderr)]
    if process.stdin is not None:
        threading.Thread(target=_feed, args=(process.stdin, stdin), name="feed", daemon=True).start()
    try:
        code = process.wait(max(deadline - time.monotonic(), 0.0))
    except subprocess.TimeoutExpired:
        left = _end(process)
        raise RemoteTimeout(
            f"{shlex.join(command)} did not end within {timeout_s:g} s and was ended{left}", where=where
        ) from None
    except BaseException:
        _end(process)
        raise
    is_whole = wait_for_rest(outputs, time.monotonic() + _REST_PATIENCE_S)
    return CommandOutput(
        code if code >= 0 else 128 - code,
        outputs[0].data,
        outputs[1].data,
        is_truncated=not is_whole or any(output.is_truncated for output in outputs),
    )


def _end(process: subprocess.Popen[bytes]) -> str:
    """End a process and its descendants; return a clause about those that could not be ended."""
    try:
        ended = subprocess.run(
            end_command(pid=process.pid), capture_output=True, text=True, timeout=_END_PATIENCE_S, check=False
        )
        left = describe_left(ended.returncode, ended.stdout)
    except subprocess.TimeoutExpired:
        left = describe_left(0, str(process.pid))
    try:
        process.wait(_REAP_S)
    except subprocess.TimeoutExpired:
        threading.Thread(target=process.wait, name="reap", daemon=True).start()
    return left


def _feed(stream: IO[bytes], data: bytes) -> None:
    """Write all of standard input, unless the command stops reading."""
    view = memoryview(data)
    with contextlib.suppress(OSError, ValueError), stream:
        while view:
            view = view[stream.write(view) :]
