"""Commands on another machine over one SSH connection that is watched, and made again when it was lost."""

from __future__ import annotations

import contextlib
import logging
import secrets
import shlex
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Final, Self

import paramiko

from autotune.deployment.command_end import MARK, describe_left, end_command
from autotune.deployment.drained_stream import DrainedStream, wait_for_rest
from autotune.deployment.host import CommandOutput, Host
from autotune.deployment.ssh_host_key import check_host_key, fetch_known_keys, preferred_types
from autotune.deployment.ssh_link import SshLink, describe_way, explain_failure, explain_words, open_link
from autotune.deployment.ssh_login import log_in
from autotune.deployment.ssh_options import SshOptions, fetch_ssh_options
from autotune.errors import ConnectionLostError, HostError, RemoteTimeout, SshError

# The tracebacks that its thread would print are no news: every failure is raised where it matters.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

_OPEN_S: Final = 10.0
"""Longest wait for the host to open a session, and to start a command; with a living link both take one round trip."""
_END_PATIENCE_S: Final = 15.0
_END_OPEN_S: Final = 2.5
_REST_PATIENCE_S: Final = 60.0
_REMOTE_MARGIN_S: Final = 10
"""How much later than ours the deadline on the host itself is: it counts only when the link is gone."""

_LOST = (paramiko.SSHException, EOFError, OSError)

_RUN: Final = 'limit=$1; shift; timeout -k 5 "$limit" "$@"; exit $?'
_RUN_WITH_INPUT: Final = 'limit=$1; shift; cat | timeout -k 5 "$limit" "$@"; exit $?'
"""What runs a command there. With input, it reads a pipe: some SSH servers give a socket, which cannot be opened again
as ``/dev/stdin``. The shell stays to turn an end by signal N into the exit code 128 + N."""


class _NothingSent(Exception):  # never leaves this module
    """The connection was lost before the command was sent, so that sending it is still safe."""


class _Connection:
    """One authenticated connection and the thread that sees whether it still carries bytes."""

    def __init__(self, options: SshOptions, keepalive_s: float) -> None:
        self.options = options
        self._keepalive_s = keepalive_s
        self._is_closing = threading.Event()
        self._asking = threading.Lock()
        self.silent_s: float | None = None
        self._link = open_link(options)
        try:
            self.transport = _speak(options, self._link)
        except BaseException:
            self._link.close()
            raise
        self._watcher = threading.Thread(target=self._watch, name=f"ssh-keepalive {options.name}", daemon=True)
        self._watcher.start()

    @property
    def is_alive(self) -> bool:
        """Whether nothing has shown yet that it is lost."""
        return self.transport.is_active()

    def close(self) -> None:
        """End it, and everything that waits for it."""
        self._is_closing.set()
        self.transport.close()
        self._link.close()

    def lost(self, doing: str) -> ConnectionLostError:
        """Return the error for a connection that was lost."""
        why = f"the host has been silent for {self.silent_s:g} s" if self.silent_s is not None else "it was closed"
        return ConnectionLostError(f"the connection was lost {doing}: {why}", where=self.options.name)

    def ask(self) -> None:
        """Wait for an answer of the server, or for the end of the connection.

        What the server sent before the answer has arrived then.
        """
        with self._asking, contextlib.suppress(*_LOST):
            self.transport.global_request("keepalive@openssh.com", wait=True)

    def _watch(self) -> None:
        """Ask for an answer again and again; close the connection when none comes.

        It also keeps firewalls from forgetting the connection. TCP alone would notice a cut cable after a quarter of
        an hour.
        """
        while not self._is_closing.wait(self._keepalive_s) and self.is_alive:
            with _deadline(2 * self._keepalive_s, self._give_up):
                self.ask()
        if not self._is_closing.is_set():
            self.transport.close()

    def _give_up(self) -> None:
        self.silent_s = 2 * self._keepalive_s
        self.transport.close()


@contextlib.contextmanager
def _deadline(seconds: float, action: Callable[[], None]) -> Iterator[None]:
    """Call something from another thread when the body takes too long."""
    timer = threading.Timer(max(seconds, 0.0), action)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _speak(options: SshOptions, link: SshLink) -> paramiko.Transport:
    """Agree on keys, check the host's, log in.

    Raises:
        HostKeyError: it is not the host we know.
        AuthError: it does not let us in.
        ConnectionLostError: it does not answer, or not as an SSH server.
    """
    known = fetch_known_keys(options)
    try:
        transport = paramiko.Transport(link.socket)
    except _LOST as error:
        raise _explain(options, link, error) from None
    try:
        transport.banner_timeout = transport.auth_timeout = options.connect_timeout_s
        security = transport.get_security_options()
        security.key_types = preferred_types(known, security.key_types)
        with _deadline(3 * options.connect_timeout_s, transport.close):
            transport.start_client(timeout=options.connect_timeout_s)
            key = transport.get_remote_server_key()
            check_host_key(options, known, key.get_name(), key.asbytes())
            log_in(transport, options)
    except SshError:
        transport.close()
        raise
    except _LOST as error:
        transport.close()
        raise _explain(options, link, error) from None
    except BaseException:
        transport.close()
        raise
    return transport


