"""What a study has found so far: gains over the baseline, the front, the recommendation, noise and time spent (pure)."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from autotune.baseline import find_baseline_boots, measure_spread, with_one_baseline
from autotune.confirmation.recommendation import recommend
from autotune.confirmation.verdict import Verdict, judge_all
from autotune.drift import find_drifts
from autotune.interval import best_of_quantile, compare_cells
from autotune.objectives import CONCURRENCIES, latest, weight
from autotune.pareto import Choice, FrontPoint, front
from autotune.trial import Figure, TrialKind, TrialRecord, TrialState

if TYPE_CHECKING:
    from autotune.settings import StudySettings
    from autotune.study_view import StudyView


@dataclass(frozen=True, slots=True)
class Noise:
    """How far boots of the same configuration lie apart.

    Attributes:
        boots: complete boots of the baseline that this rests on, at least two.
        spread: standard deviation of the log speed between boots, the larger of the two concurrencies.
        smallest_gain: the smallest relative gain of one boot that is beyond this noise at 95 %; ``None`` with two boots,
            whose spread says next to nothing about its own size.
        inside: the part of ``spread`` that is noise inside the boots, which more rounds would lower; ``None`` is unknown.
    """

    boots: int
    spread: float
    smallest_gain: float | None
    inside: float | None = None


@dataclass(frozen=True, slots=True)
class TimeSpent:
    """Where the time went, in seconds, over all trials of the study; waiting is for servers to get ready.

    Attributes:
        boots: servers that were started.
        adopted: servers that ran already and were measured as they were found.
        total_s: over all trials.
        waiting_s: for servers to get ready.
        measuring_s: in cells.
        evaluating_s: with coding problems.
    """

    boots: int
    adopted: int
    total_s: float
    waiting_s: float
    measuring_s: float
    evaluating_s: float


@dataclass(frozen=True, slots=True)
class Findings:
    """Everything that status, report, dashboard and export say about a study.

    Attributes:
        baseline: all its boots pooled; ``None`` until one is complete.
        baseline_boots: how many boots that are; those that drifted are left out while one did not.
        front: the Pareto front, fastest at C=1 first.
        choice: the recommended trial and why; ``None`` without a baseline.
        gains_c1: trial number -> speed relative to the baseline at C=1 (1.1 is 10 % faster), where it can be compared;
            boots of the baseline have none, because they are what it is relative to.
        gains_c32: the same at C=32.
        states: how many trials ended, or are, in each state.
        noise: ``None`` until the baseline was booted twice.
        time: where the time went.
        drifts: trial number -> how it shows that its boot ran on a machine that was not itself.
        confirmations: what each confirmation says, in their order.
        pooled: number of each leader -> its boots pooled, that of the search among them.
    """

    baseline: TrialRecord | None
    baseline_boots: int
    front: tuple[FrontPoint, ...]
    choice: Choice | None
    gains_c1: Mapping[int, Figure]
    gains_c32: Mapping[int, Figure]
    states: Mapping[TrialState, int]
    noise: Noise | None
    time: TimeSpent
    drifts: Mapping[int, tuple[str, ...]]
    confirmations: tuple[Verdict, ...] = ()
    pooled: Mapping[int, TrialRecord] = field(default_factory=dict)

    def shown(self, trial: TrialRecord) -> TrialRecord:
        """Return a trial as its figures are shown: a leader with all of its boots pooled."""
        return self.pooled.get(trial.number, trial)

    def is_on_front(self, trial: TrialRecord) -> bool:
        """True when no other trial beats this one."""
        return any(trial.number == member.number for point in self.front for member in point.trials)

    def is_recommended(self, trial: TrialRecord) -> bool:
        """True for the trial that would be exported."""
        return self.choice is not None and trial.number == self.choice.trial.number

    @property
    def is_baseline_recommended(self) -> bool:
        """True when nothing beats the baseline, so that there is nothing to change."""
        return self.baseline is not None and self.is_recommended(self.baseline)


def find(view: StudyView) -> Findings:
    """Draw every conclusion from a stored study."""
    baseline = view.baseline
    gains: dict[int, dict[int, Figure]] = {concurrency: {} for concurrency in CONCURRENCIES}
    points = with_one_baseline(view.trials, view.settings)
    confirmations = judge_all(view.trials, view.settings)
    if baseline is not None:
        for concurrency, found in gains.items():
            for trial in points:
                if trial.kind is TrialKind.BASELINE:
                    continue  # a gain over itself says nothing
                gain = measure_gain(trial, baseline, concurrency, view.settings)
                if gain is not None:
                    found[trial.number] = gain
    leaders = {number for verdict in confirmations for number in verdict.plan.leaders}
    return Findings(
        baseline=baseline,
        baseline_boots=len(find_baseline_boots(view.trials)),
        front=front(points),
        choice=None
        if baseline is None
        else recommend(points, baseline, view.trials, confirmations, view.settings.export),
        gains_c1=gains[1],
        gains_c32=gains[32],
        states=Counter(trial.state for trial in view.trials),
        noise=estimate_noise(view.trials, view.settings),
        time=sum_time(view.trials),
        drifts=_explain_drifts(view.trials),
        confirmations=confirmations,
        pooled={point.number: point for point in points if point.number in leaders},
    )


def _explain_drifts(trials: Sequence[TrialRecord]) -> dict[int, tuple[str, ...]]:
    """Return how boots drifted, and what became of those of the baseline."""
    drifts = find_drifts(trials)
    pooled = {trial.number for trial in find_baseline_boots(trials)}
    baselines = {trial.number for trial in trials if trial.kind is TrialKind.BASELINE}
    return {
        number: (*sentences, "left out of the baseline") if number in baselines - pooled else sentences
        for number, sentences in drifts.items()
    }


def measure_gain(trial: TrialRecord, baseline: TrialRecord, concurrency: int, settings: StudySettings) -> Figure | None:
    """Return the speed relative to the baseline over the contexts that both have measured at one concurrency.

    The value is the ratio of the two geometric means. The 95 % interval holds the noise between boots and what prompts
    gain differently (:func:`autotune.interval.compare_boots`); it is unknown until a side was booted twice. The count is
    that of compared prompts; 0 where a cell has too few in common, and was compared as a whole.

    Returns:
        ``None`` when they share no cell.
    """
    theirs = latest(baseline.cells)
    pairs = [(cell, theirs[cell.cell]) for cell in latest(trial.cells).values() if cell.cell in theirs]
    pairs = [(mine, other) for mine, other in pairs if mine.cell.concurrency == concurrency]
    if not pairs:
        return None
    ratio = compare_cells(pairs, [weight(mine.cell, settings) for mine, _ in pairs])
    if not ratio.degrees or ratio.low is None or ratio.high is None:
        return Figure(ratio.factor, ratio.pairs)
    return Figure(ratio.factor, ratio.pairs, math.exp(ratio.low), math.exp(ratio.high))


def estimate_noise(trials: Sequence[TrialRecord], settings: StudySettings) -> Noise | None:
    """Estimate the noise between boots from repeated boots of the baseline; ``None`` with fewer than two.

    Boots that drifted are left out, as in the baseline itself.
    """
    spread = measure_spread(trials, settings)
    if spread is None:
        return None
    gain = None if spread.boots < 3 else smallest_gain(spread.boots, spread.deviation)
    return Noise(spread.boots, spread.deviation, gain, spread.inside)


def smallest_gain(boots: int, spread: float, candidates: int = 1) -> float:
    """Return the smallest relative gain of one boot that is beyond the noise between boots at 95 %.

    >>> round(smallest_gain(3, 0.01), 3), round(smallest_gain(3, 0.01, 20), 3)
    (0.051, 0.135)

    Args:
        boots: boots of the baseline that it is compared with, at least two.
        spread: standard deviation of their log speed.
        candidates: trials of which it is the best: the best of many is ahead by luck more often than any one of them.
    """
    return math.expm1(best_of_quantile(boots, candidates) * spread * math.sqrt(1 + 1 / boots))


def sum_time(trials: Sequence[TrialRecord]) -> TimeSpent:
    """Add up where the time went; what is unknown (open trials) is left out."""
    booted = [trial.boot for trial in trials if trial.boot is not None]
    return TimeSpent(
        boots=sum(not boot.reused for boot in booted),
        adopted=sum(boot.reused for boot in booted),
        total_s=sum(trial.duration_s or 0.0 for trial in trials),
        waiting_s=sum(boot.ready_after_s or 0.0 for boot in booted),
        measuring_s=sum(cell.duration_s for trial in trials for cell in trial.cells),
        evaluating_s=sum(trial.evaluation.duration_s for trial in trials if trial.evaluation is not None),
    )


def accept_length(trial: TrialRecord, concurrency: int) -> float | None:
    """Mean accept length over the cells at one concurrency; ``None`` where speculation is off or nothing was read."""
    known = [
        cell.accept_length.value
        for cell in latest(trial.cells).values()
        if cell.cell.concurrency == concurrency and cell.accept_length is not None
    ]
    return statistics.fmean(known) if known else None
