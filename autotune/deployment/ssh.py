"""Commands on another machine over one SSH connection that is watched, and made again when it was lost."""

from __future__ import annotations

import contextlib
import secrets
import shlex
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

import paramiko

from autotune.deployment.command_end import MARK, describe_left, end_command
from autotune.deployment.drained_stream import DrainedStream, wait_for_rest
from autotune.deployment.host import PLAIN_OUTPUT, CommandOutput, Host
from autotune.deployment.ssh_connection import LOST, SshConnection, time_limit
from autotune.deployment.ssh_options import fetch_ssh_options
from autotune.errors import ConnectionLostError, HostError, RemoteTimeout

_OPEN_S: Final = (3.0, 10.0)
"""Bounds of the wait for the host to open a session, and to start a command: as long as the command may take, within
these. With a living link each is one round trip."""
_FREE_S: Final = 30.0
"""How long commands of ours wait for each other where the server allows few sessions (``MaxSessions``)."""
_LOOK_AGAIN_S: Final = 0.05
_END_PATIENCE_S: Final = 30.0
_END_OPEN_S: Final = 2.5
_REST_PATIENCE_S: Final = 60.0
_REMOTE_MARGIN_S: Final = 10
"""How much later than ours the deadline on the host itself is: it counts only when the link is gone."""

_RUN: Final = 'limit=$1; shift; timeout -k 5 "$limit" "$@"; exit $?'
_RUN_WITH_INPUT: Final = 'limit=$1; shift; cat | timeout -k 5 "$limit" "$@"; exit $?'
"""What runs a command there. With input, it reads a pipe: some SSH servers give a socket, which cannot be opened again
as ``/dev/stdin``. The shell stays to turn an end by signal N into the exit code 128 + N."""


class _NothingSent(Exception):  # never leaves this module
    """The connection was lost before the command was sent, so that sending it is still safe."""