def _explain(options: SshOptions, link: SshLink, error: Exception) -> SshError:
    if link.proxy is None:
        return explain_failure(options, error)
    return explain_words(
        options, f"{describe_way(options)} gave no connection", link.complaint() or str(error) or type(error).__name__
    )


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
        self._connection: _Connection | None = None
        self._user_id: int | None = None

    def __enter__(self) -> Self:
        """Connect; see :meth:`Host.__enter__`."""
        self._connected()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Disconnect."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    @property
    def user_id(self) -> int:
        """The user id on the machine, asked once."""
        if self._user_id is None:
            output = self.expect(("id", "-u"), self.run(("id", "-u"), is_idempotent=True))
            try:
                self._user_id = int(output.text)
            except ValueError:
                raise HostError(
                    f"id -u printed {output.text[:200]!r} instead of a number",
                    where=self.name,
                    hint="the login shell must print nothing of its own (look into ~/.bashrc)",
                ) from None
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

    def _connected(self) -> _Connection:
        """Return a connection that is not known to be lost; make one if there is none."""
        with self._lock:
            if self._connection is not None and not self._connection.is_alive:
                self._connection.close()
                self._connection = None
            if self._connection is None:
                self._connection = _Connection(self.options, self._keepalive_s)
            return self._connection

    def _run(self, connection: _Connection, command: Sequence[str], stdin: bytes, timeout_s: float) -> CommandOutput:
        token = secrets.token_hex(8)
        line = render_command(command, token, timeout_s, has_input=bool(stdin))
        with contextlib.closing(_open_channel(connection)) as channel:
            until = time.monotonic() + timeout_s
            try:
                with _deadline(max(timeout_s, _OPEN_S), connection.transport.close):
                    channel.exec_command(line)
            except _LOST:
                raise connection.lost(f"while {command[0]} was started, and whether it ran is unknown") from None
            return self._finish(connection, channel, command, token, stdin, until, timeout_s)

    def _finish(
        self,
        connection: _Connection,
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
            raise RemoteTimeout(f"{what} and was ended{describe_left(left)}", where=self.name)
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
    words = ("env", "LC_ALL=C", "sh", "-c", script, MARK + token, limit, *command)
    return f"exec {shlex.join(words)}".encode("utf-8", errors="surrogateescape")


def _open_channel(connection: _Connection) -> paramiko.Channel:
    """Ask for a session on the connection.

    Raises:
        _NothingSent: it is lost.
        HostError: the host allows no further session.
    """
    try:
        return connection.transport.open_session(timeout=_OPEN_S)
    except paramiko.ChannelException as error:
        raise HostError(
            f"the SSH server opens no further session: {error}",
            where=connection.options.name,
            hint="MaxSessions in its sshd_config may be too small",
        ) from None
    except _LOST as error:
        connection.transport.close()
        raise _NothingSent(f"the connection is lost and cannot be made again: {error}") from None


def _end(connection: _Connection, token: str) -> str | None:
    """End a command's processes on the host; return what :func:`end_command` prints, ``None`` without an answer."""
    until = time.monotonic() + _END_PATIENCE_S
    try:
        channel = connection.transport.open_session(timeout=_END_OPEN_S)
    except _LOST:
        return None
    with contextlib.closing(channel):
        try:
            with _deadline(_END_PATIENCE_S, connection.transport.close):
                channel.exec_command("exec " + shlex.join(end_command(token=token)))
        except _LOST:
            return None
        printed = DrainedStream(channel.recv)
        if not channel.status_event.wait(until - time.monotonic()) or channel.exit_status < 0:
            return None
        printed.wait(1.0)
        return printed.data.decode("ascii", errors="replace")


def _feed(channel: paramiko.Channel, data: bytes) -> None:
    """Send all of standard input and its end, unless the command ends before."""
    with contextlib.suppress(*_LOST):
        if data:
            channel.sendall(data)
        channel.shutdown_write()
