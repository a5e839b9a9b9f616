"""How many seconds would a trial of each configuration take? The means of its arm, those of all arms where it has none. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Final

import numpy as np

from autotune.sampling.base import History
from autotune.sampling.greybox.encoding import Encoding, Rows, Vector
from autotune.trial import TrialState

_SHORTEST_S: Final = 0.001
"""No trial is shorter, also where a clock was too coarse to see it: gains are divided by it."""


def expected_seconds(history: History, feasible: Vector, encoding: Encoding, rows: Rows) -> Vector:
    """Return the expected duration of a trial of some configurations, in seconds; 1 each while no duration is known.

    A boot that fails is paid too, measuring only where it serves, and a pruned trial counts as long as it took.

    Args:
        history: the finished trials.
        feasible: probability that each of them serves; shape (n,).
        encoding: all configurations.
        rows: those asked for; shape (n,).
    """
    boots: list[tuple[int, float]] = []
    measured: list[tuple[int, float]] = []
    for trial in history.trials:
        row = encoding.row(trial.configuration)
        if row is None or trial.duration_s is None or trial.boot is None or trial.boot.ready_after_s is None:
            continue
        arm = int(encoding.arm[row])
        before_s = trial.boot.ready_after_s + (trial.boot.stopped_after_s or 0.0)
        boots.append((arm, before_s))
        if trial.state in (TrialState.COMPLETE, TrialState.PRUNED) and trial.duration_s > before_s:
            measured.append((arm, trial.duration_s - before_s))
    if not boots or not measured:
        return np.ones(len(rows))
    boot_s, measuring_s = _by_arm(boots, encoding), _by_arm(measured, encoding)
    expected_s = boot_s[encoding.arm[rows]] + feasible * measuring_s[encoding.arm[rows]]
    return np.asarray(np.maximum(expected_s, _SHORTEST_S), dtype=np.float64)


def _by_arm(known: Sequence[tuple[int, float]], encoding: Encoding) -> Vector:
    overall = statistics.fmean(value for _, value in known)
    means = []
    for arm in range(len(encoding.arm_names)):
        values = [value for other, value in known if other == arm]
        means.append(statistics.fmean(values) if values else overall)
    return np.array(means)
