"""What do the finished cells of a trial say: its objectives, its gain over the baseline, the constraints it misses? Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from autotune.errors import ImpossibleMetric
from autotune.interval import compare_cells, geometric_mean
from autotune.pass_rate import probability_of_fewer, tally_results
from autotune.settings import StudySettings
from autotune.trial import (
    BootCondition,
    Cell,
    CellMeasurement,
    EvaluationMeasurement,
    Figure,
    Objectives,
    TrialRecord,
    TrialState,
)

CONCURRENCIES: Final = (1, 32)
"""The two speed objectives, in their order."""

LEAST_GAIN: Final = 0.02
"""A speed that is higher by a smaller share is not worth the time of a trial: boots of one configuration differ by as much."""

OBJECTIVE_NAMES: Final = ("tokens_per_s_c1", "tokens_per_s_c32", "pass_at_1")
"""All maximised."""

CONSTRAINT_NAMES: Final = ("context_loss", "launch", "pass_guard")
"""In the one order in which every trial states them, which is also the order a database returns; 0 or less is met."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a measured trial is worth.

    Attributes:
        objectives: the three objectives.
        constraints: by name, in the order of :data:`CONSTRAINT_NAMES`; 0 or less is met, ``None`` is not known.
        violation: one sentence about the first constraint that is missed; ``None`` when the trial is feasible.
    """

    objectives: Objectives
    constraints: Mapping[str, float | None]
    violation: str | None


def expected_cells(settings: StudySettings) -> tuple[Cell, ...]:
    """Return every cell of the study in the order of measurement."""
    return tuple(cell.cell for stage in settings.benchmark.stages for cell in stage.cells)


def speed(cells: Sequence[CellMeasurement], concurrency: int, settings: StudySettings) -> Figure | None:
    """Return a speed objective: weighted geometric mean over contexts of decode tokens/s; ``None`` until all are known.

    When a cell was measured more than once, the last measurement stands.
    """
    measured = {item.cell: item.decode_tokens_per_s for item in cells}
    wanted = [cell for cell in expected_cells(settings) if cell.concurrency == concurrency]
    if not wanted or any(cell not in measured for cell in wanted):
        return None
    return geometric_mean([measured[cell] for cell in wanted], [weight(cell, settings) for cell in wanted])


def latest(cells: Sequence[CellMeasurement]) -> dict[Cell, CellMeasurement]:
    """Return the last measurement of each cell: a trial that was tried again holds those of both attempts."""
    return {item.cell: item for item in cells}


def weight(cell: Cell, settings: StudySettings) -> float:
    """Return the weight of a cell's context in its objective."""
    return settings.objectives.context_weights.get(str(cell.context), 1.0)


def score(
    cells: Sequence[CellMeasurement], evaluation: EvaluationMeasurement | None, settings: StudySettings
) -> Objectives:
    """Return what is known of the three objectives."""
    c1, c32 = (speed(cells, concurrency, settings) for concurrency in CONCURRENCIES)
    return Objectives(c1, c32, None if evaluation is None else evaluation.pass_at_1)


def log_ratios(objectives: Objectives, baseline: Objectives) -> tuple[float, float] | None:
    """Return the logs of both speeds over the baseline's; ``None`` while one of the four is unknown."""
    ours = (objectives.tokens_per_s_c1, objectives.tokens_per_s_c32)
    theirs = (baseline.tokens_per_s_c1, baseline.tokens_per_s_c32)
    if ours[0] is None or ours[1] is None or theirs[0] is None or theirs[1] is None:
        return None
    return math.log(ours[0].value / theirs[0].value), math.log(ours[1].value / theirs[1].value)


def judge(trial: TrialRecord, baseline: TrialRecord | None, settings: StudySettings) -> Judgement:
    """Judge a trial whose cells were all measured.

    Args:
        trial: the trial; its stored objectives are not looked at.
        baseline: the pooled baseline; ``None`` while there is none, and then nothing is missed.
        settings: the study.
    """
    objectives = score(trial.cells, trial.evaluation, settings)
    context: tuple[float | None, str] = (None, "")
    guard: tuple[float | None, str] = (None, "")
    if baseline is not None:
        context = _context_loss(trial, baseline, objectives, settings)
        guard = _pass_guard(trial.evaluation, baseline.evaluation, settings.objectives.pass_guard_alpha)
    constraints = dict(zip(CONSTRAINT_NAMES, (context[0], -1.0, guard[0]), strict=True))
    missed = [sentence for value, sentence in (context, guard) if value is not None and value > 0]
    return Judgement(objectives, constraints, missed[0] if missed else None)


