"""How are the problems put to a server? All answers within a time limit, and the speed while they came, as a cell."""

from __future__ import annotations

import asyncio
import dataclasses
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

from autotune.api_key import ApiKey
from autotune.benchmark.api_fields import ApiFields
from autotune.benchmark.benchmark import stream_speed
from autotune.benchmark.client import ChatClient, ChatRequest, RequestLimits, render_request
from autotune.benchmark.load import Ask, run_closed_loop
from autotune.benchmark.metrics import Repeat, measure_repeats
from autotune.benchmark.record_file import RecordFile
from autotune.benchmark.request_record import Outcome, RequestRecord
from autotune.benchmark.server_probe import Flush, ServerProbe
from autotune.benchmark.testimony import Snapshot, hear
from autotune.errors import MeasurementError
from autotune.evaluation.problem import Problem
from autotune.settings import EvaluationSettings
from autotune.trial import Cell, CellMeasurement, Figure

_LIMITS = RequestLimits(connect_s=10.0, first_token_s=300.0, gap_s=120.0, request_s=1800.0)
_PROBE_TIMEOUT_S = 10.0
_SEEDS_OF_SAMPLE = 10_000
"""Between the seeds of one answer to a problem and of the next; more than there are problems."""
_ALL_FIELDS = ApiFields()


@dataclass(frozen=True, slots=True)
class Answers:
    """What the server gave.

    Attributes:
        records: one per answer: all first answers in the order of the problems, then all second ones, and so on.
        duration_s: wall time, from the first request sent to the last one ended.
        accept_length: over all of them; ``None`` when speculation is off or unknown.
        cell: their speed; ``None`` when it could not be measured.
        notes: why it could not, and what is odd about it.
    """

    records: tuple[RequestRecord, ...]
    duration_s: float
    accept_length: Figure | None
    cell: CellMeasurement | None
    notes: tuple[str, ...]


class Questions:
    """Asks one server for all answers.

    Args:
        url: base URL of the server.
        settings: how is asked.
        on_record: called as each answer ends, with the number of answers so far and of all.
        speculative: whether the configuration speculates; ``None``: the server knows.
        api_key: opens the server's API.
        model: its name; ``None`` is the first one that the server lists.
        fields: what requests may state to this server.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        url: str,
        settings: EvaluationSettings,
        *,
        on_record: Callable[[int, int], None],
        speculative: bool | None = True,
        api_key: ApiKey | None = None,
        model: str | None = None,
        fields: ApiFields = _ALL_FIELDS,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._url = url
        self._settings = settings
        self._on_record = on_record
        self._speculative = speculative
        self._api_key = api_key
        self._model = model
        self._fields = fields
        self._clock = clock

    async def ask(self, problems: Sequence[Problem], problem_set: str, file: RecordFile) -> Answers:
        """Put every problem as often as the settings say, write each record as it ends, and measure the speed."""
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(
                ChatClient(self._url, _LIMITS, clock=self._clock, api_key=self._api_key)
            )
            probe = await stack.enter_async_context(ServerProbe(self._url, _PROBE_TIMEOUT_S, api_key=self._api_key))
            model = self._model or await probe.fetch_model()
            requests = [
                self._render(model, index, problem, sample)
                for sample in range(self._settings.samples)
                for index, problem in enumerate(problems)
            ]
            flush = await probe.flush_cache()
            file.append(
                {
                    "type": "evaluation",
                    "problem_set": problem_set,
                    "model": model,
                    "cache": flush.value,
                    "fields": self._fields.description,
                    "settings": self._settings.model_dump(mode="json"),
                }
            )
            before = Snapshot(await probe.fetch_metrics())
            done = 0

            def take(record: RequestRecord) -> None:
                nonlocal done
                done += 1
                file.append(record.to_json())
                self._on_record(done, len(requests))

            ask = self._within(self._clock() + self._settings.answers_limit_s, client)
            records = tuple(await run_closed_loop(ask, requests, self._settings.concurrency, take))
            after = Snapshot(await probe.fetch_metrics())
            info = await probe.fetch_info()
            if flush is not Flush.DONE:  # its average is of everything since some other moment
                info = dataclasses.replace(info, accept_length=None)
        duration_s = max(record.ended_at_s for record in records) - min(record.sent_at_s for record in records)
        cell, notes = self._measure(records, duration_s)
        heard = hear(
            records,
            before,
            after,
            [],
            info,
            concurrency=self._settings.concurrency,
            speculative=self._speculative,
            stream_tokens_per_s=None if cell is None else stream_speed(cell),
        )
        if cell is not None:
            cell = dataclasses.replace(
                cell,
                accept_length=heard.accept_length,
                step_time_s=heard.step_time_s,
                foreign=heard.foreign,
                notes=(*heard.notes, *cell.notes),
            )
        foreign = () if heard.foreign is None else (f"others used the server meanwhile: {heard.foreign}",)
        return Answers(records, duration_s, heard.accept_length, cell, (*foreign, *notes))

    def _within(self, deadline_s: float, client: ChatClient) -> Ask:
        """Ask until a moment; what is still on its way then, or not sent yet, has no answer."""

        async def ask(request: ChatRequest) -> RequestRecord:
            sent_at_s = self._clock()
            left_s = deadline_s - sent_at_s
            if left_s > 0:
                try:
                    async with asyncio.timeout(left_s):
                        return await client.ask(request)
                except TimeoutError:
                    pass
            return RequestRecord(
                prompt_id=request.prompt_id,
                repeat=request.repeat,
                seed=request.seed,
                sent_at_s=sent_at_s,
                ended_at_s=self._clock(),
                outcome=Outcome.TIMED_OUT,
                error=f"not answered within the {self._settings.answers_limit_s:g} s for all answers",
                max_tokens=request.max_tokens,
            )

        return ask

    def _render(self, model: str, index: int, problem: Problem, sample: int) -> ChatRequest:
        """Make one request; its seed is the same in every trial, and another one for each answer to a problem."""
        return render_request(
            prompt_id=problem.name,
            repeat=sample,
            model=model,
            messages=(("user", problem.prompt),),
            sampling=self._settings.sampling,
            seed=self._settings.sampling.seed + index + sample * _SEEDS_OF_SAMPLE,
            max_tokens=self._settings.max_tokens,
            ignore_eos=False,
            fields=self._fields,
        )

    def _measure(
        self, records: Sequence[RequestRecord], duration_s: float
    ) -> tuple[CellMeasurement | None, tuple[str, ...]]:
        """Measure the speed as that of any cell, at the median length of the prompts."""
        lengths = [record.prompt_tokens for record in records if record.is_ok and record.prompt_tokens]
        context = round(statistics.median(lengths)) if lengths else 0
        try:
            cell = Cell(context, self._settings.concurrency)
            return measure_repeats(cell, [Repeat(tuple(records), duration_s)], min_success_rate=0.0), ()
        except MeasurementError as error:
            return None, (f"no speed for the coding answers: {error.message}",)


def measure_speed(records: Sequence[RequestRecord], duration_s: float) -> float | None:
    """Return output tokens/s over the whole answers, prefill included; ``None`` when one of them was not counted rightly."""
    counts = [None if record.exceeds_limit else record.output_tokens for record in records if record.is_ok]
    known = [count for count in counts if count is not None]
    if not known or len(known) < len(counts) or duration_s <= 0:
        return None
    return sum(known) / duration_s
