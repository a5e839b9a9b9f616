"""The bytes between here and a host: a socket, or a jump or proxy command of OpenSSH that stands for one."""

from __future__ import annotations

import contextlib
import errno
import socket
import subprocess
from dataclasses import dataclass
from typing import Final

from autotune.deployment.drained_stream import DrainedStream, drain_pipe
from autotune.deployment.ssh_options import SshOptions, jump_command
from autotune.errors import AuthError, ConnectionLostError, HostKeyError, SshError

_PROXY_END_S: Final = 2.0
_PROXY_WORDS_BYTES: Final = 2**14


@dataclass(frozen=True, slots=True)
class SshLink:
    """An open way to a host's SSH server.

    Attributes:
        socket: what the protocol is spoken over.
        proxy: the process behind it, if there is one.
        words: what that process says on standard error.
    """

    socket: socket.socket
    proxy: subprocess.Popen[bytes] | None = None
    words: DrainedStream | None = None

    def close(self) -> None:
        """Close the socket and end the process behind it."""
        self.socket.close()
        if self.proxy is None:
            return
        self.proxy.terminate()
        try:
            self.proxy.wait(_PROXY_END_S)
        except subprocess.TimeoutExpired:
            self.proxy.kill()
            self.proxy.wait()
        if self.words is not None:
            self.words.wait(_PROXY_END_S)

    def complaint(self) -> str:
        """Return what the process behind it has said, in one line; empty when there is none."""
        if self.words is None:
            return ""
        with contextlib.suppress(subprocess.TimeoutExpired):
            if self.proxy is not None:
                self.proxy.wait(0.3)
        self.words.wait(0.3)
        return " ".join(self.words.data.decode("utf-8", errors="replace").split())[:500]


def open_link(options: SshOptions) -> SshLink:
    """Connect to the host's SSH server; nothing is said yet.

    Raises:
        ConnectionLostError: there is no way to it.
        SshError: the proxy cannot be started.
    """
    if options.proxy_jump is not None:
        return _open_proxy(options, jump_command(options))
    if options.proxy_command is not None:
        # OpenSSH hands this line to a shell as well: it is the user's own configuration.
        return _open_proxy(options, ("sh", "-c", f"exec {options.proxy_command}"))
    try:
        connected = socket.create_connection((options.hostname, options.port), timeout=options.connect_timeout_s)
    except OSError as error:
        raise explain_failure(options, error) from None
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return SshLink(connected)


def _open_proxy(options: SshOptions, command: tuple[str, ...]) -> SshLink:
    """Start a process that passes bytes on; a socket pair gives it the deadlines that pipes lack.

    When the tuner dies, its end closes, and the process ends at the end of its input.
    """
    ours, theirs = socket.socketpair()
    try:
        proxy = subprocess.Popen(
            command,
            stdin=theirs.fileno(),
            stdout=theirs.fileno(),
            stderr=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )
    except OSError as error:
        ours.close()
        raise SshError(f"cannot start {command[0]}: {error.strerror}", where=options.name) from None
    finally:
        theirs.close()
    words = drain_pipe(proxy.stderr, limit_bytes=_PROXY_WORDS_BYTES)
    return SshLink(ours, proxy, words)


def explain_failure(options: SshOptions, error: Exception) -> ConnectionLostError:
    """Say in a sentence why a host could not be connected to."""
    place = f"{options.hostname}:{options.port}"
    name = f"check the name: ssh -G {options.destination} says HostName {options.hostname}"
    if isinstance(error, socket.gaierror):
        message, hint = f"the name {options.hostname} is not known to this machine's resolver: {error.strerror}", name
    elif isinstance(error, ConnectionRefusedError):
        message, hint = (
            f"{place} refuses connections: no SSH server listens there",
            "is sshd running, is the port right?",
        )
    elif isinstance(error, TimeoutError):
        message = f"{place} did not answer within {options.connect_timeout_s:g} s"
        hint = "is the machine up, does a firewall or a VPN stand in between?"
    elif isinstance(error, OSError) and error.errno in {errno.EHOSTUNREACH, errno.ENETUNREACH}:
        message, hint = f"there is no route to {place}", "is this machine's network up, is a VPN needed?"
    else:
        message, hint = (
            f"{place} does not speak SSH, or closed the connection: {str(error) or type(error).__name__}",
            None,
        )
    return ConnectionLostError(message, where=options.name, hint=hint)


def describe_way(options: SshOptions) -> str:
    """Name the way to a host for a sentence."""
    place = f"to {options.hostname}:{options.port}"
    if options.proxy_jump is not None:
        return f"the jump {options.proxy_jump} {place}"
    return f"the ProxyCommand {place}" if options.proxy_command is not None else f"the connection {place}"


def explain_words(options: SshOptions, what: str, words: str) -> SshError:
    """Make an error of what an ``ssh`` that failed said.

    Args:
        options: of the host it was meant to reach.
        what: what has failed, as the beginning of a sentence.
        words: what it said on standard error.
    """
    message = f"{what}: {words or 'it said nothing'}"
    if "Host key verification failed" in words:
        by_hand = "connect once by hand with ssh, compare the key and accept it"
        return HostKeyError(message, where=options.name, hint=by_hand)
    if "Permission denied" in words:
        return AuthError(message, where=options.name, hint="ssh-add the key, or name it with IdentityFile")
    hint = None if words else f"see what happens by hand: ssh {options.destination} true; echo $?"
    return ConnectionLostError(message, where=options.name, hint=hint)
