"""How are the requests of one repeat sent: exactly C of them in flight, or as they arrive at a rate?"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import random
import time
from collections.abc import Awaitable, Callable, Sequence

from autotune.benchmark.client import ChatRequest
from autotune.benchmark.request_record import RequestRecord

_PUNCTUAL_S = 0.1
"""Later than a busy machine sends a request that is due."""

Ask = Callable[[ChatRequest], Awaitable[RequestRecord]]


async def run_closed_loop(
    ask: Ask,
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


async def run_arrivals(
    ask: Ask,
    requests: Sequence[ChatRequest],
    moments_s: Sequence[float],
    most_in_flight: int,
    on_record: Callable[[RequestRecord], None],
    *,
    clock: Callable[[], float] = time.perf_counter,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> list[RequestRecord]:
    """Send each request when it is due, however many are still being answered.

    A request that finds ``most_in_flight`` of them waits for one to end, and its time to the first token counts from
    when it was due: a server that falls behind must not look better for being asked later.

    Args:
        ask: sends one request; its result is the record.
        requests: each is sent once.
        moments_s: when each is due, in seconds from now, ascending; as many as requests.
        most_in_flight: requests in flight at most.
        on_record: called for each record as it ends.
        clock: the clock of the records.
        sleep: waits for some seconds.

    Returns:
        The records in the order of ``requests``, each with its ``due_at_s``.
    """
    records: dict[int, RequestRecord] = {}
    places = asyncio.Semaphore(most_in_flight)
    start_s = clock()

    async def work(index: int, due_at_s: float) -> None:
        try:
            record = dataclasses.replace(await ask(requests[index]), due_at_s=due_at_s)
        finally:
            places.release()
        records[index] = record
        on_record(record)

    try:
        async with asyncio.TaskGroup() as group:
            for index, moment_s in enumerate(moments_s):
                due_at_s = start_s + moment_s
                wait_s = due_at_s - clock()
                if wait_s > 0:
                    await sleep(wait_s)
                await places.acquire()
                group.create_task(work(index, due_at_s))
    except* OSError as failures:
        raise failures.exceptions[0] from None
    return [records[index] for index in range(len(requests))]


def find_waiting(records: Sequence[RequestRecord]) -> str | None:
    """Say how many requests left late because as many as allowed were in flight; ``None`` when none did."""
    waits_s = [record.sent_at_s - record.due_at_s for record in records if record.due_at_s is not None]
    late_s = [wait_s for wait_s in waits_s if wait_s > _PUNCTUAL_S]
    if not late_s:
        return None
    return (
        f"{len(late_s)} of {len(waits_s)} requests left up to {max(late_s):.1f} s after they were due, because the server "
        "was still answering as many as the concurrency allows; times to first token include the wait"
    )


def draw_arrivals(count: int, rate_per_s: float, seed: str) -> tuple[float, ...]:
    """Draw the moments of a Poisson process: gaps are independent and exponential with mean ``1 / rate_per_s``.

    Args:
        count: how many.
        rate_per_s: arrivals a second.
        seed: the same seed gives the same moments.

    Returns:
        Seconds from the start, ascending.
    """
    gaps = random.Random(seed)  # noqa: S311  # reproducible, not secret
    return tuple(itertools.accumulate(gaps.expovariate(rate_per_s) for _ in range(count)))


@dataclasses.dataclass(frozen=True, slots=True)
class LoadWindow:
    """When a repeat was under full load; readings of the records' clock, in seconds.

    Attributes:
        most_in_flight: most requests in flight at any moment, never more than were to be.
        from_s: the first moment with that many: the end of the ramp-up.
        to_s: the last one: the beginning of the drain.
        ramp_up_s: from the first request to that.
        drain_s: from there to the last end.
    """

    most_in_flight: int
    from_s: float
    to_s: float
    ramp_up_s: float
    drain_s: float


def find_load_window(records: Sequence[RequestRecord]) -> LoadWindow | None:
    """Find out from the records of a repeat how many requests were in flight when; ``None`` without a record.

    A request that left at the very moment when another ended took its place.
    """
    borders = sorted(
        itertools.chain.from_iterable(((record.ended_at_s, -1), (record.sent_at_s, 1)) for record in records)
    )
    if not borders:
        return None
    levels = list(itertools.accumulate(change for _at_s, change in borders))
    most = max(levels)
    full = [index for index, level in enumerate(levels) if level == most]
    from_s, to_s = borders[full[0]][0], borders[min(full[-1] + 1, len(borders) - 1)][0]
    return LoadWindow(most, from_s, to_s, from_s - borders[0][0], borders[-1][0] - to_s)
