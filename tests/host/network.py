"""The network of the lab: namespaces joined by a bridge, without a route to anywhere else.

This machine's own namespace gets no interface, address or route, so that a packet of a test can never leave the machine.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import threading
from pathlib import Path
from typing import Final

from tests.host.commands import run_command

NEW_NETWORK: Final = 0x40000000  # CLONE_NEWNET of setns(2)
_libc = ctypes.CDLL(None, use_errno=True)
_namespace_switch = threading.Lock()


class LabNetwork:
    """One namespace with a bridge; every host has a namespace of its own and one cable to the bridge.

    Attributes:
        namespace: name of the lab's namespace, for ``ip netns exec``.
    """

    def __init__(self, name: str, prefix: str = "10.213.77") -> None:
        self.namespace = f"{name}-lab"
        self.prefix = prefix
        run_command(["ip", "netns", "add", self.namespace])
        self._configure(self.namespace, "link", "set", "lo", "up")
        self._configure(self.namespace, "link", "add", "br0", "type", "bridge")
        self._configure(self.namespace, "addr", "add", f"{prefix}.1/24", "dev", "br0")
        self._configure(self.namespace, "link", "set", "br0", "up")

    def add_host(self, namespace: str, address: str) -> None:
        """Make the namespace of a host, with ``eth0`` and a cable to the bridge."""
        run_command(["ip", "netns", "add", namespace])
        cable = _name_cable(address)
        self._configure(
            self.namespace, "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", namespace
        )
        self._configure(self.namespace, "link", "set", cable, "master", "br0", "up")
        self._configure(namespace, "addr", "add", f"{address}/24", "dev", "eth0")
        self._configure(namespace, "link", "set", "eth0", "up")
        self._configure(namespace, "link", "set", "lo", "up")

    def set_cable(self, address: str, is_plugged: bool) -> None:
        """Plug or pull the cable of a host; once it is plugged in, the host can be reached at once."""
        self._configure(self.namespace, "link", "set", _name_cable(address), "up" if is_plugged else "down")
        if is_plugged:  # whoever asked for the address before would fail whoever asks now: "No route to host"
            self._configure(self.namespace, "neigh", "flush", "dev", "br0")

    def connect(self, address: str, port: int, timeout_s: float = 10.0) -> socket.socket:
        """Open a TCP connection from inside the lab; the socket is usable in this process.

        Raises:
            OSError: it cannot be opened.
        """
        with (
            _namespace_switch,
            Path("/proc/thread-self/ns/net").open() as own,
            Path(f"/run/netns/{self.namespace}").open() as lab,
        ):
            if _libc.setns(lab.fileno(), NEW_NETWORK):
                raise OSError(ctypes.get_errno(), "setns")
            try:
                connection = socket.socket()
            finally:
                if _libc.setns(own.fileno(), NEW_NETWORK):
                    os._exit(70)  # a thread that stays in the wrong namespace would make every later test lie
        connection.settimeout(timeout_s)
        try:
            connection.connect((address, port))
        except OSError:
            connection.close()
            raise
        return connection

    def remove(self) -> None:
        """Delete the lab's namespace, with its bridge and cables."""
        run_command(["ip", "netns", "del", self.namespace], check=False)

    @staticmethod
    def _configure(namespace: str, *arguments: str) -> None:
        run_command(["ip", "-n", namespace, *arguments])


class Relay:
    """A port of this machine's loopback that leads to a port inside the lab.

    Attributes:
        port: where it listens on 127.0.0.1.
    """

    def __init__(self, network: LabNetwork, address: str, port: int) -> None:
        self._network, self._address, self._port = network, address, port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Stop listening and end all connections."""
        for end in (self._listener, *self._open):
            _shut(end)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        try:
            far = self._network.connect(self._address, self._port)
        except OSError:
            near.close()
            return
        far.settimeout(None)
        self._open |= {near, far}
        back = threading.Thread(target=_pump, args=(far, near), daemon=True)
        back.start()
        _pump(near, far)
        back.join()
        for end in (near, far):
            self._open.discard(end)
            end.close()


def _pump(source: socket.socket, target: socket.socket) -> None:
    """Copy bytes until one side ends."""
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
        return
    _shut(source)
    _shut(target)


def _shut(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)


def _name_cable(address: str) -> str:
    return "cable" + address.rsplit(".", maxsplit=1)[-1]
