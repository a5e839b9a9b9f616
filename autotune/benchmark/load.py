"""How are the requests of one repeat sent: a closed loop that keeps exactly C of them in flight."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from autotune.benchmark.client import ChatRequest
from autotune.benchmark.request_record import RequestRecord


async def run_closed_loop(
    ask: Callable[[ChatRequest], Awaitable[RequestRecord]],
    requests: Sequence[ChatRequest],
    concurrency: int,
    on_record: Callable[[RequestRecord], None],
) -> list[RequestRecord]:
    """Send all requests in order, ``concurrency`` at a time; a new one leaves as soon as one has ended.

    Args:
        ask: sends one request; its result is the record.
        requests: each is sent once.
        concurrency: requests in flight, fewer only while the last ones end.
        on_record: called for each record as it ends.

    Returns:
        The records in the order of ``requests``.
    """
    records: dict[int, RequestRecord] = {}
    waiting = iter(enumerate(requests))

    async def work() -> None:
        for index, request in waiting:
            record = await ask(request)
            records[index] = record
            on_record(record)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(concurrency, len(requests))):
                group.create_task(work())
    except* OSError as failures:  # a record could not be written: the first reason says it all
        raise failures.exceptions[0] from None
    return [records[index] for index in range(len(requests))]