class SshHost(Host):
    """Another machine, reached as OpenSSH would reach it.

    The words of a command are quoted once, for a POSIX login shell (sh, dash, bash, zsh, ksh). Every command runs with
    ``LC_ALL=C`` and without a terminal.

    Args:
        destination: ``user@host`` or an alias, as for ``ssh``.
        config: file to read instead of ``~/.ssh/config``.
        keepalive_s: time between two questions whether the link is alive; one that stays silent for twice as long
            is lost. Default: ``ServerAliveInterval``, or 15 s.

    Raises:
        UserError: the destination cannot be one.
        SshError: ssh's configuration cannot be read.
    """

    def __init__(self, destination: str, *, config: str | None = None, keepalive_s: float | None = None) -> None:
        self.options = fetch_ssh_options(destination, config)
        self.name = self.options.name
        self._keepalive_s = self.options.keepalive_s if keepalive_s is None else keepalive_s
        self._lock = threading.Lock()
        self._connection: SshConnection | None = None
        self._user_id: int | None = None

    def __enter__(self) -> Self:
        """Connect, and see that commands run there; see :meth:`Host.__enter__`."""
        self._connected()
        try:
            _ = self.user_id
        except BaseException:
            self._disconnect()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Disconnect."""
        self._disconnect()

    def _disconnect(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    @property
    def user_id(self) -> int:
        """The user id on the machine, asked once."""
        if self._user_id is None:
            output = self.run(("id", "-u"), is_idempotent=True)
            if output.exit_code != 0 or not output.text.strip().isdecimal():
                raise HostError(
                    f"the host lets us in but does not run commands as they are sent: id -u printed {output.text[:200]!r}"
                    f" and ended with exit code {output.exit_code}",
                    where=self.name,
                    hint="the login shell must be a POSIX one that prints nothing of its own and does not end by itself "
                    "(see getent passwd, ~/.bashrc), without ForceCommand in sshd_config and command= in authorized_keys",
                )
            self._user_id = int(output.text)
        return self._user_id

    def run(
        self,
        command: Sequence[str],
        *,
        stdin: bytes = b"",
        timeout_s: float = 30.0,
        is_idempotent: bool = False,
    ) -> CommandOutput:
        """Run one command to its end; see :meth:`Host.run`.

        A connection found lost before the command was sent is made again once, for every command. The command's time
        begins when it is sent; connecting has a time of its own.

        Raises:
            SshError: as for entering, when the connection has to be made again.
        """
        connection = self._connected()
        try:
            return self._run(connection, command, stdin, timeout_s)
        except _NothingSent:
            pass
        except ConnectionLostError:
            if not is_idempotent:
                raise
        connection = self._connected()
        try:
            return self._run(connection, command, stdin, timeout_s)
        except _NothingSent as error:
            raise ConnectionLostError(str(error), where=self.name) from None

    def _connected(self) -> SshConnection:
        """Return a connection that is not known to be lost; make one if there is none."""
        with self._lock:
            if self._connection is not None and not self._connection.is_alive:
                self._connection.close()
                self._connection = None
            if self._connection is None:
                self._connection = SshConnection(self.options, self._keepalive_s)
            return self._connection

    def _run(self, connection: SshConnection, command: Sequence[str], stdin: bytes, timeout_s: float) -> CommandOutput:
        token = secrets.token_hex(8)
        line = render_command(command, token, timeout_s, has_input=bool(stdin))
        patience_s = min(max(timeout_s, _OPEN_S[0]), _OPEN_S[1])
        with contextlib.closing(_open_channel(connection, patience_s)) as channel:
            until = time.monotonic() + timeout_s
            try:
                with time_limit(patience_s, connection.transport.close):
                    channel.exec_command(line)
            except LOST:
                raise connection.lost(f"while {command[0]} was started, and whether it ran is unknown") from None
            return self._finish(connection, channel, command, token, stdin, until, timeout_s)

    def _finish(
        self,
        connection: SshConnection,
        channel: paramiko.Channel,
        command: Sequence[str],
        token: str,
        stdin: bytes,
        until: float,
        timeout_s: float,
    ) -> CommandOutput:
        """Feed and drain a running command to its end or to the deadline."""
        outputs = [DrainedStream(channel.recv), DrainedStream(channel.recv_stderr)]
        threading.Thread(target=_feed, args=(channel, stdin), name="feed", daemon=True).start()
        try:
            has_ended = channel.status_event.wait(max(until - time.monotonic(), 0.0))
        except BaseException:
            _end(connection, token)
            raise
        if not has_ended:
            left = _end(connection, token)
            what = f"{shlex.join(command)} did not end within {timeout_s:g} s"
            if left is None:
                connection.transport.close()
                raise ConnectionLostError(
                    f"{what}, and the host does not answer any more", where=self.name, hint="is the network up?"
                )
            raise RemoteTimeout(f"{what} and was ended{left}", where=self.name)
        is_whole = wait_for_rest(outputs, time.monotonic() + _REST_PATIENCE_S, connection.ask)
        if channel.exit_status < 0 or (not all(output.has_ended for output in outputs) and not connection.is_alive):
            raise connection.lost(f"while {command[0]} ran, and whether it has ended is unknown")
        return CommandOutput(
            channel.exit_status,
            outputs[0].data,
            outputs[1].data,
            is_truncated=not is_whole or any(output.is_truncated for output in outputs),
        )


def render_command(command: Sequence[str], token: str, timeout_s: float, *, has_input: bool) -> bytes:
    """Return the line for the login shell that runs a command with a mark by which its processes are found.

    Args:
        command: program and arguments; bytes that are no UTF-8 as Python's escapes.
        token: the mark.
        timeout_s: the deadline that we keep; the host keeps a later one in case we cannot.
        has_input: whether standard input is more than its end.

    Raises:
        ValueError: a word holds a NUL character, which no program can be given.
    """
    if any("\0" in word for word in command):
        raise ValueError(f"a NUL character cannot be part of an argument: {command!r}")
    script = _RUN_WITH_INPUT if has_input else _RUN
    limit = f"{timeout_s + _REMOTE_MARGIN_S:.3f}"
    plain = (f"{name}={value}" for name, value in PLAIN_OUTPUT.items())
    words = ("env", *plain, "sh", "-c", script, MARK + token, limit, *command)
    return f"exec {shlex.join(words)}".encode("utf-8", errors="surrogateescape")


def _open_channel(connection: SshConnection, patience_s: float) -> paramiko.Channel:
    """Ask for a session on the connection.

    Raises:
        _NothingSent: it is lost.
        HostError: the host allows no further session.
    """
    try:
        return _open_session(connection, patience_s)
    except paramiko.ChannelException as error:
        raise HostError(
            f"the SSH server has opened no further session for {_FREE_S:g} s: {error}",
            where=connection.options.name,
            hint="MaxSessions in its sshd_config may be too small",
        ) from None
    except LOST as error:
        connection.transport.close()
        raise _NothingSent(f"the connection is lost and cannot be made again: {error}") from None


def _open_session(connection: SshConnection, patience_s: float) -> paramiko.Channel:
    """Ask for a session, again while the server refuses one: those of our other threads count against its limit.

    A command that was cut off occupies its session until the host itself has ended it.
    """
    until = time.monotonic() + _FREE_S
    while True:
        try:
            return connection.transport.open_session(timeout=patience_s)
        except paramiko.ChannelException:
            if time.monotonic() > until:
                raise
            time.sleep(_LOOK_AGAIN_S)


def _end(connection: SshConnection, token: str) -> str | None:
    """End a command's processes on the host; return a clause on those left, ``None`` without an answer."""
    try:
        channel = _open_session(connection, _END_OPEN_S)
    except LOST:
        return None
    until = time.monotonic() + _END_PATIENCE_S
    with contextlib.closing(channel):
        try:
            with time_limit(_END_PATIENCE_S, connection.transport.close):
                channel.exec_command("exec " + shlex.join(end_command(token=token)))
        except LOST:
            return None
        printed = DrainedStream(channel.recv)
        if not channel.status_event.wait(until - time.monotonic()) or channel.exit_status < 0:
            return None
        printed.wait(1.0)
        return describe_left(channel.exit_status, printed.data.decode("ascii", errors="replace"))


def _feed(channel: paramiko.Channel, data: bytes) -> None:
    """Send all of standard input and its end, unless the command ends before."""
    with contextlib.suppress(*LOST):
        if data:
            channel.sendall(data)
        channel.shutdown_write()
