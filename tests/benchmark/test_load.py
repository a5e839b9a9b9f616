from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.benchmark.client import ChatRequest
from autotune.benchmark.load import run_closed_loop
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
