"""Can this trial still reach the front? Pure; Optuna's own pruning refuses studies with several objectives.

The speeds of a trial hang together, so a finished cell bounds an unmeasured one by the best ratio of the two that any
complete trial has shown. Towards lower concurrency its accept length does so instead, where it is known: a drafter that
guesses badly in one cell guesses badly in all, and tokens/s per accepted token is steps per second, which at low
concurrency hardly depends on the tree (the weights are read once either way). A ratio of speeds does depend on it: a tree
that is larger than any complete one loses more at high concurrency than they did, and would be bounded too low. The lowest
bound holds.
A constraint counts as met until it is measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from autotune.baseline import measure_spread, with_one_baseline
from autotune.interval import geometric_mean
from autotune.objectives import CONCURRENCIES, expected_cells, latest, weight
from autotune.pareto import front
from autotune.settings import StudySettings
from autotune.trial import Cell, CellMeasurement, Figure, TrialKind, TrialRecord, TrialState

_APART: Final = 1.645 * math.sqrt(2)
"""One-sided 95 % quantile of the difference of two boots, in standard deviations of one."""

MIN_HISTORY: Final = 3
"""Complete trials that must have shown a ratio before it bounds anything."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether to stop a trial, and why.

    Attributes:
        prune: True to stop it now.
        reason: one sentence for the user, either way.
        bound_c1: highest tokens/s at C=1 that it can still reach; ``None`` when unknown.
        bound_c32: same at C=32.
    """

    prune: bool
    reason: str
    bound_c1: float | None = None
    bound_c32: float | None = None


def decide(trial: TrialRecord, history: Sequence[TrialRecord], settings: StudySettings) -> Decision:
    """Judge an open trial after a stage from its finished cells and those of all other trials.

    Only trials of the sampler are ever stopped: the baseline and what the user listed are measured to the end.

    Args:
        trial: the open trial.
        history: all trials of the study; the trial itself may be among them.
        settings: the study.
    """
    if not settings.pruning.enabled:
        return Decision(False, "pruning is switched off")
    if trial.kind is not TrialKind.SEARCH:
        return Decision(False, f"a {trial.kind.value} trial is always measured to the end")
    complete = [
        other
        for other in history
        if other.state is TrialState.COMPLETE and other.kind is not TrialKind.PROFILE and other.number != trial.number
    ]
    if len(complete) < MIN_HISTORY:
        return Decision(False, f"{len(complete)} complete trials are too few to judge by, {MIN_HISTORY} are needed")
    bounds = [_bound_objective(trial, complete, concurrency, settings) for concurrency in CONCURRENCIES]
    c1, c32 = bounds
    if c1 is None or c32 is None:
        return Decision(False, "the finished cells do not bound both speeds yet", c1, c32)
    reachable = f"can reach at most {c1:.0f} tokens/s at C=1 and {c32:.0f} at C=32"
    margin = find_margin(complete, settings)
    needed = 1 + margin
    for point in front(with_one_baseline(complete, settings)):
        if point.values[0] >= c1 * needed and point.values[1] >= c32 * needed:
            return Decision(
                True,
                f"{reachable}; trial {point.trials[0].number} has {point.values[0]:.0f} and {point.values[1]:.0f}, "
                f"at least {margin:.0%} more at both",
                c1,
                c32,
            )
    return Decision(False, f"{reachable}, which no trial beats by {margin:.0%} at both", c1, c32)


def find_margin(history: Sequence[TrialRecord], settings: StudySettings) -> float:
    """Return by which share a point must beat the bound: as the settings say, and never less than boots lie apart.

    Both the trial and the point were booted once. Two boots of one configuration lie further apart than ``1.645 * sqrt(2)``
    standard deviations in one direction in one of twenty cases, so a trial as good as the point is stopped at most so often.
    """
    spread = measure_spread(history, settings)
    if spread is None:
        return settings.pruning.margin
    return max(settings.pruning.margin, math.expm1(_APART * spread.deviation))


def _bound_objective(
    trial: TrialRecord, complete: Sequence[TrialRecord], concurrency: int, settings: StudySettings
) -> float | None:
    """Return the highest value that a speed objective can still reach; ``None`` when a cell has no bound."""
    measured = latest(_this_attempt(trial.cells))
    figures, weights = [], []
    for cell in expected_cells(settings):
        if cell.concurrency != concurrency:
            continue
        if cell in measured:
            bound: float | None = measured[cell].decode_tokens_per_s.value
        else:
            bound = _bound_cell(cell, measured, complete)
        if bound is None:
            return None
        figures.append(Figure(bound, 1))
        weights.append(weight(cell, settings))
    return geometric_mean(figures, weights).value


def _this_attempt(cells: Sequence[CellMeasurement]) -> Sequence[CellMeasurement]:
    """Leave out the cells of an attempt that failed: each attempt begins with the same cell."""
    starts = [index for index, item in enumerate(cells) if item.cell == cells[0].cell]
    return cells[starts[-1] :] if starts else ()


def _bound_cell(
    target: Cell, measured: Mapping[Cell, CellMeasurement], complete: Sequence[TrialRecord]
) -> float | None:
    """Return the lowest of the optimistic bounds of an unmeasured cell; ``None`` when there is too little history."""
    bounds = []
    for cell, measurement in measured.items():
        by_accept_length = measurement.accept_length is not None and target.concurrency < cell.concurrency
        signal = _signal(measurement, by_accept_length=by_accept_length)
        ratios = []
        for other in complete:
            theirs = latest(other.cells)
            if cell in theirs and target in theirs:
                seen = _signal(theirs[cell], by_accept_length=by_accept_length)
                if seen is not None:
                    ratios.append(theirs[target].decode_tokens_per_s.value / seen)
        if signal is not None and len(ratios) >= MIN_HISTORY:
            bounds.append(signal * max(ratios))
    return min(bounds, default=None)


def _signal(measurement: CellMeasurement, *, by_accept_length: bool) -> float | None:
    """Return what a finished cell tells about another: its accept length or its speed; ``None`` when unknown."""
    figure = measurement.accept_length if by_accept_length else measurement.decode_tokens_per_s
    return None if figure is None else figure.value
