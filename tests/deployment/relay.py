"""A piece of network between client and server that a test can cut: with a reset, or silently."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from types import TracebackType
from typing import Self


class Relay:
    """Passes bytes between its own port and another one.

    Args:
        target_port: on the loopback address.
        idle_s: connections on which nothing is sent for so long are reset; ``None`` for never.
    """

    def __init__(self, target_port: int, *, idle_s: float | None = None) -> None:
        self._target_port = target_port
        self._idle_s = idle_s
        self.dropped = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._silent: set[socket.socket] = set()
        self.accepted = 0
        self.passed_bytes = 0

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.reset()

    def reset(self) -> None:
        """Reset every connection, as a firewall does that has forgotten it."""
        pairs, self._pairs = self._pairs, []  # first, since a client that notices may be back at once
        for pair in pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    end.shutdown(socket.SHUT_RD)
                end.close()

    def cut(self) -> None:
        """Swallow every further byte of the connections there are; new ones are not harmed."""
        self._silent |= {end for pair in self._pairs for end in pair}

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._target_port))
            self.accepted += 1
            self._pairs.append((near, far))
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._pass, args=(source, sink), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            source.settimeout(self._idle_s)
            while True:
                try:
                    data = source.recv(65536)
                except TimeoutError:
                    self.dropped += 1
                    self.reset()
                    return
                if not data:
                    break
                if source not in self._silent:
                    sink.sendall(data)
                    self.passed_bytes += len(data)
            if source not in self._silent:
                sink.shutdown(socket.SHUT_WR)
