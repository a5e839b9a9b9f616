from __future__ import annotations

import asyncio
import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.benchmark.client import ChatRequest
from autotune.benchmark.load import (
    LoadWindow,
    draw_arrivals,
    find_load_window,
    find_waiting,
    run_arrivals,
    run_closed_loop,
)
from autotune.benchmark.request_record import Outcome, RequestRecord


def request(index: int) -> ChatRequest:
    return ChatRequest(f"p{index}", 0, 1, 16, b"{}")


class Server:
    """Answers each request after its own number of turns of the event loop."""

    def __init__(self, turns: list[int]) -> None:
        self.turns = turns
        self.in_flight = 0
        self.history: list[int] = []

    async def ask(self, asked: ChatRequest) -> RequestRecord:
        self.in_flight += 1
        self.history.append(self.in_flight)
        for _ in range(self.turns[int(asked.prompt_id[1:])]):
            await asyncio.sleep(0)
        self.in_flight -= 1
        return RequestRecord(asked.prompt_id, 0, 1, 0.0, 1.0, Outcome.OK)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=40), st.integers(1, 33))
def test_exactly_c_requests_are_in_flight_and_records_keep_their_order(turns: list[int], concurrency: int):
    server = Server(turns)
    ended: list[RequestRecord] = []
    requests = [request(index) for index in range(len(turns))]

    records = asyncio.run(run_closed_loop(server.ask, requests, concurrency, ended.append))

    assert [record.prompt_id for record in records] == [item.prompt_id for item in requests]
    assert sorted(record.prompt_id for record in ended) == sorted(item.prompt_id for item in requests)
    full = min(concurrency, len(turns))
    assert max(server.history) <= full
    if min(turns) > 0:
        assert server.history[full - 1 :] == [full] * (len(turns) - full + 1)


def test_a_record_that_cannot_be_written_ends_the_load_with_its_reason():
    def full(_record: RequestRecord) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        asyncio.run(run_closed_loop(Server([1] * 8).ask, [request(index) for index in range(8)], 4, full))


def arrive(server: Server, moments_s: list[float], most: int) -> tuple[list[RequestRecord], list[RequestRecord]]:
    """Run on a clock that advances by what is slept."""
    now_s = [100.0]

    async def sleep(seconds: float) -> None:
        now_s[0] += seconds
        await asyncio.sleep(0)

    ended: list[RequestRecord] = []
    requests = [request(index) for index in range(len(moments_s))]
    records = asyncio.run(
        run_arrivals(server.ask, requests, moments_s, most, ended.append, clock=lambda: now_s[0], sleep=sleep)
    )
    return records, ended


@given(
    st.lists(st.tuples(st.floats(0, 10), st.integers(0, 9)), min_size=1, max_size=30),
    st.integers(1, 8),
)
def test_requests_leave_when_they_are_due_and_never_too_many_at_once(arrivals: list[tuple[float, int]], most: int):
    moments_s = sorted(moment for moment, _turns in arrivals)
    server = Server([turns for _moment, turns in arrivals])

    records, ended = arrive(server, moments_s, most)

    assert [record.prompt_id for record in records] == [f"p{index}" for index in range(len(arrivals))]
    assert len(ended) == len(arrivals)
    assert [record.due_at_s for record in records] == pytest.approx([100.0 + moment for moment in moments_s])
    assert max(server.history) <= most


def test_arrivals_do_not_wait_for_answers():
    server = Server([1000] * 5)

    arrive(server, [0.1, 0.2, 0.3, 0.4, 0.5], 9)

    assert server.history == [1, 2, 3, 4, 5]


def test_a_record_of_an_arrival_that_cannot_be_written_ends_the_load_with_its_reason():
    def full(_record: RequestRecord) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        asyncio.run(run_arrivals(Server([1] * 8).ask, [request(i) for i in range(8)], [0.0] * 8, 4, full))


def test_the_first_token_counts_from_when_the_request_was_due():
    record = RequestRecord("p", 0, 1, 10.0, 12.0, Outcome.OK, chunk_at_s=(11.0,), due_at_s=9.5)

    assert record.ttft_s == 1.5
    assert record.to_json()["due_at_s"] == 9.5


def test_arrivals_are_drawn_from_the_seed():
    assert draw_arrivals(5, 2.0, "a") == draw_arrivals(5, 2.0, "a")
    assert draw_arrivals(5, 2.0, "a") != draw_arrivals(5, 2.0, "b")
    assert draw_arrivals(5, 4.0, "a") == pytest.approx([moment / 2 for moment in draw_arrivals(5, 2.0, "a")])


@given(st.text())
def test_gaps_between_arrivals_are_exponential(seed: str):
    """Kolmogorov and Smirnov's distance of 2000 gaps exceeds 0.06 once in a million times."""
    count, rate = 2000, 50.0
    moments = (0.0, *draw_arrivals(count, rate, seed))
    gaps = sorted(later - earlier for earlier, later in itertools.pairwise(moments))
    expected = [1 - math.exp(-gap * rate) for gap in gaps]

    assert max(abs(value - (index + 0.5) / count) for index, value in enumerate(expected)) < 0.06


def sent(*spans: tuple[float, float]) -> list[RequestRecord]:
    return [RequestRecord("p", 0, 1, sent_at_s, ended_at_s, Outcome.OK) for sent_at_s, ended_at_s in spans]


def test_ramp_up_and_drain_lie_outside_of_full_load():
    window = find_load_window(sent((0.0, 4.0), (1.0, 5.0), (4.0, 7.0)))

    assert window == LoadWindow(most_in_flight=2, from_s=1.0, to_s=5.0, ramp_up_s=1.0, drain_s=2.0)


def test_a_load_of_nothing_has_no_window():
    assert find_load_window([]) is None


def test_requests_that_waited_for_a_place_are_told():
    def waited(seconds: float) -> RequestRecord:
        return RequestRecord("p", 0, 1, 10.0 + seconds, 20.0, Outcome.OK, due_at_s=10.0)

    sentence = find_waiting([waited(0.0), waited(0.05), waited(2.5), waited(1.0)])

    assert sentence is not None
    assert sentence.startswith("2 of 4 requests left up to 2.5 s after they were due")
    assert find_waiting([waited(0.05), *sent((0.0, 9.0))]) is None
