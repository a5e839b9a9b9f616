"""How do bytes come from a socket, and exactly when did they arrive?

Linux stamps data as it arrives, and a read can ask for the stamp of its last byte: the time is then exact even where
the reader comes late, because the machine it shares with the server is busy. Encrypted data is stamped when it is read.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
import time
from collections.abc import Callable
from typing import Any, Protocol, cast

from autotune.benchmark.lateness import LatenessRecorder

_SO_TIMESTAMPNS = 35
"""``SO_TIMESTAMPNS_OLD`` of ``asm-generic/socket.h``; Python does not name it. Its message is a ``struct timespec``."""
_TIMESPEC = struct.Struct("@ll")
_READ_BYTES = 1 << 16
_ANCILLARY_BYTES = socket.CMSG_SPACE(_TIMESPEC.size)
_LONGEST_WAIT_S = 60.0
"""A longer wait is a wall clock that was set in between."""


class Receiver(Protocol):
    """Who is told what a link received."""

    def receive(self, data: bytes, at_s: float) -> None:
        """Take data; ``at_s`` is a reading of the link's clock."""

    def lose(self, error: Exception | None) -> None:
        """Take the end of the connection; ``None`` when the peer closed it. Not called after :meth:`Link.abort`."""


class Link(Protocol):
    """One connection."""

    @property
    def is_closed(self) -> bool:
        """True once nothing can be written any more."""

    async def write(self, data: bytes) -> None:
        """Write all of it.

        Raises:
            OSError: the connection is gone.
        """

    def abort(self) -> None:
        """Close at once."""


class PlainLink:
    """A TCP connection that is read as the kernel stamps it."""

    def __init__(
        self, sock: socket.socket, receiver: Receiver, clock: Callable[[], float], lateness: LatenessRecorder
    ) -> None:
        self._sock = sock
        self._receiver = receiver
        self._clock = clock
        self._lateness = lateness
        self._last_at_s = 0.0
        self._writable: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()
        self.is_closed = False
        self._loop.add_reader(sock.fileno(), self._read)

    async def write(self, data: bytes) -> None:
        """Write all of it."""
        rest = memoryview(data)
        while True:
            if self.is_closed:
                raise BrokenPipeError("the connection is closed")
            with contextlib.suppress(BlockingIOError):
                rest = rest[self._sock.send(rest) :]
            if not rest:
                return
            self._writable = self._loop.create_future()
            self._loop.add_writer(self._sock.fileno(), self._go_on)
            try:
                await self._writable
            finally:
                self._writable = None
                if not self.is_closed:
                    self._loop.remove_writer(self._sock.fileno())

    def abort(self) -> None:
        """Close at once; whoever is writing is told."""
        if not self.is_closed:
            self.is_closed = True
            self._loop.remove_reader(self._sock.fileno())
            self._loop.remove_writer(self._sock.fileno())
            self._sock.close()
            self._go_on()

    def _go_on(self) -> None:
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)

    def _read(self) -> None:
        try:
            data, messages, _flags, _address = self._sock.recvmsg(_READ_BYTES, _ANCILLARY_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._end(error)
            return
        if not data:
            self._end(None)
            return
        at_s = self._clock()
        if messages:
            seconds, nanoseconds = _TIMESPEC.unpack_from(messages[0][2])
            wait_s = time.time() - seconds - nanoseconds * 1e-9
            if wait_s < _LONGEST_WAIT_S:
                wait_s = max(0.0, wait_s)
                at_s = max(at_s - wait_s, self._last_at_s)
                self._lateness.add(wait_s)
            else:
                self._lateness.add_unstamped()
        else:
            self._lateness.add_unstamped()
        self._last_at_s = at_s
        try:
            self._receiver.receive(data, at_s)
        except Exception as error:
            self._end(error)  # nobody would be woken otherwise
            raise

    def _end(self, error: Exception | None) -> None:
        if not self.is_closed:
            self.abort()
            self._receiver.lose(error)


class TlsLink(asyncio.Protocol):
    """An encrypted connection; times are those of reading."""

    def __init__(self, receiver: Receiver, clock: Callable[[], float], lateness: LatenessRecorder) -> None:
        self._receiver = receiver
        self._clock = clock
        self._lateness = lateness
        self._transport: asyncio.Transport | None = None
        self._is_aborted = False

    @property
    def is_closed(self) -> bool:
        """True once nothing can be written any more."""
        return self._transport is None or self._transport.is_closing()

    async def write(self, data: bytes) -> None:
        """Write all of it, sooner or later."""
        if self._transport is None or self._transport.is_closing():
            raise BrokenPipeError("the connection is closed")
        self._transport.write(data)

    def abort(self) -> None:
        """Close at once."""
        self._is_aborted = True
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep what writes (called by the event loop)."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Hand data on (called by the event loop)."""
        self._lateness.add_unstamped()
        self._receiver.receive(data, self._clock())

    def connection_lost(self, exc: Exception | None) -> None:
        """Hand the end on (called by the event loop)."""
        if not self._is_aborted:
            self._receiver.lose(exc)


async def open_link(
    host: str,
    port: int,
    receiver: Receiver,
    *,
    clock: Callable[[], float],
    lateness: LatenessRecorder,
    tls: ssl.SSLContext | None = None,
) -> Link:
    """Connect to the first address of a host that takes the connection.

    Args:
        host: name or address.
        port: of TCP.
        receiver: is told what comes.
        clock: monotonic seconds.
        lateness: is told how long it waited.
        tls: encrypts, and checks the host's name.

    Raises:
        OSError: no address took the connection, or the certificate is refused.
    """
    loop = asyncio.get_running_loop()
    if tls is not None:
        _transport, link = await loop.create_connection(lambda: TlsLink(receiver, clock, lateness), host, port, ssl=tls)
        return link
    failure: OSError | None = None
    for family, kind, protocol, _name, address in await _find_addresses(host, port):
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
            await loop.sock_connect(sock, address)
        except OSError as error:
            sock.close()
            failure = failure or error
        except BaseException:
            sock.close()
            raise
        else:
            return PlainLink(sock, receiver, clock, lateness)
    raise failure or OSError(f"{host} has no address")


async def _find_addresses(host: str, port: int) -> list[Any]:
    """The addresses of a host; one that is written as an address asks nobody and waits for no thread."""
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        return await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
