from __future__ import annotations

import asyncio
import datetime as dt
import socket
import ssl
import time
from pathlib import Path

import httpx
import pytest
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from autotune.benchmark.lateness import LatenessRecorder
from autotune.benchmark.socket_link import Link, open_link
from autotune.benchmark.wire import WireTransport


class Box:
    """Keeps what a link hands on."""

    def __init__(self) -> None:
        self.pieces: list[tuple[bytes, float]] = []
        self.lost: list[Exception | None] = []
        self.changed = asyncio.Event()
        self.breaks = False

    def receive(self, data: bytes, at_s: float) -> None:
        self.pieces.append((data, at_s))
        self.changed.set()
        if self.breaks:
            raise LookupError("mine")

    def lose(self, error: Exception | None) -> None:
        self.lost.append(error)
        self.changed.set()


def listen() -> socket.socket:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    listener.settimeout(5)
    return listener


async def connect(listener: socket.socket, box: Box, recorder: LatenessRecorder | None = None) -> Link:
    host, port = listener.getsockname()
    return await open_link(host, port, box, clock=time.perf_counter, lateness=recorder or LatenessRecorder())


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_a_time_is_that_of_arrival_however_late_the_read_is(loop_factory: type):
    recorder = LatenessRecorder()

    async def main() -> float:
        box = Box()
        link = await connect(listener, box, recorder)
        peer, _ = listener.accept()
        with peer:
            for _ in range(2):  # the first may arrive before the kernel has begun to stamp
                box.changed.clear()
                sent_at_s = time.perf_counter()
                peer.send(b"x")
                time.sleep(0.05)  # noqa: ASYNC251  # the loop is busy with something else
                await box.changed.wait()
            link.abort()
        return box.pieces[-1][1] - sent_at_s

    with listen() as listener, asyncio.Runner(loop_factory=loop_factory) as runner:
        error_s = runner.run(main())

    lateness = recorder.take()
    assert -0.001 < error_s < 0.04
    assert lateness.reads == 2
    assert lateness.stamped >= 1
    assert lateness.worst_s is not None
    assert lateness.worst_s >= 0.03


def test_the_end_of_a_connection_is_told_once():
    async def main() -> list[Exception | None]:
        box = Box()
        link = await connect(listener, box)
        listener.accept()[0].close()
        await box.changed.wait()
        assert link.is_closed
        link.abort()
        with pytest.raises(OSError, match="closed"):
            await link.write(b"x")
        return box.lost

    with listen() as listener:
        assert asyncio.run(main()) == [None]


def test_a_receiver_that_breaks_ends_its_connection_instead_of_hanging():
    seen: list[object] = []

    async def main() -> list[Exception | None]:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: seen.append(context["exception"]))
        box = Box()
        box.breaks = True
        await connect(listener, box)
        peer, _ = listener.accept()
        with peer:
            peer.send(b"x")
            await box.changed.wait()
        return box.lost

    with listen() as listener:
        (error,) = asyncio.run(main())

    assert isinstance(error, LookupError)
    assert seen == [error]


def test_much_is_written_whole_while_the_peer_reads_slowly():
    data = bytes(range(256)) * 40_000

    async def main() -> bytes:
        received = bytearray()

        async def read_all(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while len(received) < len(data):
                received.extend(await reader.read(1 << 20))
            writer.close()
            done.set()

        done = asyncio.Event()
        server = await asyncio.start_server(read_all, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        link = await open_link(host, port, Box(), clock=time.perf_counter, lateness=LatenessRecorder())
        await link.write(data)
        await done.wait()
        link.abort()
        server.close()
        return bytes(received)

    assert asyncio.run(main()) == data


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_a_write_ends_when_the_peer_closes_without_reading(loop_factory: type):
    async def main() -> list[Exception | None]:
        box = Box()
        link = await connect(listener, box)
        peer, _ = listener.accept()
        with peer:
            writing = asyncio.create_task(link.write(b"x" * (64 << 20)))
            await asyncio.sleep(0)
            peer.shutdown(socket.SHUT_WR)
            with pytest.raises(BrokenPipeError):
                await asyncio.wait_for(writing, 5)
        return box.lost

    with listen() as listener, asyncio.Runner(loop_factory=loop_factory) as runner:
        assert runner.run(main()) == [None]


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A key and a certificate for localhost that signs itself, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path / "certificate.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + signed.public_bytes(serialization.Encoding.PEM))
    return path


def fetch_over_tls(certificate: Path, host: str, recorder: LatenessRecorder) -> bytes:
    async def main() -> bytes:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nabcde")
            await writer.drain()
            writer.close()

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
        url = f"https://{host}:{server.sockets[0].getsockname()[1]}/"
        try:
            async with httpx.AsyncClient(transport=WireTransport(lambda: 1.0, recorder), trust_env=False) as client:
                return (await client.get(url)).content
        finally:
            server.close()

    return asyncio.run(main())


def test_https_is_spoken_to_a_server_whose_certificate_is_known(certificate: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    recorder = LatenessRecorder()

    assert fetch_over_tls(certificate, "localhost", recorder) == b"abcde"
    lateness = recorder.take()
    assert lateness.reads >= 1
    assert lateness.stamped == 0


@pytest.mark.parametrize(("host", "is_known"), [("localhost", False), ("127.0.0.1", True)])
def test_https_with_a_certificate_that_is_not_known_or_names_another_is_refused(
    certificate: Path, monkeypatch: pytest.MonkeyPatch, host: str, is_known: bool
):
    if is_known:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))

    with pytest.raises(httpx.ConnectError, match="certificate verify failed"):
        fetch_over_tls(certificate, host, LatenessRecorder())


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_host_is_found_by_address_and_by_name(host: str):
    async def main() -> bool:
        port = listener.getsockname()[1]
        link = await open_link(host, port, Box(), clock=time.perf_counter, lateness=LatenessRecorder())
        link.abort()
        return link.is_closed

    with listen() as listener:
        assert asyncio.run(main())
