"""One SSH connection: made, checked, watched, and given up when the other side has fallen silent."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Final

import paramiko

from autotune.deployment.ssh_host_key import check_host_key, fetch_known_keys, preferred_types
from autotune.deployment.ssh_link import SshLink, describe_way, explain_failure, explain_words, open_link
from autotune.deployment.ssh_login import log_in
from autotune.deployment.ssh_options import SshOptions
from autotune.errors import ConnectionLostError, SshError

# The tracebacks that its thread would print are no news: every failure is raised where it matters.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

LOST: Final = (paramiko.SSHException, EOFError, OSError)
"""What the library raises when a connection is no more."""


class SshConnection:
    """One authenticated connection and the thread that sees whether it still carries bytes.

    Args:
        options: how to reach the host.
        keepalive_s: time between two questions; twice as long a silence is the end.

    Raises:
        SshError: there is no way to the host, or it does not let us in.
    """

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
        with self._asking, contextlib.suppress(*LOST):
            self.transport.global_request("keepalive@openssh.com", wait=True)

    def _watch(self) -> None:
        """Ask for an answer again and again; close the connection when none comes.

        It also keeps firewalls from forgetting the connection. TCP alone would notice a cut cable after a quarter of
        an hour.
        """
        while not self._is_closing.wait(self._keepalive_s) and self.is_alive:
            with time_limit(2 * self._keepalive_s, self._give_up):
                self.ask()
        if not self._is_closing.is_set():
            self.transport.close()

    def _give_up(self) -> None:
        self.silent_s = 2 * self._keepalive_s
        self.transport.close()


@contextlib.contextmanager
def time_limit(seconds: float, action: Callable[[], None]) -> Iterator[None]:
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
    except LOST as error:
        raise _explain(options, link, error) from None
    try:
        transport.banner_timeout = transport.auth_timeout = options.connect_timeout_s
        security = transport.get_security_options()
        security.key_types = preferred_types(known, security.key_types)
        with time_limit(3 * options.connect_timeout_s, transport.close):
            transport.start_client(timeout=options.connect_timeout_s)
            key = transport.get_remote_server_key()
            check_host_key(options, known, key.get_name(), key.asbytes())
            log_in(transport, options)
    except SshError:
        transport.close()
        raise
    except LOST as error:
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
