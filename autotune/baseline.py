"""What do all boots of one configuration say together: of the baseline, that trials are compared with, or of a leader? Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from autotune.drift import find_drifts
from autotune.interval import Component, combine, geometric_mean, mean_log, pooled_variance
from autotune.objectives import CONCURRENCIES, expected_cells, latest, score, weight
from autotune.pass_rate import score_pass_at_1
from autotune.settings import StudySettings
from autotune.trial import (
    BootSpeed,
    CellMeasurement,
    EvaluationMeasurement,
    Figure,
    ProblemResult,
    TrialKind,
    TrialRecord,
    TrialState,
)


def pool_baseline(trials: Sequence[TrialRecord], settings: StudySettings) -> TrialRecord | None:
    """Return one record that stands for every complete boot of the baseline; see :func:`find_baseline_boots`.

    Cells are pooled by the geometric mean over boots, per-prompt speeds by their mean; a coding problem counts as passed
    when it passed in more than half of the boots. Everything else is the first boot's.

    Returns:
        ``None`` until one boot of the baseline is complete; the trial itself while there is only one.
    """
    boots = find_baseline_boots(trials)
    return pool_boots(boots, settings) if boots else None


def pool_boots(boots: Sequence[TrialRecord], settings: StudySettings) -> TrialRecord:
    """Return one record that stands for boots of one configuration, at least one; see :func:`pool_baseline`."""
    if len(boots) < 2:
        return boots[0]
    # A cell that one boot measured twice counts once, as its last measurement.
    measured = [{cell.cell: cell for cell in boot.cells} for boot in boots]
    cells = [
        _pool_cell([(boot.number, cells[cell]) for boot, cells in zip(boots, measured, strict=True) if cell in cells])
        for cell in measured[0]
    ]
    evaluations = [boot.evaluation for boot in boots if boot.evaluation is not None]
    evaluation = _pool_evaluation(evaluations) if evaluations else None
    objectives = score(cells, evaluation, settings)
    return replace(boots[0], cells=tuple(cells), evaluation=evaluation, objectives=objectives)


def find_baseline_boots(trials: Sequence[TrialRecord]) -> tuple[TrialRecord, ...]:
    """Return the complete boots of the baseline that others are compared with, those of confirmations among them.

    Boots that drifted are left out, as long as one is left that did not.
    """
    return _leave_out_drifted([trial for trial in trials if _is_complete_baseline(trial)], trials)


def count_baseline_boots(trials: Sequence[TrialRecord]) -> int:
    """Return how many boots of the baseline are complete, those of confirmations among them."""
    return sum(_is_complete_baseline(trial) for trial in trials)


def find_boots(trial: TrialRecord, trials: Sequence[TrialRecord]) -> tuple[TrialRecord, ...]:
    """Return a complete trial and the complete boots of its configuration in confirmations; drifted ones as for the baseline.

    A trial that is not complete stands for itself alone.
    """
    if trial.state is not TrialState.COMPLETE:
        return (trial,)
    again = [other for other in trials if other.state is TrialState.COMPLETE and _confirms(other, trial.number)]
    return _leave_out_drifted([trial, *again], trials) if again else (trial,)


def _is_complete_baseline(trial: TrialRecord) -> bool:
    return trial.state is TrialState.COMPLETE and (trial.kind is TrialKind.BASELINE or _confirms(trial, None))


def _confirms(trial: TrialRecord, leader: int | None) -> bool:
    boot = trial.confirmation
    return boot is not None and not boot.is_soak and boot.leader == leader


def _leave_out_drifted(boots: Sequence[TrialRecord], trials: Sequence[TrialRecord]) -> tuple[TrialRecord, ...]:
    drifts = find_drifts(trials)
    steady = [trial for trial in boots if trial.number not in drifts]
    return tuple(steady or boots)


@dataclass(frozen=True, slots=True)
class Spread:
    """How far boots of one configuration lie apart in one speed: standard deviations of its log.

    Attributes:
        boots: how many show it, at least two.
        deviation: of what one boot measures, the noise inside it included.
        inside: the part of that noise, as rounds of the same prompts show it; ``None`` where there was one round of a cell.
        inside_degrees: degrees of freedom of ``inside``.
    """

    boots: int
    deviation: float
    inside: float | None
    inside_degrees: int = 0

    @property
    def between(self) -> float | None:
        """What a boot adds by itself: the rest, 0 where the noise inside explains everything."""
        return None if self.inside is None else math.sqrt(max(self.deviation**2 - self.inside**2, 0.0))


def measure_spread(trials: Sequence[TrialRecord], settings: StudySettings) -> Spread | None:
    """Return how far boots of the baseline lie apart, at the concurrency at which it is further.

    See :func:`find_baseline_boots` for which boots.

    Returns:
        ``None`` with fewer than two boots.
    """
    boots = find_baseline_boots(trials)
    spreads = [measure_spread_at(boots, concurrency, settings) for concurrency in CONCURRENCIES]
    return max((each for each in spreads if each is not None), key=lambda each: each.deviation, default=None)


def measure_spread_at(boots: Sequence[TrialRecord], concurrency: int, settings: StudySettings) -> Spread | None:
    """Return how far boots of one configuration lie apart at one concurrency; ``None`` with fewer than two."""
    figures = [
        boot.objectives.tokens_per_s_c1 if concurrency == 1 else boot.objectives.tokens_per_s_c32 for boot in boots
    ]
    logs = [math.log(figure.value) for figure in figures if figure is not None and figure.value > 0]
    if len(logs) < 2:
        return None
    cells = [cell for cell in expected_cells(settings) if cell.concurrency == concurrency]
    total = math.fsum(weight(cell, settings) for cell in cells)
    parts = []
    for cell in cells:
        measured = [item for boot in boots if (item := latest(boot.cells).get(cell)) is not None]
        rounds = [item.round_log_speeds for item in measured if len(item.round_log_speeds) > 1]
        if not rounds:
            return Spread(len(logs), math.sqrt(pooled_variance([logs])), None)
        counts = [max(len(item.round_log_speeds), 1) for item in measured]
        share = weight(cell, settings) / total
        mean_of_inverse = math.fsum(1 / count for count in counts) / len(counts)
        variance = share**2 * pooled_variance(rounds) * mean_of_inverse
        parts.append(Component(variance, sum(len(each) - 1 for each in rounds)))
    inside = combine(parts)
    return Spread(
        len(logs), math.sqrt(pooled_variance([logs])), math.sqrt(inside.variance), inside.degrees if parts else 0
    )


def with_one_baseline(trials: Sequence[TrialRecord], settings: StudySettings) -> tuple[TrialRecord, ...]:
    """Return the trials with one record for each configuration: the baseline's pooled, first, and those of leaders.

    A front is drawn from these: from single boots, the luckiest one would stand on it. The boots of confirmations are in
    the records of what they booted.
    """
    baseline = pool_baseline(trials, settings)
    alone = [trial for trial in trials if trial.kind not in (TrialKind.BASELINE, TrialKind.CONFIRMATION)]
    if baseline is None:
        return tuple(trials)
    leaders = {trial.confirmation.leader for trial in trials if trial.confirmation is not None}
    return (baseline, *(_pool_leader(trial, trials, settings) if trial.number in leaders else trial for trial in alone))


def _pool_leader(trial: TrialRecord, trials: Sequence[TrialRecord], settings: StudySettings) -> TrialRecord:
    """Pool the boots of a leader under its own number, whichever of them are left."""
    pooled = pool_boots(find_boots(trial, trials), settings)
    if pooled is trial:
        return trial
    objectives = replace(pooled.objectives, pass_at_1=trial.objectives.pass_at_1)
    return replace(trial, cells=pooled.cells, objectives=objectives)


def _pool_cell(numbered: Sequence[tuple[int, CellMeasurement]]) -> CellMeasurement:
    """Pool one cell over boots, given with the numbers of their trials."""
    cells = [cell for _number, cell in numbered]
    if len(cells) == 1:
        return cells[0]
    prompts = [cell.per_prompt_log_speed for cell in cells]
    common = {
        prompt: math.fsum(speeds[prompt] for speeds in prompts) / len(prompts)
        for prompt in prompts[0]
        if all(prompt in speeds for speeds in prompts)
    }
    return replace(
        cells[0],
        requests=sum(cell.requests for cell in cells),
        succeeded=sum(cell.succeeded for cell in cells),
        output_tokens=sum(cell.output_tokens for cell in cells),
        prompt_tokens=sum(cell.prompt_tokens for cell in cells),
        cached_tokens=None,
        decode_tokens_per_s=_pool_figure([cell.decode_tokens_per_s for cell in cells]),
        total_tokens_per_s=_pool_figure([cell.total_tokens_per_s for cell in cells]),
        per_prompt_log_speed=common,
        duration_s=math.fsum(cell.duration_s for cell in cells),
        notes=(f"pooled over {len(cells)} boots",),
        boots=tuple(
            BootSpeed(number, math.log(cell.decode_tokens_per_s.value), cell.per_prompt_log_speed)
            for number, cell in numbered
        ),
    )


def _pool_figure(figures: Sequence[Figure]) -> Figure:
    """Pool one speed over boots; the noise between them is its interval, and never less than that inside them."""
    pooled = geometric_mean(figures, [1.0] * len(figures))
    spread = mean_log([math.log(figure.value) for figure in figures])
    if spread.low is None or spread.high is None:
        return pooled
    low, high = math.exp(spread.low), math.exp(spread.high)
    if pooled.low is not None and pooled.high is not None:
        low, high = min(low, pooled.low), max(high, pooled.high)
    return Figure(pooled.value, pooled.count, low, high)


def _pool_evaluation(evaluations: Sequence[EvaluationMeasurement]) -> EvaluationMeasurement:
    """Keep every answer of every boot: the exact test and the interval of pass@1 take them for what they are."""
    if len(evaluations) == 1:
        return evaluations[0]
    results: dict[str, list[ProblemResult]] = {}
    for each in evaluations:
        for item in each.results:
            known = results.setdefault(item.problem, [])
            known.append(replace(item, sample=len(known)))
    pooled = tuple(item for items in results.values() for item in items)
    pass_at_1 = score_pass_at_1(pooled)
    return replace(evaluations[0], results=pooled, pass_at_1=pass_at_1 or evaluations[0].pass_at_1, pass_at_k=None)
