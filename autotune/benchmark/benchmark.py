"""How is one cell measured: warm up at its concurrency, flush, send every repeat, ask the server what it counted."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from autotune.api_key import ApiKey
from autotune.benchmark.accept_length import sum_accepted
from autotune.benchmark.api_fields import NATIVE, ApiFields
from autotune.benchmark.cell_load import CellLoad, find_complaints
from autotune.benchmark.client import ChatClient, ChatRequest, RequestLimits, render_request
from autotune.benchmark.event_loop import run
from autotune.benchmark.metrics import Repeat, check_outcomes, measure_canary, measure_repeats, measure_rounds
from autotune.benchmark.pause_watch import PauseWatch
from autotune.benchmark.precision import Precision
from autotune.benchmark.prompt_set import PromptSet
from autotune.benchmark.record_file import RecordFile
from autotune.benchmark.request_record import RequestRecord
from autotune.benchmark.server_log import parse_lines
from autotune.benchmark.server_probe import Flush, ServerProbe
from autotune.benchmark.success_rate import SuccessCount
from autotune.benchmark.testimony import Snapshot, hear
from autotune.benchmark.text_sanity import look_at_text, render_sanity
from autotune.benchmark.workload import (
    CHARACTERS_PER_TOKEN,
    ONLY_CODE,
    WARMUP,
    Prompt,
    build_prompts,
    describe_lengths,
    draw_nonce,
)
from autotune.errors import UsageMissing
from autotune.settings import BenchmarkSettings, CellSettings
from autotune.trial import Cell, CellMeasurement, Figure

_CALIBRATION = Cell(400, 1)
"""A fixed prompt from which a server's characters per token are learned, the same in every trial and on resume."""
_CALIBRATION_REPEAT = -2
_CALIBRATION_ATTEMPTS = 3
_ALL_FIELDS = ApiFields()
_FEWEST_REQUESTS = 4
_SHORTEST_WARMUP_TOKENS = 16
_CANARY_REPEAT = -3
CANARY_TOKENS = 1024
"""Longest prompt of the canary; shorter where every cell is."""
CANARY_REQUESTS = 6
"""Measured requests of one canary; one more comes first."""
_ROUNDS_SPARE = 3
"""Another round is begun when so many times its duration are left: the trial has to end too."""


