from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from autotune.api_key import ApiKey
from autotune.servers import json_client
from autotune.servers.json_client import Unanswered, fetch_json

HEADERS = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"
PAUSE_S = 0.1


@contextmanager
def answering(at_once: bytes, *, dripping: bytes = b"", seen: list[bytes] | None = None) -> Iterator[str]:
    """Answer one request: a part at once, then a byte every 0.1 s; the request is added to ``seen``."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(10)
        is_over = threading.Event()

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                request = connection.recv(65536)
                if seen is not None:
                    seen.append(request)
                try:
                    connection.sendall(at_once)
                    for byte in dripping:
                        if is_over.wait(PAUSE_S):
                            return
                        connection.sendall(bytes([byte]))
                except OSError:
                    return

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        finally:
            is_over.set()
            thread.join()


@pytest.mark.parametrize(
    ("at_once", "dripping"),
    [(HEADERS % 100, b" " * 100), (b"HTTP/1.1 200 OK\r\n", b"X-Slow: " + b"a" * 92)],
    ids=["body", "headers"],
)
def test_an_answer_that_drips_is_given_up_when_the_time_is_over(at_once: bytes, dripping: bytes):
    with answering(at_once, dripping=dripping) as url:
        started = time.monotonic()
        with pytest.raises(Unanswered, match="no whole answer"):
            fetch_json(url, timeout_s=0.5)

        assert time.monotonic() - started < 5


def test_a_slow_answer_within_the_time_is_read_whole():
    with answering(HEADERS % 2, dripping=b"{}") as url:
        assert fetch_json(url, timeout_s=20) == (200, {})


@pytest.mark.parametrize("body", [b"[" * 200_000, b"1" * 5000, b"\xff"], ids=["deep", "long number", "not text"])
def test_json_that_nobody_can_read_is_no_answer(body: bytes):
    with answering(HEADERS % len(body) + body) as url:
        assert fetch_json(url, timeout_s=20) == (200, None)


def test_a_url_that_is_none_is_said():
    with pytest.raises(Unanswered, match="InvalidURL"):
        fetch_json("http://127.0.0.1:port/", timeout_s=1)


def test_what_breaks_while_a_signal_is_handled_is_the_signal(monkeypatch: pytest.MonkeyPatch):
    async def tear_down(*_: object) -> tuple[int, bytes]:
        try:
            raise KeyboardInterrupt
        finally:
            raise RuntimeError("Attempted to exit a cancel scope that isn't the current task's")

    monkeypatch.setattr(json_client, "_fetch", tear_down)

    with pytest.raises(KeyboardInterrupt):
        fetch_json("http://127.0.0.1:1/", timeout_s=1)


def test_another_runtime_error_stays_what_it_is(monkeypatch: pytest.MonkeyPatch):
    async def break_down(*_: object) -> tuple[int, bytes]:
        raise RuntimeError("a bug")

    monkeypatch.setattr(json_client, "_fetch", break_down)

    with pytest.raises(RuntimeError, match="a bug"):
        fetch_json("http://127.0.0.1:1/", timeout_s=1)


@pytest.mark.parametrize("key", [None, ApiKey("sk-hidden")])
def test_the_api_key_goes_along_where_there_is_one(key: ApiKey | None):
    seen: list[bytes] = []
    with answering(HEADERS % 2 + b"{}", seen=seen) as url:
        assert fetch_json(url, timeout_s=5, api_key=key) == (200, {})

    assert (b"Bearer sk-hidden" in seen[0]) is (key is not None)


def test_a_connection_that_is_reset_is_said_in_words():
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def reset() -> None:
            connection, _ = listener.accept()
            connection.recv(65536)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()

        thread = threading.Thread(target=reset)
        thread.start()
        with pytest.raises(Unanswered, match=r"ReadError: the connection was closed$"):
            fetch_json(f"http://127.0.0.1:{listener.getsockname()[1]}/", timeout_s=5.0)
        thread.join()
