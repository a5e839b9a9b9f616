"""A stream is read to its end beside everything else, and no more than a limit is kept."""

from __future__ import annotations

import os
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.deployment.drained_stream import DrainedStream, wait_for_rest


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
def test_a_stream_that_is_closed_meanwhile_has_ended(error):
    pieces = [b"abc"]

    def read(_: int) -> bytes:
        if pieces:
            return pieces.pop()
        raise error

    stream = DrainedStream(read)
    assert stream.wait(10)
    assert stream.data == b"abc"


def test_the_rest_is_waited_for_only_while_it_comes():
    readable, writable = os.pipe()
    stream = DrainedStream(lambda size: os.read(readable, size))
    os.write(writable, b"first")
    started = time.monotonic()
    wait_for_rest([stream], started + 20)
    assert 0.9 < time.monotonic() - started < 5
    assert not stream.has_ended
    assert stream.data == b"first"
    os.close(writable)
    assert stream.wait(10)
    os.close(readable)


def test_no_longer_than_was_said():
    readable, writable = os.pipe()
    stream = DrainedStream(lambda size: os.read(readable, size))
    started = time.monotonic()
    wait_for_rest([stream], started + 0.1)
    assert time.monotonic() - started < 0.8
    os.close(writable)
    assert stream.wait(10)
    os.close(readable)
