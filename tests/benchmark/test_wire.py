"""The reader is fed by hand here; over sockets it is tested with the client and the benchmark."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.benchmark.wire import WireTransport

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-A: b\r\n\r\n3\r\nabc\r\n2;ext=1\r\nde\r\n0\r\n\r\n"
SIZED = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde"
CLOSED = b"HTTP/1.1 200 OK\r\n\r\nabcde"
CONTINUED = b"HTTP/1.1 100 Continue\r\n\r\n" + SIZED


async def fetch(answer: bytes, sizes: list[int], *, requests: int = 1) -> tuple[list[tuple[int, bytes]], int]:
    """Serve ``answer`` to every request, cut into pieces of ``sizes``; return what httpx saw and the connections."""
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                rest = answer
                for size in [*sizes, len(answer)]:
                    piece, rest = rest[:size], rest[size:]
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)
                if answer == CLOSED or b"HTTP/1.1 " not in answer:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/x?y=1"
    seen: list[tuple[int, bytes]] = []
    try:
        async with httpx.AsyncClient(transport=WireTransport(lambda: 1.0), trust_env=False) as client:
            for _ in range(requests):
                response = await client.get(url)
                seen.append((response.status_code, response.content))
    finally:
        server.close()
        await server.wait_closed()
        await asyncio.sleep(0.01)
    return seen, connections


@pytest.mark.parametrize("answer", [CHUNKED, SIZED, CLOSED, CONTINUED])
@pytest.mark.parametrize("sizes", [[], [1] * 200, [7, 3, 50]], ids=["whole", "bytewise", "pieces"])
def test_a_body_is_whole_however_it_is_cut(answer: bytes, sizes: list[int]):
    """case 15."""
    seen, _connections = asyncio.run(fetch(answer, sizes))

    assert seen == [(200, b"abcde")]


def test_a_connection_is_used_again():
    seen, connections = asyncio.run(fetch(CHUNKED, [], requests=3))

    assert seen == [(200, b"abcde")] * 3
    assert connections == 1


def test_a_connection_whose_body_ended_with_it_is_not_used_again():
    seen, connections = asyncio.run(fetch(CLOSED, [], requests=2))

    assert seen == [(200, b"abcde")] * 2
    assert connections == 2


async def ask_twice(first: bytes, later: bytes) -> tuple[list[bytes], int]:
    """Serve ``first`` to the first request of a connection and ``later`` to the next; nothing ends a connection."""
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            for answer in (first, later):
                await reader.readuntil(b"\r\n\r\n")
                writer.write(answer)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    try:
        async with httpx.AsyncClient(transport=WireTransport(lambda: 1.0), trust_env=False) as client:
            return [(await client.get(url)).content for _ in range(2)], connections
    finally:
        server.close()
        await asyncio.sleep(0.01)


def test_a_kept_connection_that_closes_without_a_byte_is_replaced_once():
    assert asyncio.run(ask_twice(SIZED, b"")) == ([b"abcde"] * 2, 2)


def test_a_kept_connection_that_breaks_inside_an_answer_is_an_error():
    with pytest.raises(httpx.TransportError):
        asyncio.run(ask_twice(SIZED, b"HTTP/1.1 200"))


def test_a_connection_that_the_server_will_close_is_not_used_again():
    closing = SIZED.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")

    assert asyncio.run(ask_twice(closing, b"HTTP/1.1 500 Late\r\n\r\n")) == ([b"abcde"] * 2, 2)


@pytest.mark.parametrize("answer", [b"", b"hello\r\n\r\n", b"SSH-2.0-OpenSSH\r\n", SIZED[:-1] + b"", CHUNKED[:-9]])
def test_what_is_no_whole_answer_is_an_httpx_error(answer: bytes):
    async def main() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        try:
            async with httpx.AsyncClient(transport=WireTransport(lambda: 1.0), trust_env=False) as client:
                await client.get(url)
        finally:
            server.close()

    with pytest.raises(httpx.TransportError):
        asyncio.run(main())


def test_headers_without_end_are_refused():
    async def main() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\n")
            try:
                for index in range(2000):
                    writer.write(b"x-%d: %s\r\n" % (index, b"a" * 100))
                    await writer.drain()
            except ConnectionError:
                pass
            finally:
                writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        try:
            async with httpx.AsyncClient(transport=WireTransport(lambda: 1.0), trust_env=False) as client:
                await client.get(url)
        finally:
            server.close()

    with pytest.raises(httpx.RemoteProtocolError, match="headers larger"):
        asyncio.run(main())


def test_only_http_is_spoken():
    async def main() -> None:
        async with httpx.AsyncClient(transport=WireTransport(lambda: 1.0), trust_env=False) as client:
            await client.get("ftp://127.0.0.1:1/")

    with pytest.raises(httpx.UnsupportedProtocol):
        asyncio.run(main())


def test_a_request_with_a_streamed_body_is_sent_whole():
    received = bytearray()

    async def body() -> AsyncIterator[bytes]:
        yield b"one "
        yield b"two"

    async def main() -> int:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            received.extend(await reader.readuntil(b"one two"))
            writer.write(SIZED)
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        try:
            async with httpx.AsyncClient(transport=WireTransport(lambda: 1.0), trust_env=False) as client:
                return (await client.post(url, content=body())).status_code
        finally:
            server.close()

    assert asyncio.run(main()) == 200
    assert b"content-length: 7" in bytes(received).lower()


class _Link:
    is_closed = False

    async def write(self, data: bytes) -> None:
        del data

    def abort(self) -> None:
        self.is_closed = True


@given(st.binary(max_size=200), st.integers(0, 200))
def test_no_bytes_raise_what_is_not_httpx(data: bytes, cut: int):
    from autotune.benchmark.wire import _Connection  # noqa: PLC0415

    async def main() -> None:
        connection = _Connection()
        connection.attach(_Link())
        sending = asyncio.ensure_future(
            connection.send(b"GET / HTTP/1.1\r\n\r\n", b"", lambda _connection: None, lambda: None)
        )
        await asyncio.sleep(0)
        for piece in (data[:cut], data[cut:]):
            connection.receive(piece, 1.0)
        connection.lose(None)
        await sending

    with contextlib.suppress(httpx.TransportError):
        asyncio.run(main())