def _context_loss(
    trial: TrialRecord, baseline: TrialRecord, objectives: Objectives, settings: StudySettings
) -> tuple[float | None, str]:
    """Return by how much the worst context loses more than is allowed, where its objective does not lose.

    A mean can hide a context that is given up. A loss that the objective itself shows hides nothing: it is the
    trade-off that the front is about. So both must hold: the context loses (its whole interval), the objective not.
    """
    allowed = settings.objectives.max_context_loss
    ours = {item.cell: item for item in trial.cells}
    theirs = {item.cell: item for item in baseline.cells}
    worst: tuple[float | None, str] = (None, "")
    for concurrency, mine, base in zip(
        CONCURRENCIES,
        (objectives.tokens_per_s_c1, objectives.tokens_per_s_c32),
        (baseline.objectives.tokens_per_s_c1, baseline.objectives.tokens_per_s_c32),
        strict=True,
    ):
        if mine is None or base is None:
            continue
        slack = allowed - (1 - mine.value / base.value)
        for cell in expected_cells(settings):
            if cell.concurrency != concurrency or cell not in ours or cell not in theirs:
                continue
            ratio = compare_cells([(ours[cell], theirs[cell])], [1.0])
            best = ratio.value if ratio.high is None else ratio.high
            excess = min(-math.expm1(best) - allowed, slack)
            if worst[0] is None or excess > worst[0]:
                sentence = (
                    f"context {cell.context} at C={concurrency} loses {-ratio.gain:.1%} of the baseline's speed "
                    f"(at least {-math.expm1(best):.1%}) behind a mean that does not; {allowed:.0%} is allowed"
                )
                worst = (excess, sentence)
    return worst


def paired_p_value(ours: EvaluationMeasurement, theirs: EvaluationMeasurement) -> float | None:
    """Return the one-sided exact probability of so many new failures if pass@1 were no worse than the other's.

    Only problems that both answered count; see :func:`autotune.pass_rate.probability_of_fewer`.

    Returns:
        ``None`` when the two have no problem in common.
    """
    here, there = tally_results(ours.results), tally_results(theirs.results)
    return probability_of_fewer([(here[problem], there[problem]) for problem in here if problem in there])


def _pass_guard(
    ours: EvaluationMeasurement | None, theirs: EvaluationMeasurement | None, alpha: float
) -> tuple[float | None, str]:
    """Return how far the paired test lies beyond its level; positive when pass@1 is called worse."""
    if ours is None or theirs is None:
        return None, ""
    p_value = paired_p_value(ours, theirs)
    if p_value is None:
        return None, ""
    return alpha - p_value, (
        f"pass@1 is worse than the baseline's on the same problems: {ours.pass_at_1.value:.0%} against "
        f"{theirs.pass_at_1.value:.0%} (paired test, p = {p_value:.2g})"
    )


def ranked_pass_at_1(trial: TrialRecord, baseline: TrialRecord | None) -> float | None:
    """Return the pass@1 that ranks a feasible trial: the baseline's, because the guard found no difference.

    The raw value and its interval stay in the trial. Without a baseline the raw value ranks.
    """
    for known in (baseline, trial):
        if known is not None and known.objectives.pass_at_1 is not None:
            return known.objectives.pass_at_1.value
    return None


def told_values(trial: TrialRecord, baseline: TrialRecord | None, settings: StudySettings) -> list[float] | None:
    """Return the objectives as Optuna is told them, in their order; ``None`` while a speed or pass@1 is unknown.

    Of a feasible trial pass@1 is the value that ranks, of an infeasible one the raw value.
    """
    known = score(trial.cells, trial.evaluation, settings)
    speeds = [known.tokens_per_s_c1, known.tokens_per_s_c32]
    values = [figure.value for figure in speeds if figure is not None]
    if settings.evaluation.enabled and known.pass_at_1 is not None:
        ranked = ranked_pass_at_1(trial, baseline) if trial.state is TrialState.COMPLETE else None
        values.append(known.pass_at_1.value if ranked is None else ranked)
    return values if len(values) == (3 if settings.evaluation.enabled else 2) else None


