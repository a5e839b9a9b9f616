"""How is the load of one cell run: its batches at one concurrency or rate, each record on disk as its request ends?"""

from __future__ import annotations

import asyncio
import dataclasses
import statistics
from collections.abc import Callable, Sequence

from autotune.benchmark.client import ChatClient, ChatRequest
from autotune.benchmark.lateness import Lateness
from autotune.benchmark.load import draw_arrivals, find_load_window, find_waiting, run_arrivals, run_closed_loop
from autotune.benchmark.metrics import Repeat
from autotune.benchmark.record_file import RecordFile
from autotune.benchmark.request_record import RequestRecord
from autotune.benchmark.success_rate import SuccessCount


class CellLoad:
    """Sends batches of requests at one concurrency and writes their records.

    Args:
        client: sends them.
        file: gets a ``request`` line as each request ends, and a ``repeat`` line that says when the load was full.
        concurrency: requests in flight.
        clock: the clock of the records.
        on_record: told of each request as it ends, of those too that are only counted.
    """

    def __init__(
        self,
        client: ChatClient,
        file: RecordFile,
        concurrency: int,
        clock: Callable[[], float],
        on_record: Callable[[RequestRecord], None] = lambda _record: None,
    ) -> None:
        self._client = client
        self._file = file
        self._concurrency = concurrency
        self._clock = clock
        self._on_record = on_record

    async def send(
        self,
        batches: Sequence[Sequence[ChatRequest]],
        *,
        min_success_rate: float,
        arrival_rate_per_s: float | None = None,
        seed: int = 0,
    ) -> list[Repeat]:
        """Send repeats in order; stop when so many requests failed that the cell can no longer count.

        Args:
            batches: the requests of each repeat.
            min_success_rate: share of all that must end ok.
            arrival_rate_per_s: ``None`` keeps the concurrency in flight.
            seed: of the moments of arrival; each repeat has its own, the same in every trial.
        """
        planned = sum(map(len, batches))
        repeats: list[Repeat] = []
        for index, batch in enumerate(batches):
            moments_s = None
            if arrival_rate_per_s is not None:
                moments_s = draw_arrivals(len(batch), arrival_rate_per_s, f"arrivals {seed} {index}")
            repeats.append(await self.measure(batch, moments_s))
            failed = sum(not record.is_ok for repeat in repeats for record in repeat.records)
            if SuccessCount(planned - failed, planned).is_below(min_success_rate):
                break
        return repeats

    async def measure(self, requests: Sequence[ChatRequest], moments_s: Sequence[float] | None = None) -> Repeat:
        """Send one batch and return its records with the wall time from the first sent to the last ended.

        Args:
            requests: are sent.
            moments_s: when each is due, in seconds from now; ``None`` keeps the concurrency in flight.
        """
        ask = self._client.ask
        watching = asyncio.create_task(self._client.lateness.watch_loop())
        try:
            if moments_s is None:
                records = await run_closed_loop(ask, requests, self._concurrency, self._write)
            else:
                records = await run_arrivals(
                    ask, requests, moments_s, self._concurrency, self._write, clock=self._clock
                )
        finally:
            watching.cancel()
        window = find_load_window(records)
        if window is not None:
            self._file.append({"type": "repeat", "repeat": requests[0].repeat, **dataclasses.asdict(window)})
        start_s = min(record.sent_at_s for record in records)
        return Repeat(tuple(records), max(record.ended_at_s for record in records) - start_s)

    async def count(self, requests: Sequence[ChatRequest]) -> list[int | None]:
        """Send requests for what the server counts in their prompts; ``None`` where it did not answer or count.

        Nothing of them is measured, so each becomes a ``count`` line and no ``request`` line.
        """

        def write(record: RequestRecord) -> None:
            self._file.append({"type": "count", "prompt_id": record.prompt_id, "prompt_tokens": record.prompt_tokens})
            self._on_record(record)

        records = await run_closed_loop(self._client.ask, requests, self._concurrency, write)
        return [record.prompt_tokens if record.is_ok else None for record in records]

    def _write(self, record: RequestRecord) -> None:
        self._file.append(record.to_json())
        self._on_record(record)


def find_complaints(records: Sequence[RequestRecord], lateness: Lateness) -> list[str]:
    """Say when the load generator read its chunks too late, or the server had no place for requests that were due."""
    gaps_s = [
        record.decode_window_s / (len(record.chunk_at_s) - 1)
        for record in records
        if record.decode_window_s is not None
    ]
    complaints = [lateness.find_complaint(statistics.median(gaps_s) if gaps_s else None), find_waiting(records)]
    return [complaint for complaint in complaints if complaint is not None]
