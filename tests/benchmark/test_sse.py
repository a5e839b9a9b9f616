from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.benchmark.sse import SseDecoder, SseEvent


def decode(reads: list[bytes]) -> list[SseEvent]:
    """Feed reads that arrive at 0, 1, 2 ... seconds."""
    decoder = SseDecoder()
    return [event for at_s, data in enumerate(reads) for event in decoder.feed(data, float(at_s))]


def datas(events: list[SseEvent]) -> list[bytes]:
    return [event.data for event in events]


def bytewise(data: bytes) -> list[bytes]:
    return [data[i : i + 1] for i in range(len(data))]


CHARACTER = 'data: {"choices":[{"delta":{"content":"中"}}]}\n\n'.encode()


@pytest.mark.parametrize("cut", range(len(CHARACTER) + 1))
def test_a_character_cut_anywhere_arrives_whole_with_its_last_byte(cut: int):
    """case 15."""
    events = decode([CHARACTER[:cut], CHARACTER[cut:]])

    assert events == [SseEvent(CHARACTER[6:-2], 0.0 if cut == len(CHARACTER) else 1.0)]


def test_one_byte_at_a_time_gives_the_same_events():
    """case 15."""
    stream = CHARACTER + b": ping\n\ndata:second\r\n\r\ndata: [DONE]\n\n"

    events = decode(bytewise(stream))

    assert datas(events) == [CHARACTER[6:-2], b"second", b"[DONE]"]
    assert events[0].at_s == len(CHARACTER) - 1


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("split", [False, True])
def test_every_line_end_is_understood(end: bytes, split: bool):
    """case 15."""
    stream = end.join([b"data: a", b"", b": comment", b"data:b", b"data: c", b"", b""])

    assert datas(decode(bytewise(stream) if split else [stream])) == [b"a", b"b\nc"]


def test_a_cr_ends_its_event_at_once_although_a_lf_may_follow():
    decoder = SseDecoder()

    assert decoder.feed(b"data: a\r\n\r", 1.0) == [SseEvent(b"a", 1.0)]
    assert decoder.feed(b"\ndata: b\r\n\r\n", 2.0) == [SseEvent(b"b", 2.0)]


def test_comments_and_unknown_fields_are_no_events():
    """case 15."""
    assert decode([b": ping\n\n:\n\nid: 7\nretry: 10\n\nunknown\n\n"]) == []


def test_only_one_space_after_the_colon_is_dropped():
    assert datas(decode([b"data:  two\n\ndata:none\n\n"])) == [b" two", b"none"]


def test_the_event_name_is_kept_and_does_not_leak():
    assert decode([b"event: error\ndata: x\n\ndata: y\n\n"]) == [SseEvent(b"x", 0.0, "error"), SseEvent(b"y", 0.0)]


def test_a_byte_order_mark_is_dropped():
    assert datas(decode([b"\xef\xbb", b"\xbfdata: a\n\n"])) == [b"a"]


def test_several_events_in_one_read_share_its_time():
    assert decode([b"", b"data: a\n\ndata: b\n\n"]) == [SseEvent(b"a", 1.0), SseEvent(b"b", 1.0)]


def test_the_end_of_the_stream_completes_whole_lines_only():
    decoder = SseDecoder()
    decoder.feed(b"data: [DONE]\ndata: cut", 1.0)

    assert decoder.finish(2.0) == [SseEvent(b"[DONE]", 2.0)]
    assert decoder.finish(3.0) == []


def test_invalid_utf8_is_data_like_any_other():
    assert datas(decode([b"data: \xff\xe4\n\n"])) == [b"\xff\xe4"]


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=8))
def test_any_bytes_cut_anywhere_give_the_same_events(data: bytes, cuts: list[int]):
    borders = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    reads = [data[a:b] for a, b in pairwise(borders)]
    whole, cut, single = (SseDecoder() for _ in range(3))

    expected = [(e.data, e.name) for e in [*whole.feed(data, 0.0), *whole.finish(0.0)]]
    assert expected == [(e.data, e.name) for e in [*(e for r in reads for e in cut.feed(r, 0.0)), *cut.finish(0.0)]]
    assert expected == [
        (e.data, e.name) for e in [*(e for r in bytewise(data) for e in single.feed(r, 0.0)), *single.finish(0.0)]
    ]


@given(st.lists(st.sampled_from([b"data: a", b"data:b", b"", b": c", b"event: e"]), max_size=20), st.data())
def test_mixed_line_ends_do_not_matter(lines: list[bytes], draw: st.DataObject):
    ends = draw.draw(st.lists(st.sampled_from([b"\n", b"\r\n"]), min_size=len(lines), max_size=len(lines)))
    mixed = b"".join(line + end for line, end in zip(lines, ends, strict=True))
    plain = b"".join(line + b"\n" for line in lines)

    assert datas(decode([plain])) == datas(decode(bytewise(mixed)))
