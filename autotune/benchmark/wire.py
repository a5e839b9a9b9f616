"""How do the bytes of an HTTP/1.1 answer reach us, and when, at little cost per read?

A transport for httpx, which builds requests and holds responses, and beneath it an exchange of bytes without httpx's work
for each request, for loads. :mod:`autotune.benchmark.socket_link` opens and reads the sockets, httptools parses what comes,
and nobody is woken for a read that nobody waits for. Everything raised is an httpx exception.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

import httptools
import httpx

from autotune.benchmark.lateness import LatenessRecorder
from autotune.benchmark.socket_link import Link, open_link

Origin = tuple[str, str, int]
"""Scheme, host and port."""

_PORTS = {"http": 80, "https": 443}
_LARGEST_HEAD = 1 << 16
_TERMINATORS = ("transfer-encoding", "content-length")


class Arrivals(httpx.AsyncByteStream):
    """The body of one response as pieces with their arrival times.

    ``on_data`` is called in the event loop for each piece, and the pieces are not kept; without it they wait for
    iteration, as httpx expects.

    Attributes:
        received: bytes of body so far.
        last_at_s: arrival of the last piece; ``None`` before the first.
    """

    def __init__(self, connection: _Connection, release: Callable[[_Connection], None]) -> None:
        self._connection = connection
        self._release: Callable[[_Connection], None] | None = release
        self._pieces: list[tuple[bytes, float]] = []
        self._on_data: Callable[[bytes, float], None] | None = None
        self._wake: asyncio.Future[None] | None = None
        self._over = False
        self._error: httpx.TransportError | None = None
        self.received = 0
        self.last_at_s: float | None = None

    def add(self, data: bytes, at_s: float) -> None:
        """Take one piece (called by the connection)."""
        self.received += len(data)
        self.last_at_s = at_s
        if self._on_data is not None:
            self._on_data(data, at_s)
            return
        self._pieces.append((data, at_s))
        self._notify()

    def end(self, error: httpx.TransportError | None = None) -> None:
        """Take the end of the body (called by the connection)."""
        if not self._over:
            self._over, self._error = True, error
            self._notify()

    async def drain(self, on_data: Callable[[bytes, float], None]) -> None:
        """Hand every piece to ``on_data`` as it arrives and return when the body has ended.

        Raises:
            httpx.TransportError: the connection broke before the body ended.
        """
        self._on_data = on_data
        pieces, self._pieces = self._pieces, []
        for data, at_s in pieces:
            on_data(data, at_s)
        while not self._over:
            await self._sleep()
        if self._error is not None:
            raise self._error

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the pieces, as httpx does for every body."""
        while True:
            pieces, self._pieces = self._pieces, []
            for data, _at_s in pieces:
                yield data
            if self._pieces:
                continue
            if self._over:
                break
            await self._sleep()
        if self._error is not None:
            raise self._error

    async def aclose(self) -> None:
        """Give the connection back when the body was read to its end, close it otherwise."""
        if self._release is not None:
            release, self._release = self._release, None
            release(self._connection)

    def _notify(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def _sleep(self) -> None:
        self._wake = asyncio.get_running_loop().create_future()
        try:
            await self._wake
        finally:
            self._wake = None


class Answer(NamedTuple):
    """An answer whose headers are there, and whose body is coming."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: Arrivals

    def find(self, name: str) -> str:
        """The value of a header; empty when there is none."""
        wanted = name.encode("ascii")
        return next((value.decode("latin-1") for key, value in self.headers if key.lower() == wanted), "")


class _Connection:
    """One connection: writes one request at a time and feeds its answer to :class:`Arrivals`."""

    def __init__(self) -> None:
        self._at_s = 0.0
        self._parser = httptools.HttpResponseParser(self)
        self._link: Link | None = None
        self._head: asyncio.Future[None] | None = None
        self._body: Arrivals | None = None
        self._complete = False
        self._until_close = False
        self._delimited = False
        self._head_bytes = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.is_reusable = False
        self.has_answer = False

    # for the link

    def receive(self, data: bytes, at_s: float) -> None:
        self._at_s = at_s
        self.has_answer = True
        if self._head is None or self._complete:  # the server talks out of turn
            self.close()
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(httpx.RemoteProtocolError(f"answer is not HTTP/1.1: {error}"))

    def lose(self, error: Exception | None) -> None:
        self.is_reusable = False
        if self._complete:
            return
        if error is None and self._until_close and self._body is not None:
            self._complete = True
            self._body.end()
            return
        what = f"connection lost: {error}" if error else "server closed the connection before the answer ended"
        self._fail(httpx.ReadError(what) if error else httpx.RemoteProtocolError(what))

    # httptools callbacks

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_bytes += len(name) + len(value)
        if self._head_bytes > _LARGEST_HEAD:
            self._fail(httpx.RemoteProtocolError(f"headers larger than {_LARGEST_HEAD} bytes"))
            return
        self.headers.append((name, value))
        if name.lower().decode("latin-1") in _TERMINATORS:
            self._delimited = True

    def on_headers_complete(self) -> None:
        if self._parser.get_status_code() < 200:
            self.headers = []
            return
        self._until_close = not self._delimited
        if self._head is not None and not self._head.done():
            self._head.set_result(None)

    def on_body(self, body: bytes) -> None:
        if self._body is not None:
            self._body.add(body, self._at_s)

    def on_message_complete(self) -> None:
        if self._parser.get_status_code() < 200:
            return
        self._complete = True
        self.is_reusable = self._parser.should_keep_alive() and not self._until_close
        if self._body is not None:
            self._body.end()

    # for the transport

    def attach(self, link: Link) -> None:
        self._link = link

    async def send(
        self, head: bytes, content: bytes, release: Callable[[_Connection], None], on_sent: Callable[[], None]
    ) -> Answer:
        """Write a request and return its answer as soon as the headers are there."""
        if self._link is None or self._link.is_closed:
            raise httpx.WriteError("the connection is closed")
        self._parser = httptools.HttpResponseParser(self)
        self.headers = []
        self._head_bytes = 0
        self._complete = self._until_close = self._delimited = self.is_reusable = self.has_answer = False
        self._body = Arrivals(self, release)
        self._head = asyncio.get_running_loop().create_future()
        on_sent()
        try:
            await self._link.write(head + content)
        except OSError as error:
            if not self._head.done():  # a server that refuses a request may answer before it has read it
                raise httpx.WriteError(f"connection lost: {error}") from error
        await self._head
        return Answer(self._parser.get_status_code(), self.headers, self._body)

    def close(self) -> None:
        self.is_reusable = False
        if self._link is not None:
            self._link.abort()

    def _fail(self, error: httpx.TransportError) -> None:
        self._complete = True
        if self._head is not None and not self._head.done():
            self._head.set_exception(error)
        if self._body is not None:
            self._body.end(error)
        self.close()


def find_origin(url: httpx.URL) -> Origin:
    """Say where a URL leads.

    Raises:
        httpx.UnsupportedProtocol: neither ``http`` nor ``https``.
    """
    if url.scheme not in _PORTS:
        raise httpx.UnsupportedProtocol(f"only http:// and https:// are spoken here, not {url.scheme}://")
    return url.scheme, url.host, url.port or _PORTS[url.scheme]


def render_head(request: httpx.Request) -> bytes:
    """Write request line and headers as they are sent."""
    line = f"{request.method} {request.url.raw_path.decode('ascii')} HTTP/1.1".encode("ascii")
    return b"\r\n".join([line, *(name + b": " + value for name, value in request.headers.raw), b"", b""])


class WireTransport(httpx.AsyncBaseTransport):
    """Opens HTTP/1.1 connections, keeps idle ones, and gives each response an :class:`Arrivals` body.

    Only the ``connect`` part of httpx's time limits acts here: later limits need to know tokens from bytes and belong
    to the client.

    Args:
        clock: monotonic seconds, stamps what arrives.
        lateness: is told how late that was read.
    """

    def __init__(self, clock: Callable[[], float], lateness: LatenessRecorder | None = None) -> None:
        self._clock = clock
        self._lateness = lateness or LatenessRecorder()
        self._tls: ssl.SSLContext | None = None
        self._idle: dict[Origin, list[_Connection]] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request of httpx.

        Raises:
            httpx.TransportError: not connected, not HTTP, or lost.
        """
        content = await request.aread()
        if "transfer-encoding" in request.headers:  # the body is known by now
            del request.headers["transfer-encoding"]
            request.headers["content-length"] = str(len(content))
        connect_s = request.extensions.get("timeout", {}).get("connect")
        answer = await self.exchange(find_origin(request.url), render_head(request), content, connect_s=connect_s)
        return httpx.Response(answer.status, headers=answer.headers, stream=answer.body, request=request)

    async def exchange(
        self,
        origin: Origin,
        head: bytes,
        content: bytes,
        *,
        connect_s: float | None,
        on_sent: Callable[[float], None] = lambda _at_s: None,
    ) -> Answer:
        """Send one request and return its answer as soon as the headers are there; whoever gets it closes its body.

        Args:
            origin: where to.
            head: request line and headers, as they are sent.
            content: the body.
            connect_s: limit for connecting.
            on_sent: called with the moment of writing: connecting is not the server's time to answer.

        Raises:
            httpx.TransportError: not connected, not HTTP, or lost.
        """

        def release(connection: _Connection) -> None:
            if connection.is_reusable:
                self._idle.setdefault(origin, []).append(connection)
            else:
                connection.close()

        while True:
            kept = self._take_idle(origin)
            connection = kept or await self._connect(origin, connect_s)
            try:
                return await connection.send(head, content, release, lambda: on_sent(self._clock()))
            except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
                connection.close()
                if kept is None or connection.has_answer:
                    raise
                # A server may close an idle connection at any moment: nothing of this request was answered.
            except BaseException:
                connection.close()
                raise

    async def aclose(self) -> None:
        """Close the idle connections."""
        for connections in self._idle.values():
            for connection in connections:
                connection.close()
        self._idle = {}
        await asyncio.sleep(0)

    def _take_idle(self, origin: Origin) -> _Connection | None:
        idle = self._idle.get(origin, [])
        while idle:
            connection = idle.pop()
            if connection.is_reusable:
                return connection
        return None

    async def _connect(self, origin: Origin, limit_s: float | None) -> _Connection:
        scheme, host, port = origin
        if scheme == "https" and self._tls is None:
            self._tls = ssl.create_default_context()
        connection = _Connection()
        try:
            async with asyncio.timeout(limit_s):
                link = await open_link(
                    host,
                    port,
                    connection,
                    clock=self._clock,
                    lateness=self._lateness,
                    tls=self._tls if scheme == "https" else None,
                )
        except TimeoutError as error:
            raise httpx.ConnectTimeout(f"no connection within {limit_s} s") from error
        except OSError as error:
            raise httpx.ConnectError(str(error) or type(error).__name__) from error
        connection.attach(link)
        return connection
