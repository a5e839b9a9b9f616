"""A stream is read to its end beside everything else, and no more than a limit is kept."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.deployment.drained_stream import DrainedStream, wait_for_rest
from tests.deployment.processes import wait_until


@given(pieces=st.lists(st.binary(min_size=1, max_size=20), max_size=10), limit=st.integers(0, 100))
def test_the_first_bytes_are_kept_whatever_the_pieces(pieces, limit):
    left = [*pieces, b""]
    stream = DrainedStream(lambda _: left.pop(0), limit_bytes=limit)
    assert stream.wait(10)
    whole = b"".join(pieces)
    assert stream.data == whole[:limit]
    assert stream.seen_bytes == len(whole)
    assert stream.is_truncated == (len(whole) > limit)


@pytest.mark.parametrize("error", [OSError("closed"), ValueError("I/O on closed file")])
def test_a_stream_that_cannot_be_read_further_has_ended_but_is_not_whole(error):
    pieces = [b"abc"]

    def read(_: int) -> bytes:
        if pieces:
            return pieces.pop()
        raise error

    stream = DrainedStream(read)
    assert stream.wait(10)
    assert stream.data == b"abc"


def test_the_reader_closes_what_it_reads_at_its_end():
    closed: list[bool] = []
    stream = DrainedStream(lambda _: b"", close=lambda: closed.append(True))
    assert stream.wait(10)
    assert closed == [True]


class Pipe:
    """A pipe with a stream that reads it."""

    def __init__(self) -> None:
        self.readable, self.writable = os.pipe()
        self.stream = DrainedStream(lambda size: os.read(self.readable, size))

    def write(self, data: bytes) -> None:
        before = self.stream.seen_bytes
        os.write(self.writable, data)
        wait_until(lambda: self.stream.seen_bytes == before + len(data))

    def close(self) -> None:
        os.close(self.writable)
        assert self.stream.wait(10)
        os.close(self.readable)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    made.close()


def test_the_rest_is_waited_for_only_while_it_comes(pipe):
    pipe.write(b"first")
    assert wait_for_rest([pipe.stream], time.monotonic() + 60)
    assert not pipe.stream.has_ended
    assert pipe.stream.data == b"first"


def test_after_a_silence_one_asks_whether_something_is_under_way(pipe):
    """A network that stalls for a second must not cut an output short."""
    late = [b"late", b"later", b""]

    def confirm() -> None:
        if data := late.pop(0):
            pipe.write(data)

    assert wait_for_rest([pipe.stream], time.monotonic() + 60, confirm)
    assert pipe.stream.data == b"latelater"
    assert late == []


def test_streams_that_have_ended_are_not_waited_for():
    streams = [DrainedStream(lambda _: b"") for _ in range(2)]
    assert all(stream.wait(10) for stream in streams)
    assert wait_for_rest(streams, 0.0)


def test_bytes_that_never_stop_are_cut_off_and_said_to_be():
    stop = threading.Event()

    def read(_: int) -> bytes:
        return b"" if stop.wait(0.001) else b"x"

    stream = DrainedStream(read)
    assert not wait_for_rest([stream], time.monotonic() + 0.3)
    stop.set()
    assert stream.wait(10)