class Benchmark:
    """Measures cells of one boot of one server, one after the other.

    Args:
        url: base URL of the server.
        settings: what is sent.
        records_path: JSON lines: a ``cell`` line with everything that was stated, a ``request`` line as each request
            ends, warm-up included (repeat -1), a ``repeat`` line that says when the load was full, and a ``measured``
            line that says how late and how busy the load generator was.
        clock: monotonic seconds.
        speculative: whether the configuration speculates; plain decoding has no accept length. ``None``: the server knows.
        read_log: all log lines of this boot so far; a third source of the accept length.
        api_key: opens the server's API; written nowhere.
        lengths_path: file in which all trials of a study find the lengths of their common prompts; ``None`` asks anew.
        learn_precision: what earlier boots teach about the noise of a cell; ``None`` measures one round of each.
        time_left_s: seconds until the measurement has to end; ``None`` in either way for as long as it takes.
        model: name of the model; ``None`` is the first one that the server lists.
        fields: what requests may state to this server.
        counts_accepted: whether warm-ups go to SGLang's ``/generate``, whose answers say how many drafted tokens their steps
            accepted; to the chat where it is not answered.
        on_record: told of each request as it ends.
    """

    def __init__(
        self,
        url: str,
        settings: BenchmarkSettings,
        records_path: Path,
        *,
        clock: Callable[[], float] = time.perf_counter,
        speculative: bool | None = True,
        read_log: Callable[[], Sequence[str]] | None = None,
        api_key: ApiKey | None = None,
        lengths_path: Path | None = None,
        learn_precision: Callable[[Cell], Precision] | None = None,
        time_left_s: Callable[[], float | None] | None = None,
        model: str | None = None,
        fields: ApiFields = _ALL_FIELDS,
        counts_accepted: bool = False,
        on_record: Callable[[RequestRecord], None] = lambda _record: None,
    ) -> None:
        self._url = url
        self._settings = settings
        self._records_path = records_path
        self._clock = clock
        self._speculative = speculative
        self._read_log = read_log
        self._api_key = api_key
        self._lengths_path = lengths_path
        self._learn_precision = learn_precision
        self._time_left_s = time_left_s
        self._outcomes = SuccessCount()
        self._model = model
        self._fields = fields
        self._counts_accepted = counts_accepted
        self._on_record = on_record
        self._characters_per_token: float | None = None

    def measure_cell(self, cell: CellSettings) -> CellMeasurement:
        """Measure one cell.

        Raises:
            NothingSucceeded: not one request succeeded, in warm-up already.
            TooManyFailures: fewer requests succeeded than ``min_success_rate``.
            UsageMissing: the server does not count tokens.
            ImpossibleMetric: a figure is no positive number.
            MeasurementPaused: this process or its machine was asleep meanwhile.
            OSError: the records cannot be written.
        """
        return run(self._measure(cell))

    async def _measure(self, settings: CellSettings) -> CellMeasurement:
        cell = settings.cell
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(
                ChatClient(self._url, self._limits(), clock=self._clock, api_key=self._api_key)
            )
            probe = await stack.enter_async_context(
                ServerProbe(self._url, self._settings.connect_timeout_s, api_key=self._api_key)
            )
            file = stack.enter_context(RecordFile(self._records_path))
            load = CellLoad(client, file, cell.concurrency, self._clock, self._on_record)
            await self._get_to_know(load, probe)
            accepted = await self._warm_up(load, cell)
            prompts = self._open_prompts(load)
            flush, batches = await self._prepare(settings, prompts, probe, file)
            before = await self._look(probe)
            cpu_s = time.process_time()
            client.lateness.take()
            repeats: list[Repeat] = []
            with PauseWatch() as watch:
                while True:
                    sent = await load.send(
                        batches,
                        min_success_rate=self._settings.min_success_rate,
                        arrival_rate_per_s=settings.arrival_rate_per_s,
                        seed=self._settings.sampling.seed,
                    )
                    done = repeats[-1].round + 1 if repeats else 0
                    repeats += [dataclasses.replace(repeat, round=done) for repeat in sent]
                    if not self._wants_round(cell, repeats):
                        break
                    flush, batches = await self._prepare(settings, prompts, probe, file, done + 1)
            watch.check(cell.name)
            lateness = client.lateness.take()
            cpu_s = time.process_time() - cpu_s
            after = await self._look(probe)
            info = await probe.fetch_info()
            if flush is not Flush.DONE:  # its average is of everything since some other moment
                info = dataclasses.replace(info, accept_length=None)
            records = [record for repeat in repeats for record in repeat.records]
            earlier, succeeded = self._outcomes, sum(record.is_ok for record in records)
            self._outcomes = earlier.plus(succeeded, len(records))
            measurement = measure_repeats(
                cell,
                repeats,
                min_success_rate=self._settings.min_success_rate,
                earlier=earlier,
                notes=(
                    *(() if flush is Flush.DONE else (f"prefix cache {flush.value}",)),
                    *describe_lengths(records, cell.context),
                ),
            )
            heard = hear(
                records,
                before,
                after,
                parse_lines(self._read_log()[before.log_lines :]) if self._read_log else [],
                info,
                concurrency=cell.concurrency,
                speculative=self._speculative,
                stream_tokens_per_s=stream_speed(measurement),
            )
            measurement = dataclasses.replace(
                measurement,
                accept_length=heard.accept_length,
                step_time_s=heard.step_time_s,
                accepted_histogram=accepted,
                foreign=heard.foreign,
                notes=(
                    *render_sanity(look_at_text(records)),
                    *heard.notes,
                    *find_complaints(records, lateness),
                    *measurement.notes,
                ),
            )
            generator = {"cpu_s": cpu_s, "lateness": dataclasses.asdict(lateness)}
            file.append({"type": "measured", "generator": generator, **dataclasses.asdict(measurement)})
            return measurement

    async def _prepare(
        self, settings: CellSettings, prompts: PromptSet, probe: ServerProbe, file: RecordFile, number: int = 0
    ) -> tuple[Flush, list[list[ChatRequest]]]:
        """Return the requests of each repeat of a round, new to the server's prefix cache, and how they became so.

        Every round has the same prompts with the same seeds; only the numbers of its repeats are its own.
        """
        cell, mix, count = settings.cell, settings.mix or self._settings.mix, self._settings.repeats
        requests = settings.requests or max(cell.concurrency, _FEWEST_REQUESTS)
        flush, nonce, batches = await self._renew(prompts, probe, cell, range(count), requests, mix)
        file.append(self._describe(cell, flush, nonce, mix))
        return flush, [
            self._render(batch, number * count + repeat, self._settings.output_tokens)
            for repeat, batch in enumerate(batches)
        ]

    async def _renew(
        self,
        prompts: PromptSet,
        probe: ServerProbe,
        cell: Cell,
        repeats: Sequence[int],
        requests: int,
        mix: Mapping[str, float],
    ) -> tuple[Flush, str | None, list[tuple[Prompt, ...]]]:
        """Empty the prefix cache, or make prompts new to it; return the prompts of each repeat."""
        flush = await probe.flush_cache()
        nonce = None if flush is Flush.DONE else draw_nonce()
        had_asked = prompts.has_asked
        for repeat in repeats:
            await prompts.prepare(cell, repeat, requests, mix, nonce)
        if (
            prompts.has_asked and not had_asked and flush is Flush.DONE
        ):  # asking has put beginnings of these prompts into the cache
            flush = await probe.flush_cache()
        nonce = None if flush is Flush.DONE else draw_nonce()
        return flush, nonce, [await prompts.prepare(cell, repeat, requests, mix, nonce) for repeat in repeats]

    def _wants_round(self, cell: Cell, repeats: Sequence[Repeat]) -> bool:
        """Whether the repeats are to be sent once more: for precision, while there is time and nothing fails."""
        rounds = repeats[-1].round + 1
        if self._learn_precision is None or rounds >= self._settings.max_rounds:
            return False
        if not all(record.is_ok for repeat in repeats for record in repeat.records):
            return False
        round_s = sum(repeat.duration_s for repeat in repeats) / rounds
        left_s = None if self._time_left_s is None else self._time_left_s()
        if (rounds + 1) * round_s > self._settings.rounds_limit_s:
            return False
        if left_s is not None and left_s < _ROUNDS_SPARE * round_s:
            return False
        return self._learn_precision(cell).wants_round(measure_rounds(cell, repeats) or (0.0,))

    def measure_canary(self) -> Figure | None:
        """Return the prefill rate of fixed prompts, one after the other: what a tree of drafts cannot change.

        Returns:
            ``None`` when the server does not count prompt tokens, or a prefix cache answered.

        Raises:
            NothingSucceeded: not one request succeeded.
            MeasurementPaused: this process or its machine was asleep meanwhile.
            OSError: the records cannot be written.
        """
        return run(self._hear_canary())

    async def _hear_canary(self) -> Figure | None:
        longest = max(cell.context for stage in self._settings.stages for cell in stage.cells)
        cell = Cell(min(CANARY_TOKENS, longest), 1)
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(
                ChatClient(self._url, self._limits(), clock=self._clock, api_key=self._api_key)
            )
            probe = await stack.enter_async_context(
                ServerProbe(self._url, self._settings.connect_timeout_s, api_key=self._api_key)
            )
            file = stack.enter_context(RecordFile(self._records_path))
            load = CellLoad(client, file, 1, self._clock)
            await self._get_to_know(load, probe)
            _flush, _nonce, (prompts,) = await self._renew(
                self._open_prompts(load), probe, cell, (_CANARY_REPEAT,), 1 + CANARY_REQUESTS, ONLY_CODE
            )
            with PauseWatch() as watch:
                repeat = await load.measure(self._render(prompts, _CANARY_REPEAT, 1))
            watch.check("canary")
            check_outcomes(repeat.records, "canary", 0)
            canary = measure_canary(repeat.records[1:])  # the first one may wake something up
            file.append({"type": "canary", "tokens_per_s": None if canary is None else dataclasses.asdict(canary)})
            return canary

    async def _get_to_know(self, load: CellLoad, probe: ServerProbe) -> None:
        """Ask once what the model is called and how long its tokens are."""
        if self._model is None:
            self._model = await probe.fetch_model()
        if self._characters_per_token is None:
            self._characters_per_token = await self._calibrate(load)

    async def _calibrate(self, load: CellLoad) -> float:
        """Learn how many characters make a token here, from one fixed prompt."""
        prompt = self._prompts(_CALIBRATION, _CALIBRATION_REPEAT, 1)[0]
        (request,) = self._render((prompt,), _CALIBRATION_REPEAT, 1)
        records: list[RequestRecord] = []
        for _attempt in range(_CALIBRATION_ATTEMPTS):
            records += (await load.measure([request])).records
            if records[-1].is_ok:
                break
        check_outcomes(records, self._url, 0)
        tokens = records[-1].prompt_tokens
        if not tokens:
            raise UsageMissing(
                "the answer came without usage.prompt_tokens",
                where=self._url,
                hint="the server must honour stream_options.include_usage",
            )
        return round(prompt.characters / tokens, 2)

    async def _warm_up(self, load: CellLoad, cell: Cell) -> tuple[int, ...]:
        """Bring the server to the measured concurrency with prompts of its own and answers a quarter as long.

        Returns:
            How many steps accepted 0, 1, 2 ... drafted tokens; empty where nobody asks or says.
        """
        wanted = self._settings.warmup_requests
        count = cell.concurrency if wanted is None else wanted
        tokens = min(self._settings.output_tokens, max(_SHORTEST_WARMUP_TOKENS, self._settings.output_tokens // 4))
        if not count:
            return ()
        prompts = self._prompts(cell, WARMUP, count)
        if self._counts_accepted:
            repeat = await load.measure(self._render(prompts, WARMUP, tokens, NATIVE))
            if all(record.is_ok for record in repeat.records):
                return sum_accepted(repeat.records)
        repeat = await load.measure(self._render(prompts, WARMUP, tokens))
        check_outcomes(repeat.records, f"{cell.name}, warm-up", 0)
        return ()

    async def _look(self, probe: ServerProbe) -> Snapshot:
        """Take note of what the server has counted and logged so far."""
        return Snapshot(await probe.fetch_metrics(), len(self._read_log()) if self._read_log else 0)

    def _prompts(self, cell: Cell, repeat: int, count: int) -> tuple[Prompt, ...]:
        """Prompts of about the right length, for calibration and warm-up."""
        return build_prompts(
            cell,
            repeat,
            count,
            seed=self._settings.sampling.seed,
            output_tokens=self._settings.output_tokens,
            characters_per_token=self._characters_per_token or CHARACTERS_PER_TOKEN,
            mix=ONLY_CODE if repeat == _CALIBRATION_REPEAT else self._settings.mix,
        )

    def _open_prompts(self, load: CellLoad) -> PromptSet:
        """Prompts of exact lengths; lengths that were found in earlier trials are in a file beside their records."""

        async def count(prompts: Sequence[Prompt]) -> list[int | None]:
            return await load.count(self._render(prompts, _CALIBRATION_REPEAT, 1))

        return PromptSet(
            count,
            seed=self._settings.sampling.seed,
            output_tokens=self._settings.output_tokens,
            characters_per_token=self._characters_per_token or CHARACTERS_PER_TOKEN,
            path=self._lengths_path,
            model=self._model or "default",
        )

    def _render(
        self, prompts: Sequence[Prompt], repeat: int, max_tokens: int, fields: ApiFields | None = None
    ) -> list[ChatRequest]:
        return [
            render_request(
                prompt_id=prompt.prompt_id,
                repeat=repeat,
                model=self._model or "default",
                messages=prompt.messages,
                sampling=self._settings.sampling,
                seed=prompt.seed,
                max_tokens=max_tokens,
                ignore_eos=self._settings.ignore_eos,
                fields=fields or self._fields,
            )
            for prompt in prompts
        ]

    def _limits(self) -> RequestLimits:
        settings = self._settings
        return RequestLimits(
            settings.connect_timeout_s,
            settings.first_token_timeout_s,
            settings.gap_timeout_s,
            settings.request_timeout_s,
        )

    def _describe(self, cell: Cell, flush: Flush, nonce: str | None, mix: Mapping[str, float]) -> dict[str, object]:
        """Everything that was stated to the server, for the record."""
        return {
            "type": "cell",
            "cell": cell.name,
            "model": self._model,
            "characters_per_token": self._characters_per_token,
            "cache": flush.value,
            "fields": self._fields.description,
            "nonce": nonce,
            "mix": mix,
            "settings": self._settings.model_dump(mode="json", exclude={"stages"}),
        }


def stream_speed(measurement: CellMeasurement) -> float | None:
    """Decode tokens/s of one stream, the geometric mean over prompts; ``None`` when no prompt has a speed of its own."""
    logs = measurement.per_prompt_log_speed.values()
    return math.exp(math.fsum(logs) / len(logs)) if logs else None