def check_cell(cell: CellMeasurement) -> None:
    """Refuse figures that cannot be: infinite, not a number, negative, a speed or a time per token of zero.

    Also counts that contradict each other, an accept length below the one token that every step commits, and bounds in
    the wrong order.

    Raises:
        ImpossibleMetric: the message names cell, metric and value.
    """
    where = cell.cell.name
    for name, count in (
        ("requests", cell.requests),
        ("succeeded", cell.succeeded),
        ("output_tokens", cell.output_tokens),
        ("prompt_tokens", cell.prompt_tokens),
        ("cached_tokens", cell.cached_tokens),
    ):
        if count is not None:
            _check_number(name, count, where)
    if cell.succeeded > cell.requests:
        raise ImpossibleMetric(f"succeeded is {cell.succeeded} of {cell.requests} requests", where=where, hint=_HINT)
    for name, figure in (
        ("decode_tokens_per_s", cell.decode_tokens_per_s),
        ("total_tokens_per_s", cell.total_tokens_per_s),
        ("ttft_s", cell.ttft_s),
        ("tpot_s", cell.tpot_s),
        ("accept_length", cell.accept_length),
        ("prefill_tokens_per_s", cell.prefill_tokens_per_s),
    ):
        _check_figure(name, figure, where, positive=True)
    if cell.accept_length is not None and cell.accept_length.value < 1:
        raise ImpossibleMetric(
            f"accept_length is {cell.accept_length.value}, but every step commits a token", where=where, hint=_HINT
        )
    _check_number("duration_s", cell.duration_s, where)
    for prompt, value in cell.per_prompt_log_speed.items():
        if not math.isfinite(value):
            raise ImpossibleMetric(f"log speed of prompt {prompt} is {value}", where=where, hint=_HINT)


def check_condition(condition: BootCondition) -> None:
    """Refuse a canary that is no positive number.

    Raises:
        ImpossibleMetric: the message names the value.
    """
    for canary in condition.canaries:
        _check_figure("prompt tokens/s", canary, "canary", positive=True)


def check_objectives(objectives: Objectives, where: str) -> None:
    """Refuse objectives that are infinite, not a number or negative before they are told to anyone.

    Raises:
        ImpossibleMetric: the message names objective and value.
    """
    for name in OBJECTIVE_NAMES:
        figure: Figure | None = getattr(objectives, name)
        _check_figure(name, figure, where, positive=name != "pass_at_1")


def check_evaluation(evaluation: EvaluationMeasurement) -> None:
    """Refuse figures that cannot be.

    Raises:
        ImpossibleMetric: the message names the metric.
    """
    where = "coding evaluation"
    _check_figure("pass_at_1", evaluation.pass_at_1, where, positive=False)
    if evaluation.pass_at_1.value > 1:
        raise ImpossibleMetric(f"pass_at_1 is {evaluation.pass_at_1.value}, more than 1", where=where, hint=_HINT)
    for name, value in (("tokens_per_s", evaluation.tokens_per_s), ("accept_length", evaluation.accept_length)):
        if value is not None:
            _check_number(name, value, where)
    _check_number("duration_s", evaluation.duration_s, where)


_HINT: Final = "something upstream measured nothing: look at the trial's request records"


def _check_figure(name: str, figure: Figure | None, where: str, *, positive: bool) -> None:
    if figure is None:
        return
    _check_number(name, figure.value, where)
    if positive and figure.value == 0:
        raise ImpossibleMetric(f"{name} is 0, which no server that answers can reach", where=where, hint=_HINT)
    if figure.count < (0 if name == "accept_length" else 1):  # servers report an average without a count
        raise ImpossibleMetric(f"{name} rests on {figure.count} observations", where=where, hint=_HINT)
    for bound in (figure.low, figure.high):
        if bound is not None and not math.isfinite(bound):
            raise ImpossibleMetric(f"a bound of {name} is {bound}", where=where, hint=_HINT)
    if figure.low is not None and figure.high is not None and figure.low > figure.high:
        raise ImpossibleMetric(
            f"{name} lies between {figure.low} and {figure.high}, a lower bound above the upper",
            where=where,
            hint=_HINT,
        )


def _check_number(name: str, value: float, where: str) -> None:
    if not math.isfinite(value) or value < 0:
        raise ImpossibleMetric(f"{name} is {value}", where=where, hint=_HINT)
