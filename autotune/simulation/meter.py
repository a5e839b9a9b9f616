"""What would a cell, a canary and a coding evaluation of one boot measure? The truth and the errors of the night."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from autotune.errors import NothingSucceeded
from autotune.interval import student_quantile
from autotune.pass_rate import score_pass_at_1
from autotune.settings import BenchmarkSettings, CellSettings, EvaluationSettings
from autotune.simulation.host import SimulatedHost
from autotune.simulation.noise import BootId, NightNoise
from autotune.simulation.surface import CellTruth
from autotune.trial import Cell, CellMeasurement, Configuration, EvaluationMeasurement, Figure, ProblemResult, Verdict

FEWEST_REQUESTS: Final = 4
"""Requests of a repeat at least, as the real benchmark sends."""

_CANARY_TOKENS: Final = 1024
_CANARY_REQUESTS: Final = 6
_WARM_UP_SHARE: Final = 0.25
"""Length of the answers of a warm-up, as a share."""

_FEWEST_BATCHES: Final = 3
_DIFFICULTY_SEED: Final = "problems"
_FLIPS: Final = 0.02
"""Share of problems that a boot judges otherwise than the model's usual answer: rounding differs from boot to boot."""

_ALL_PROBLEMS: Final = 40
_ANSWER_TOKENS: Final = 200


@dataclass(frozen=True, slots=True)
class CellPlan:
    """What is sent in one round of a cell.

    Attributes:
        requests: in all repeats together.
        prompt_tokens: of all of them.
        output_tokens: of all of them.
        round_s: from the first request to the last token.
        warm_up_s: before the first round.
    """

    requests: int
    prompt_tokens: int
    output_tokens: int
    round_s: float
    warm_up_s: float


def plan_cell(truth: CellTruth, cell: CellSettings, settings: BenchmarkSettings, log_error: float = 0.0) -> CellPlan:
    """Return what a round of a cell sends and how long it takes: batches of as many requests as the concurrency.

    Args:
        truth: of the cell.
        cell: which cell.
        settings: of the study.
        log_error: by how much the speed is off the truth, by the log.
    """
    each = cell.requests or max(cell.concurrency, FEWEST_REQUESTS)
    batches = math.ceil(each / cell.concurrency) * settings.repeats
    stream_s = cell.concurrency / (truth.tokens_per_s(cell.concurrency) * math.exp(log_error))
    warm_ups = settings.warmup_requests if settings.warmup_requests is not None else cell.concurrency
    warm_up_s = math.ceil(warm_ups / cell.concurrency) * (
        truth.prefill_s + _WARM_UP_SHARE * settings.output_tokens * stream_s
    )
    requests = each * settings.repeats
    return CellPlan(
        requests,
        requests * cell.context,
        requests * settings.output_tokens,
        batches * (truth.prefill_s + settings.output_tokens * stream_s),
        warm_up_s,
    )


def simulate_cell(
    truth: CellTruth,
    cell: CellSettings,
    settings: BenchmarkSettings,
    noise: NightNoise,
    boot: BootId,
    key: str,
    wants_round: Callable[[Sequence[float]], bool] = lambda _logs: False,
    accepts_at_least: Sequence[float] = (),
) -> CellMeasurement:
    """Return what a cell of one boot measures.

    Args:
        truth: without noise.
        cell: which cell.
        settings: of the study.
        noise: of the night.
        boot: which boot.
        key: of the configuration.
        wants_round: told the log speeds of the rounds so far; whether one more is worth its time.
        accepts_at_least: probabilities that a step accepts at least 1, 2 ... drafted tokens; empty when nobody says.
    """
    concurrency = cell.concurrency
    of_boot = noise.of_boot(boot, concurrency)
    plan = plan_cell(truth, cell, settings, of_boot)
    mean_log = math.log(truth.tokens_per_s(concurrency)) + of_boot
    logs: list[float] = []
    while True:
        logs.append(mean_log + noise.of_round(boot, cell.cell, len(logs)))
        if len(logs) >= settings.max_rounds or (len(logs) + 1) * plan.round_s > settings.rounds_limit_s:
            break
        if not wants_round(logs if len(logs) > 1 else (0.0,)):
            break
    rounds = len(logs)
    log_speed = statistics.fmean(logs)
    speed = math.exp(log_speed)
    offsets = noise.of_prompts(boot, cell.cell, key, plan.requests)
    half = _half_width(offsets, concurrency)
    duration_s = rounds * plan.round_s
    requests = rounds * plan.requests
    prefill_s = truth.prefill_s * math.exp(-noise.of_drift(boot))
    accept_length = None if truth.accept_length is None else Figure(truth.accept_length, requests)
    return CellMeasurement(
        cell=cell.cell,
        requests=requests,
        succeeded=requests,
        output_tokens=rounds * plan.output_tokens,
        prompt_tokens=rounds * plan.prompt_tokens,
        cached_tokens=0,
        decode_tokens_per_s=Figure(
            speed,
            requests,
            None if half is None else speed * math.exp(-half),
            None if half is None else speed * math.exp(half),
        ),
        total_tokens_per_s=Figure(rounds * plan.output_tokens / duration_s, rounds * settings.repeats),
        ttft_s=Figure(prefill_s, requests),
        tpot_s=Figure(concurrency / speed, requests),
        accept_length=accept_length,
        per_prompt_log_speed={
            f"{cell.cell.name}-{index:03d}": log_speed - math.log(concurrency) + offset
            for index, offset in enumerate(offsets)
        },
        duration_s=duration_s,
        step_time_s=Figure((truth.accept_length or 1.0) * concurrency / speed, requests),
        prefill_tokens_per_s=Figure(concurrency * cell.context / prefill_s, rounds * settings.repeats),
        round_log_speeds=tuple(logs) if rounds > 1 else (),
        accepted_histogram=_histogram(accepts_at_least, rounds * plan.output_tokens / (truth.accept_length or 1.0)),
    )


