"""A port of this machine that leads to one of another, kept by an OpenSSH process that ends when we do."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from types import TracebackType
from typing import Final, Self

from autotune.deployment.drained_stream import DrainedStream, drain_pipe
from autotune.deployment.guard import find_descendants
from autotune.deployment.process import find_listener
from autotune.deployment.ssh_link import explain_words
from autotune.deployment.ssh_options import SshOptions, config_arguments, unattended
from autotune.errors import ConnectionLostError, SshError

_PORT_ATTEMPTS: Final = 3
_TICK_S: Final = 0.02
_END_PATIENCE_S: Final = 2.0
_WORDS_BYTES: Final = 2**14
_FORBIDDEN: Final = b"administratively prohibited"
_PORT_TAKEN: Final = ("Address already in use", "cannot listen to port")

_GUARD: Final = """
exec 3<&0
"$@" <&3 3<&- & tunnel=$!
{ read -r _ <&3; kill "$tunnel"; } 2>/dev/null & reader=$!
wait "$tunnel"; code=$?
kill "$reader" 2>/dev/null
exit "$code"
"""
"""Ends the tunnel at the end of its standard input, which comes however the tuner dies."""


class Tunnel:
    """An ``ssh -L`` beside a remote ``cat``; entering opens it, leaving ends it.

    With ``-N``, which opens no session, neither side sets ``TCP_NODELAY`` on the connection: chunks of a stream then wait
    up to 40 ms for each other. ``cat`` ends with our end of its input.

    Args:
        options: how to reach the host.
        target: address as the host sees it.
        target_port: port there.
    """

    def __init__(self, options: SshOptions, target: str, target_port: int) -> None:
        self._options = options
        self._target = target
        self._target_port = target_port
        self._process: subprocess.Popen[bytes] | None = None
        self._words: DrainedStream | None = None
        self.port = 0

    def __enter__(self) -> Self:
        """Open it.

        Raises:
            SshError: there is no way to the host.
        """
        for attempt in range(_PORT_ATTEMPTS):
            with socket.create_server(("127.0.0.1", 0)) as listener:
                self.port = int(listener.getsockname()[1])
            try:
                self._open()
            except ConnectionLostError as error:
                if attempt == _PORT_ATTEMPTS - 1 or not any(words in str(error) for words in _PORT_TAKEN):
                    raise
            else:
                break
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it."""
        self._close()

    @property
    def is_open(self) -> bool:
        """Whether its process lives; a link that is silent for three keepalives ends it."""
        return self._process is not None and self._process.poll() is None

    def ensure(self) -> bool:
        """Open it again, on the same port, if it has ended; return whether it had.

        Raises:
            SshError: there is no way to the host, the port is taken by now, or the host forbids tunnels.
        """
        if self.is_open:
            self._refuse_forbidden()
            return False
        self._close()
        self._open()
        return True

    def render(self) -> tuple[str, ...]:
        """Return the command of the tunnel."""
        target = f"[{self._target}]" if ":" in self._target else self._target
        return (
            "ssh",
            *config_arguments(self._options.config),
            *unattended(self._options),
            *("-o", "ExitOnForwardFailure=yes", "-o", "PermitLocalCommand=no", "-o", "RemoteCommand=none"),
            *(
                "-o",
                "ForkAfterAuthentication=no",
                "-o",
                "ForwardAgent=no",
                "-o",
                "ForwardX11=no",
                "-o",
                "LogLevel=INFO",
            ),
            *("-T", "-L", f"127.0.0.1:{self.port}:{target}:{self._target_port}"),
            *("--", self._options.destination, "cat"),
        )

    def _open(self) -> None:
        process = subprocess.Popen(
            ("sh", "-c", _GUARD, "tunnel", *self.render()),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )
        words = drain_pipe(process.stderr, limit_bytes=_WORDS_BYTES)
        self._process, self._words = process, words
        until = time.monotonic() + 2 * self._options.connect_timeout_s
        while not self._listens(process):
            is_late = time.monotonic() > until
            if process.poll() is not None or is_late:
                if not is_late:
                    words.wait(_END_PATIENCE_S)
                said = " ".join(words.data.decode("utf-8", errors="replace").split())[:500]
                self._close()
                late = f"; nothing listened after {2 * self._options.connect_timeout_s:g} s" if is_late else ""
                raise explain_words(self._options, f"the tunnel to {self._options.hostname} did not open", said + late)
            time.sleep(_TICK_S)

    def _refuse_forbidden(self) -> None:
        """See that the SSH server passes connections on; it says so only when the first one is made."""
        if self._words is not None and _FORBIDDEN in self._words.data:
            raise SshError(
                f"the SSH server does not allow a tunnel to {self._target}:{self._target_port}",
                where=self._options.name,
                hint="see AllowTcpForwarding and PermitOpen in its sshd_config, and the line of the key in authorized_keys; "
                'else set deployment.data_path = "direct", or run on the host itself',
            )

    def _listens(self, process: subprocess.Popen[bytes]) -> bool:
        """Whether our own process, and not another one, listens on the port."""
        listener = find_listener("127.0.0.1", self.port)
        if listener is None or process.poll() is not None:
            return False
        if listener.pid is None:  # a system that hides the descriptors of programs with keys, even from their user
            return listener.user == os.getuid()
        return listener.pid in find_descendants(process.pid)

    def _close(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(_END_PATIENCE_S)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if self._words is not None:
            self._words.wait(_END_PATIENCE_S)
