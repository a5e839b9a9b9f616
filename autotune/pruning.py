"""Can this trial still reach the front? Pure; Optuna's own pruning refuses studies with several objectives.

The grey-box model answers from the cells that the trial has and from all other trials: what a finished cell tells of the
others is known better the more boots there were. Where figures are noisy its intervals are wide, and nothing is stopped.
The less of a trial is still ahead, the less stopping it saves, and the surer it must be. A constraint counts as met until it
is measured.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from autotune.objectives import CONCURRENCIES, LEAST_GAIN, latest
from autotune.search_space import SearchSpace
from autotune.settings import StudySettings
from autotune.suggestion import read_history
from autotune.trial import CellMeasurement, TrialKind, TrialRecord, TrialState

if TYPE_CHECKING:
    from autotune.sampling.greybox.encoding import Encoding, Vector
    from autotune.sampling.greybox.standing import Standing

MIN_HISTORY: Final = 3
"""Complete trials, boots of the baseline among them, before anything is stopped."""

_DRAWS: Final = 1000
"""Possible worlds in which a trial is compared with the others; a chance of 5 % is known to 0.7 %."""

_SEED: Final = 1

_WITHIN: Final = 1.96


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether to stop a trial, and why.

    Attributes:
        prune: True to stop it now.
        reason: one sentence for the user, either way.
        chance: that no complete trial is, by its true speeds, as fast at both concurrencies but for :data:`~autotune.objectives.LEAST_GAIN`;
            ``None`` where nobody can say.
    """

    prune: bool
    reason: str
    chance: float | None = None


def decide(trial: TrialRecord, history: Sequence[TrialRecord], settings: StudySettings, space: SearchSpace) -> Decision:
    """Judge an open trial after a stage from its finished cells and all other trials.

    Only trials of the sampler are ever stopped: the baseline and what the user listed are measured to the end.

    Args:
        trial: the open trial.
        history: all trials of the study; the trial itself may be among them.
        settings: the study.
        space: its search space.
    """
    if not settings.pruning.enabled:
        return Decision(False, "pruning is switched off")
    if trial.kind is not TrialKind.SEARCH:
        return Decision(False, f"a {trial.kind.value} trial is always measured to the end")
    others = [other for other in history if other.number != trial.number]
    complete = [other for other in others if other.state is TrialState.COMPLETE and other.kind is not TrialKind.PROFILE]
    if len(complete) < MIN_HISTORY:
        return Decision(False, f"{len(complete)} complete trials are too few to judge by, {MIN_HISTORY} are needed")
    seen = replace(trial, state=TrialState.PRUNED, cells=tuple(_this_attempt(trial.cells)))
    if _leads_everywhere(seen, complete):
        return Decision(False, "no complete trial is faster in any cell that it has measured")

    from autotune.sampling.greybox.one_thread import one_thread  # noqa: PLC0415  # numpy is slow to import

    with one_thread():
        return _judge(seen, others, settings, space)


def _leads_everywhere(seen: TrialRecord, complete: Sequence[TrialRecord]) -> bool:
    """Whether no complete trial was faster in any of its cells; what the model makes of so much luck does not count."""
    mine = latest(seen.cells)
    return not any(
        cell in mine and item.decode_tokens_per_s.value > mine[cell].decode_tokens_per_s.value
        for other in complete
        for cell, item in latest(other.cells).items()
    )


def _judge(seen: TrialRecord, others: Sequence[TrialRecord], settings: StudySettings, space: SearchSpace) -> Decision:
    """Ask the model, which is told of the trial as if it ended here."""
    import numpy as np  # noqa: PLC0415  # as the next

    from autotune.sampling.greybox.acquisition import chance_ahead  # noqa: PLC0415  # scipy is slow to import
    from autotune.sampling.greybox.standing import find_standing  # noqa: PLC0415

    encoding = _encode(space)
    row = encoding.row(seen.configuration)
    standing = None if row is None else find_standing(read_history([*others, seen], settings, space), encoding)
    if row is None or standing is None:
        return Decision(False, "too little is known to judge by")
    forecast = standing.forecast(standing.model, np.array([row]))
    draws = standing.model.draw(np.array([row, *standing.complete[standing.complete != row]]), _DRAWS, _SEED)
    chance = chance_ahead(draws, math.log1p(LEAST_GAIN))
    speeds = zip(CONCURRENCIES, forecast.mean[0].tolist(), forecast.deviation[0].tolist(), strict=True)
    expected = " and ".join(f"{_describe(mean, deviation)} at C={number}" for number, mean, deviation in speeds)
    reason = f"expected {expected} against the baseline, {_describe_chance(chance)} to be on the front"
    if chance >= settings.pruning.threshold * share_ahead(seen, others):
        return Decision(False, reason, chance)
    return Decision(True, f"{reason}; {_describe_better(forecast.mean[0], standing, others)}", chance)


def share_ahead(seen: TrialRecord, others: Sequence[TrialRecord]) -> float:
    """Return which share of the measuring time of complete trials went into what this trial has not measured; 1 without any.

    Args:
        seen: the open trial.
        others: all other trials of the study.
    """
    known = {item.cell for item in seen.cells}
    total_s = ahead_s = 0.0
    for other in others:
        if other.state is TrialState.COMPLETE and other.kind is not TrialKind.PROFILE:
            judging_s = 0.0 if other.evaluation is None else other.evaluation.duration_s
            total_s += judging_s + math.fsum(item.duration_s for item in other.cells)
            ahead_s += judging_s + math.fsum(item.duration_s for item in other.cells if item.cell not in known)
    return ahead_s / total_s if total_s else 1.0


@functools.lru_cache(maxsize=1)
def _encode(space: SearchSpace) -> Encoding:
    from autotune.sampling.greybox.encoding import Encoding  # noqa: PLC0415

    return Encoding(space)


def _describe(mean: float, deviation: float) -> str:
    low, high = math.expm1(mean - _WITHIN * deviation), math.expm1(mean + _WITHIN * deviation)
    return f"{math.expm1(mean):+.0%} ({low:+.0%} to {high:+.0%})"


def _describe_chance(chance: float) -> str:
    return "a chance below 0.1%" if chance < 0.001 else f"a chance of {chance:.1%}"


def _describe_better(mean: Vector, standing: Standing, others: Sequence[TrialRecord]) -> str:
    """Name the complete trial that is furthest ahead at the concurrency at which it is less so, or the baseline."""
    logs = standing.forecast(standing.model, standing.complete).mean
    best = int((logs - mean).min(axis=1).argmax())
    row = int(standing.complete[best])
    numbers = (
        other.number
        for other in others
        if other.state is TrialState.COMPLETE
        and other.kind not in (TrialKind.BASELINE, TrialKind.PROFILE)
        and standing.encoding.row(other.configuration) == row
    )
    number = next(numbers, None)
    if number is None:
        return "the baseline is ahead"
    gains = " and ".join(f"{math.expm1(value):+.0%}" for value in logs[best].tolist())
    return f"trial {number} is at {gains}"


def _this_attempt(cells: Sequence[CellMeasurement]) -> Sequence[CellMeasurement]:
    """Leave out the cells of an attempt that failed: each attempt begins with the same cell."""
    starts = [index for index, item in enumerate(cells) if item.cell == cells[0].cell]
    return cells[starts[-1] :] if starts else ()