def _histogram(accepts_at_least: Sequence[float], steps: float) -> tuple[int, ...]:
    """Return how many of so many steps accept 0, 1, 2 ... drafted tokens."""
    if not accepts_at_least:
        return ()
    reached = (1.0, *accepts_at_least, 0.0)
    return tuple(round(steps * (one - next_one)) for one, next_one in itertools.pairwise(reached))


def _half_width(offsets: Sequence[float], concurrency: int) -> float | None:
    """Return half an interval of a log speed, with batches of requests as the sample; ``None`` with too few of them."""
    batches = [statistics.fmean(offsets[start : start + concurrency]) for start in range(0, len(offsets), concurrency)]
    if len(batches) < _FEWEST_BATCHES:
        return None
    return student_quantile(len(batches) - 1) * statistics.stdev(batches) / math.sqrt(len(batches))


class SimulatedBenchmark:
    """Measures cells of one boot of an imaginary machine, in its own time.

    Args:
        host: the machine.
        settings: of the study.
        configuration: what runs.
        key: of the configuration.
        wants_round: of a cell, told the log speeds of its rounds so far; whether one more is worth its time.
    """

    def __init__(
        self,
        host: SimulatedHost,
        settings: BenchmarkSettings,
        configuration: Configuration,
        key: str,
        wants_round: Callable[[Cell, Sequence[float]], bool],
    ) -> None:
        self._host = host
        self._settings = settings
        self._configuration = configuration
        self._key = key
        self._wants_round = wants_round
        self._boot = host.boot
        self._heard = 0

    def measure_cell(self, cell: CellSettings) -> CellMeasurement:
        """Measure one cell.

        Raises:
            NothingSucceeded: the server died.
        """
        truth = self._host.surface.truth(self._configuration, cell.cell)
        if self._host.enter_cell():
            self._host.clock.sleep(plan_cell(truth, cell, self._settings).round_s / 2)
            self._host.kill()
        if self._host.exit_code is not None:
            raise NothingSucceeded("0 requests succeeded: connection reset", where=cell.cell.name)
        measured = simulate_cell(
            truth,
            cell,
            self._settings,
            self._host.noise,
            self._boot,
            self._key,
            lambda logs: self._wants_round(cell.cell, logs),
            self._host.surface.accepts_at_least(self._configuration, cell.cell),
        )
        self._host.clock.sleep(plan_cell(truth, cell, self._settings).warm_up_s + measured.duration_s)
        return measured

    def measure_canary(self) -> Figure | None:
        """Return the prefill rate of fixed prompts, one after the other."""
        truth = self._host.surface.truth(self._configuration, _canary_cell(self._settings))
        context = _canary_cell(self._settings).context
        rate = context / truth.prefill_s * math.exp(self._host.noise.of_canary(self._boot, self._heard))
        self._heard += 1
        self._host.clock.sleep(_CANARY_REQUESTS * context / rate)
        return Figure(rate, _CANARY_REQUESTS)


def _canary_cell(settings: BenchmarkSettings) -> Cell:
    """Return the cell at C=1 whose context is nearest to that of a canary."""
    cells = [cell.cell for stage in settings.stages for cell in stage.cells if cell.concurrency == 1]
    return min(cells, key=lambda cell: abs(cell.context - _CANARY_TOKENS))


class SimulatedEvaluation:
    """Answers the coding problems: the same verdicts in every boot, but for a few that rounding decides.

    Args:
        host: the machine.
        settings: of the study.
        configuration: what runs.
        cell: whose speed the answers have.
    """

    def __init__(
        self, host: SimulatedHost, settings: EvaluationSettings, configuration: Configuration, cell: Cell
    ) -> None:
        self._host = host
        self._settings = settings
        self._configuration = configuration
        self._cell = cell
        self._boot = host.boot

    def run(self) -> EvaluationMeasurement:
        """Answer all problems.

        Raises:
            NothingSucceeded: the server died.
        """
        if self._host.exit_code is not None:
            raise NothingSucceeded("0 requests succeeded: connection reset", where="coding evaluation")
        count = self._settings.problems or _ALL_PROBLEMS
        usual, flips = self._host.noise.draw_of(_DIFFICULTY_SEED), self._host.noise.draw_of("answers", self._boot)
        results = []
        for index in range(count):
            passes = usual.random() < self._host.surface.pass_at_1
            if flips.random() < _FLIPS:
                passes = not passes
            results.append(ProblemResult(f"problem-{index:02d}", Verdict.PASSED if passes else Verdict.WRONG))
        pass_at_1 = score_pass_at_1(results)
        if pass_at_1 is None:
            raise NothingSucceeded("0 problems were answered", where="coding evaluation")
        truth = self._host.surface.truth(self._configuration, self._cell)
        speed = truth.tokens_per_s(self._cell.concurrency)
        duration_s = truth.prefill_s + count * _ANSWER_TOKENS / speed
        self._host.clock.sleep(duration_s)
        return EvaluationMeasurement(
            results=tuple(results),
            problem_set="simulated",
            pass_at_1=pass_at_1,
            tokens_per_s=speed,
            accept_length=truth.accept_length,
            duration_s=duration_s,
        )
