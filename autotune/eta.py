"""How long will it take? Learned from the trials that ended; pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from autotune.trial import TrialKind, TrialRecord, TrialState

_CAUTION = 1.2
"""Share added where being late breaks a promise."""
_STOP_S = 5.0
"""Time to stop a server, while none was seen to stop."""


@dataclass(frozen=True, slots=True)
class Durations:
    """What trials took, in seconds; ``None`` while nothing was seen.

    Attributes:
        trial_s: one counted trial, on average, duplicates and failures left out.
        baseline_s: one boot of the baseline, measured.
        longest_s: the longest trial that was measured to its end.
        boot_s: from start to the first checked generation: the 95th percentile.
        stop_s: from the stop of a server until its port and memory are free: the 95th percentile.
        confirmation_s: one boot of a confirmation, measured, on average.
    """

    trial_s: float | None
    baseline_s: float | None
    longest_s: float | None
    boot_s: float | None
    stop_s: float | None = None
    confirmation_s: float | None = None

    def needed_s(self, *, restores_server: bool) -> float | None:
        """Return the time that another trial and the restore may take, with caution; ``None`` while unknown."""
        restore_s = self.restore_s(restores_server=restores_server)
        return None if self.longest_s is None or restore_s is None else _CAUTION * self.longest_s + restore_s

    def restore_s(self, *, restores_server: bool) -> float | None:
        """Return the time that putting the host back may take, with caution; ``None`` while unknown."""
        stop_s = _STOP_S if self.stop_s is None else max(_CAUTION * self.stop_s, _STOP_S)
        if not restores_server:
            return stop_s
        return None if self.boot_s is None else _CAUTION * self.boot_s + stop_s

    def confirming_s(self, boots: int, soak_s: float) -> float | None:
        """Return the time that boots of a confirmation and a soak take, on average; ``None`` while unknown.

        The soak may find the server that it needs, or boot it.
        """
        if not boots and not soak_s:
            return 0.0
        known = (self.confirmation_s, self.baseline_s, self.trial_s)
        one_s = next((seconds for seconds in known if seconds is not None), None)
        if one_s is None:
            return None
        return boots * one_s + (soak_s + (self.boot_s or 0.0) if soak_s else 0.0)

    def study_left_s(
        self, trials_left: int, baselines_left: int, *, restores_server: bool, confirming_s: float | None = 0.0
    ) -> float | None:
        """Return the time until everything is over, on average; ``None`` while unknown.

        Args:
            trials_left: counted trials to come.
            baselines_left: boots of the baseline to come, without those of a confirmation.
            restores_server: whether a server has to run again afterwards.
            confirming_s: for a confirmation to come; ``None`` is unknown.
        """
        trial_s = self.trial_s if self.trial_s is not None else self.baseline_s
        if trial_s is None or confirming_s is None:
            return None
        baseline_s = self.baseline_s if self.baseline_s is not None else trial_s
        stop_s = self.stop_s or _STOP_S
        restore_s = (self.boot_s or 0.0) + stop_s if restores_server else stop_s
        return trials_left * trial_s + baselines_left * baseline_s + confirming_s + restore_s


def learn_durations(trials: Sequence[TrialRecord]) -> Durations:
    """Learn from the trials of a study.

    Times are those of whole trials, so that a retry or a slow start is in them as often as it happens.
    """
    booted = [trial for trial in trials if trial.duration_s is not None and trial.state.is_final]
    counted = [trial.duration_s for trial in booted if trial.is_counted]
    whole = [
        trial
        for trial in booted
        if trial.state is TrialState.COMPLETE and trial.kind is not TrialKind.PROFILE and not trial.is_soak
    ]
    baselines = [trial.duration_s for trial in whole if trial.kind is TrialKind.BASELINE]
    boots = [trial.boot for trial in trials if trial.boot is not None]
    return Durations(
        trial_s=_mean(counted),
        baseline_s=_mean(baselines),
        longest_s=max((trial.duration_s for trial in whole if trial.duration_s is not None), default=None),
        boot_s=_percentile_95([boot.ready_after_s for boot in boots]),
        stop_s=_percentile_95([boot.stopped_after_s for boot in boots]),
        confirmation_s=_mean([trial.duration_s for trial in whole if trial.kind is TrialKind.CONFIRMATION]),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def _percentile_95(values: Sequence[float | None]) -> float | None:
    """Return the smallest value that at least 95 % of the known ones do not exceed (nearest rank)."""
    known = sorted(value for value in values if value is not None)
    return known[math.ceil(0.95 * len(known)) - 1] if known else None
