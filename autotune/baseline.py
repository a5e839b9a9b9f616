"""What do all boots of the baseline say together? One record that trials are compared with. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from autotune.drift import find_drifts
from autotune.interval import geometric_mean, mean_log, pooled_variance
from autotune.objectives import score
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
    if len(boots) < 2:
        return boots[0] if boots else None
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
    """Return the complete boots of the baseline that others are compared with.

    Boots that drifted are left out, as long as one is left that did not.
    """
    boots = [trial for trial in trials if trial.kind is TrialKind.BASELINE and trial.state is TrialState.COMPLETE]
    drifts = find_drifts(trials)
    steady = [trial for trial in boots if trial.number not in drifts]
    return tuple(steady or boots)


def measure_spread(trials: Sequence[TrialRecord]) -> tuple[int, float] | None:
    """Return how many boots of the baseline show how far boots lie apart, and the standard deviation of their log speed.

    The larger of the two concurrencies; see :func:`find_baseline_boots` for which boots.

    Returns:
        ``None`` with fewer than two boots.
    """
    boots = [trial.objectives for trial in find_baseline_boots(trials)]
    speeds = [
        [math.log(figure.value) for figure in figures if figure is not None and figure.value > 0]
        for figures in ([boot.tokens_per_s_c1 for boot in boots], [boot.tokens_per_s_c32 for boot in boots])
    ]
    known = [logs for logs in speeds if len(logs) > 1]
    if not known:
        return None
    return min(map(len, known)), max(math.sqrt(pooled_variance([logs])) for logs in known)


def with_one_baseline(trials: Sequence[TrialRecord], settings: StudySettings) -> tuple[TrialRecord, ...]:
    """Return the trials with one pooled record, first, in place of all boots of the baseline.

    A front is drawn from these: from single boots, the baseline's luckiest one would stand on it.
    """
    pooled = pool_baseline(trials, settings)
    if pooled is None:
        return tuple(trials)
    return (pooled, *(trial for trial in trials if trial.kind is not TrialKind.BASELINE))


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
    """Pool one speed over boots: three boots or more show the noise between boots, which is then the interval."""
    pooled = geometric_mean(figures, [1.0] * len(figures))
    if len(figures) < 3:
        return pooled
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
