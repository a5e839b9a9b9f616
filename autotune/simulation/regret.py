"""How far from the truly best is what a night recommends, and how much of the true front has it found? Pure.

A night believes its noisy figures: it recommends, and draws its front, from what it measured. Here what it chose is judged
by the truth, after every one of its trials, so that one night of 40 trials also tells what a night of 10 would have shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autotune.baseline import pool_baseline, with_one_baseline
from autotune.pareto import Point, choose, front, hypervolume
from autotune.search_space import SearchSpace
from autotune.settings import StudySettings
from autotune.simulation.truth import Truth
from autotune.trial import TrialKind, TrialRecord, TrialState


@dataclass(frozen=True, slots=True)
class Standing:
    """What a night is worth after so many of its trials.

    Attributes:
        counted: trials that used up one of ``--trials``.
        boots: starts of the server so far, those of the baseline included.
        elapsed_s: simulated time of all trials so far.
        recommended: key of the configuration that the study would recommend.
        regret: by which share its true merit is below the best there is, plus by which share it truly loses more than the
            study allows; 0 is perfect.
        breaks_rule: it truly loses more than the study allows.
        hypervolume_regrets: 1 minus the hypervolume of the true values of the measured front over that of the true front,
            for each reference of :class:`~autotune.simulation.truth.Truth`.
    """

    counted: int
    boots: int
    elapsed_s: float
    recommended: str
    regret: float
    breaks_rule: bool
    hypervolume_regrets: tuple[float, float]


def follow_night(
    trials: Sequence[TrialRecord], settings: StudySettings, space: SearchSpace, truth: Truth
) -> tuple[Standing, ...]:
    """Return how a night stood before its first counted trial and after each one of them.

    The last standing sees everything that was measured after the last trial too, as a report at the end would.

    Args:
        trials: all trials of the night by number.
        settings: its study.
        space: its search space.
        truth: of the surface.
    """
    return tuple(_stand(seen, settings, space, truth) for seen in _prefixes(trials))


def _prefixes(trials: Sequence[TrialRecord]) -> Iterator[Sequence[TrialRecord]]:
    """Yield what was known when the next counted trial was begun, and everything at the end."""
    for index, trial in enumerate(trials):
        if is_counted(trial):
            yield trials[:index]
    yield trials


def _stand(trials: Sequence[TrialRecord], settings: StudySettings, space: SearchSpace, truth: Truth) -> Standing:
    baseline = pool_baseline(trials, settings)
    chosen = space.key(space.resolve(settings.baseline))
    reached = [chosen]
    if baseline is not None:
        points = with_one_baseline(trials, settings)
        chosen = space.key(choose(points, baseline, settings.export).trial.configuration)
        reached = [space.key(trial.configuration) for point in front(points) for trial in point.trials]
    booted = [trial for trial in trials if trial.state is not TrialState.DUPLICATE]
    return Standing(
        counted=sum(is_counted(trial) for trial in trials),
        boots=sum(trial.boot is None or not trial.boot.reused for trial in booted),
        elapsed_s=round(sum(trial.duration_s or 0.0 for trial in trials), 1),
        recommended=chosen,
        regret=find_regret(chosen, truth, settings.export.rule),
        breaks_rule=truth.values[chosen].excess > 0,
        hypervolume_regrets=find_hypervolume_regrets(reached, truth),
    )


def is_counted(trial: TrialRecord) -> bool:
    """Whether a trial used up one of ``--trials``."""
    return trial.kind in (TrialKind.SEARCH, TrialKind.LISTED) and trial.state.counts


def find_regret(key: str, truth: Truth, rule: str) -> float:
    """Return how far a recommended configuration is from the best one, as a share of speed by the study's rule.

    What breaks the study's limit on losses is never better than the best that keeps to it: its excess is added.
    """
    return max(0.0, 1 - truth.merit(key, rule) / truth.best_merit) + truth.values[key].excess


def find_hypervolume_regrets(keys: Sequence[str], truth: Truth) -> tuple[float, float]:
    """Return which share of the true front's hypervolume the true values of these configurations leave out.

    For each reference of the truth; infeasible ones among them add nothing. Nothing is left out where the true front itself
    does not reach above the reference.
    """
    points = [truth.values[key].point for key in keys if truth.values[key].is_feasible]
    first, second = (_left_out(points, truth.front, reference) for reference in truth.references)
    return first, second


def _left_out(points: Sequence[Point], whole: Sequence[Point], reference: Point) -> float:
    area = hypervolume(whole, reference)
    return max(0.0, 1 - hypervolume(points, reference) / area) if area > 0 else 0.0
