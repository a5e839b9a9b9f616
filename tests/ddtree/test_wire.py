from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from autotune.ddtree.request import EngineStats, GenerationRequest, TokenDelta
from autotune.ddtree.wire import (
    FrameReader,
    pack_deltas,
    pack_request,
    pack_stats,
    render_frame,
    unpack_deltas,
    unpack_request,
    unpack_stats,
)


@given(st.lists(st.integers(1, 9), max_size=8))
def test_frames_survive_any_cut(sizes: list[int]) -> None:
    data = render_frame("a", 1) + render_frame("b", "中" * 9, []) + render_frame("c")
    reader = FrameReader()
    messages = []
    for size in sizes:
        messages += reader.feed(data[:size])
        data = data[size:]

    assert [*messages, *reader.feed(data)] == [["a", 1], ["b", "中" * 9, []], ["c"]]


def test_records_come_out_as_they_went_in() -> None:
    request = GenerationRequest("r", (1, 2), 5, 0.5, 0.9, 40, 2**62, True, 3)
    deltas = [TokenDelta("r", (3, 4), None, 2, 1, (0, 1)), TokenDelta("s", (), "abort", 0, 0)]
    stats = EngineStats(1, 2, 3, 4, 5, 6, 7, 8, 9)
    (message,) = FrameReader().feed(render_frame("x", pack_request(request), pack_deltas(deltas), pack_stats(stats)))

    assert unpack_request(message[1]) == request
    assert unpack_deltas(message[2]) == deltas
    assert unpack_stats(message[3]) == stats
