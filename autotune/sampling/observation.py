"""What does a sampler learn from a trial? The two-objective view of the study: two log speed ratios and constraints. Pure.

pass@1 is not an axis here: it is a constraint, because under lossless acceptance it is flat and its noise would drown the
search. A pruned trial teaches the speeds that it reached, an infeasible one that its neighbourhood is infeasible; a
failed one teaches nothing, since nothing about its configuration is known.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from autotune.interval import geometric_mean
from autotune.objectives import CONCURRENCIES, CONSTRAINT_NAMES, expected_cells, judge, log_ratios, weight
from autotune.sampling.base import History
from autotune.settings import StudySettings
from autotune.trial import Configuration, Figure, TrialRecord, TrialState

LAUNCH_MISSED: Final = 1.0
"""Value of the constraint ``launch`` of a configuration that does not start or cannot be measured."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One trial as a sampler sees it.

    Attributes:
        configuration: canonical form.
        log_speeds: logs of tokens/s at C=1 and at C=32 over the baseline's, in that order.
        constraints: by name, always all of them in the order of the objectives module; 0 or less is met.
        is_measured: False where a speed was filled in because nothing measured it.
    """

    configuration: Configuration
    log_speeds: tuple[float, float]
    constraints: Mapping[str, float]
    is_measured: bool


def observe(history: History) -> tuple[Observation, ...]:
    """Return what the finished trials teach, by number; empty while the baseline is unknown.

    A speed that was not measured is filled in: for a pruned trial with the lower quartile of the complete trials (no
    better than most, but not so low that it would bend the model far around it), for an infeasible one with the lowest
    speed seen. An unmeasured constraint gets the median of the measured ones, but never a missed one: a constraint counts
    as met until it is measured.
    """
    baseline = history.baseline
    if baseline is None:
        return ()
    trials = [trial for trial in history.trials if trial.state.counts]
    known = {trial.number: log_ratios(trial.objectives, baseline.objectives) for trial in trials}
    speeds = [pair for pair in known.values() if pair is not None]
    if not speeds:
        return ()
    judged = {
        trial.number: judge(trial, baseline, history.settings).constraints
        for trial in trials
        if known[trial.number] is not None
    }
    neutral = _neutral_constraints(tuple(judged.values()))
    seen = []
    for trial in trials:
        pair = known[trial.number]
        constraints = dict(neutral)
        if pair is None:
            partial = [_partial_log_speed(trial, baseline, c, history.settings) for c in CONCURRENCIES]
            quantile = 0.0 if trial.state is TrialState.INFEASIBLE else 0.25
            filled = [
                value if value is not None else _quantile([speed[axis] for speed in speeds], quantile)
                for axis, value in enumerate(partial)
            ]
            if trial.state is TrialState.INFEASIBLE:
                constraints["launch"] = LAUNCH_MISSED
            seen.append(Observation(trial.configuration, (filled[0], filled[1]), constraints, is_measured=False))
        else:
            constraints |= {name: value for name, value in judged[trial.number].items() if value is not None}
            if trial.state is TrialState.INFEASIBLE and all(value <= 0 for value in constraints.values()):
                constraints["launch"] = LAUNCH_MISSED
            seen.append(Observation(trial.configuration, pair, constraints, is_measured=True))
    return tuple(seen)


def _neutral_constraints(judged: Sequence[Mapping[str, float | None]]) -> dict[str, float]:
    """Return the value that stands for an unmeasured constraint, by name in the fixed order."""
    neutral = {}
    for name in CONSTRAINT_NAMES:
        values = [value for constraints in judged if (value := constraints[name]) is not None]
        neutral[name] = min(0.0, statistics.median(values)) if values else 0.0
    return neutral


def _partial_log_speed(
    trial: TrialRecord, baseline: TrialRecord, concurrency: int, settings: StudySettings
) -> float | None:
    """Return the log ratio over the cells of one concurrency that both have; ``None`` when there is none."""
    ours = {item.cell: item.decode_tokens_per_s for item in trial.cells}
    theirs = {item.cell: item.decode_tokens_per_s for item in baseline.cells}
    common = [
        cell for cell in expected_cells(settings) if cell.concurrency == concurrency and cell in ours and cell in theirs
    ]
    if not common:
        return None
    ratios = [Figure(ours[cell].value / theirs[cell].value, 1) for cell in common]
    return math.log(geometric_mean(ratios, [weight(cell, settings) for cell in common]).value)


def _quantile(values: Sequence[float], share: float) -> float:
    """Return an order statistic: the value below which at most ``share`` of the others lie."""
    ordered = sorted(values)
    return ordered[int(share * (len(ordered) - 1))]
