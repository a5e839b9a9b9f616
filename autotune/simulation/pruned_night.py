"""What would pruning have saved in a night that was measured to its end, and would it have lost anything?

The trials of such a night are drawn before it begins, so that pruning changes none of them: the same night, judged again
after each stage from what the real loop would have known then, tells both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from autotune.objectives import score
from autotune.pareto import Point, dominates
from autotune.pruning import decide
from autotune.search_space import SearchSpace
from autotune.settings import StudySettings
from autotune.simulation.compared_night import NOISE, find_version, know
from autotune.simulation.night_score import NightKey
from autotune.simulation.sequence import draw_order
from autotune.simulation.whole_night import measure_night
from autotune.trial import TrialKind, TrialRecord, TrialState

DRAWN: Final = "drawn"
"""Name of the method whose trials are drawn before the night."""

TOLERANCE: Final = 0.03
"""A pruned trial is no loss when a kept one is at both concurrencies at most this much slower."""


CLEARLY: Final = 0.05
"""A trial is clearly beaten by one that is faster by this share at both concurrencies."""


@dataclass(frozen=True, slots=True)
class PruningScore:
    """What pruning would have done to one night. Times are simulated.

    Attributes:
        key: which night.
        pruned: trials that would have been stopped.
        lost: those of them that no kept trial is as good as, within :data:`TOLERANCE` at both concurrencies.
        night_s: the whole night without pruning, boots included.
        saved_s: of that, what pruning saves.
        dominated_s: measuring time of trials that an earlier kept one truly beats at both concurrencies.
        dominated_saved_s: of that, what pruning saves.
        clearly_s: as ``dominated_s``, beaten by at least :data:`CLEARLY`.
        clearly_saved_s: of that, what pruning saves.
    """

    key: NightKey
    pruned: int
    lost: int
    night_s: float
    saved_s: float
    dominated_s: float
    dominated_saved_s: float
    clearly_s: float
    clearly_saved_s: float


@dataclass(frozen=True, slots=True)
class DrawnNight:
    """A night to play: its trials are drawn from the seed.

    Attributes:
        surface: name of the surface.
        seed: of order and noise.
        trials: counted trials.
    """

    surface: str
    seed: int
    trials: int

    @property
    def key(self) -> NightKey:
        """What its score is kept under."""
        return NightKey(DRAWN, self.surface, find_version(self.surface, NOISE), self.seed, self.trials)


def play_drawn_night(night: DrawnNight) -> PruningScore:
    """Play a night without pruning, then say what pruning would have done."""
    surface, truth = know(night.surface)
    trials = measure_night(
        surface, draw_order(surface.space, 2 * night.trials, night.seed), night.seed, night.trials, NOISE
    )
    points = {
        trial.number: value.point
        for trial in trials
        if (value := truth.values.get(surface.space.key(trial.configuration))) is not None
    }
    return judge_pruning(night.key, trials, points, surface.settings, surface.space)


def judge_pruning(
    key: NightKey,
    trials: Sequence[TrialRecord],
    points: Mapping[int, Point],
    settings: StudySettings,
    space: SearchSpace,
) -> PruningScore:
    """Say what pruning would have done to a night whose trials were all measured to their end.

    Args:
        key: which night.
        trials: all of them by number.
        points: true speeds by number of the trial; what met an obstacle has none.
        settings: the study, with pruning.
        space: its search space.
    """
    stopped = replay_pruning(trials, settings, space)
    kept = [trial for trial in trials if trial.state is TrialState.COMPLETE and trial.number not in stopped]
    saved = {
        trial.number: measuring_s(trial) - measuring_s(stopped[trial.number])
        for trial in trials
        if trial.number in stopped
    }
    dominated, clearly = [], []
    for trial in trials:
        if trial.kind is TrialKind.BASELINE or trial.number not in points or not trial.cells:
            continue
        mine = points[trial.number]
        earlier = [points[other.number] for other in kept if other.number < trial.number]
        if any(dominates(point, mine) for point in earlier):
            dominated.append(trial)
        factor = 1 + CLEARLY
        if any(_covers(point, (mine[0] * factor, mine[1] * factor)) for point in earlier):
            clearly.append(trial)
    lost = [
        number
        for number in stopped
        if not any(
            _covers(points[other.number], tuple((1 - TOLERANCE) * speed for speed in points[number])) for other in kept
        )
    ]
    return PruningScore(
        key=key,
        pruned=len(stopped),
        lost=len(lost),
        night_s=round(sum(trial.duration_s or 0.0 for trial in trials), 1),
        saved_s=round(sum(saved.values()), 1),
        dominated_s=round(sum(map(measuring_s, dominated)), 1),
        dominated_saved_s=round(sum(saved.get(trial.number, 0.0) for trial in dominated), 1),
        clearly_s=round(sum(map(measuring_s, clearly)), 1),
        clearly_saved_s=round(sum(saved.get(trial.number, 0.0) for trial in clearly), 1),
    )


def replay_pruning(
    trials: Sequence[TrialRecord], settings: StudySettings, space: SearchSpace
) -> dict[int, TrialRecord]:
    """Return the trials that would have been stopped, by number, as they would have been stored then.

    Args:
        trials: all of a night without pruning, by number.
        settings: the study, with pruning.
        space: its search space.
    """
    stages = [{cell.cell for cell in stage.cells} for stage in settings.benchmark.stages]
    history: list[TrialRecord] = []
    stopped: dict[int, TrialRecord] = {}
    for trial in trials:
        known = trial
        measured = set()
        for stage in stages if trial.cells else []:
            measured |= stage
            cells = tuple(cell for cell in trial.cells if cell.cell in measured)
            seen = replace(trial, cells=cells, evaluation=None, state=TrialState.MEASURING)
            seen = replace(seen, objectives=score(cells, None, settings))
            decision = decide(seen, [*history, seen], settings, space)
            if decision.prune:
                known = stopped[trial.number] = replace(seen, state=TrialState.PRUNED, reason=decision.reason)
                break
        history.append(known)
    return stopped


def measuring_s(trial: TrialRecord) -> float:
    """Return the time that cells and coding evaluation of a trial took, in seconds."""
    return sum(cell.duration_s for cell in trial.cells) + (trial.evaluation.duration_s if trial.evaluation else 0.0)


def _covers(point: Point, other: Point) -> bool:
    """Whether a point is nowhere below another."""
    return all(x >= y for x, y in zip(point, other, strict=True))


@dataclass(frozen=True, slots=True)
class PruningSummary:
    """What pruning would have done to many nights.

    Attributes:
        nights: how many.
        pruned: trials stopped in a night, on average.
        dominated_saved: share of the measuring time of trials that an earlier kept one truly beats; ``None`` without any.
        clearly_saved: the same of those that are beaten by :data:`CLEARLY`.
        night_s: a night without pruning, on average.
        pruned_night_s: a night with pruning.
        lost_nights: nights in which a pruned trial is not matched by a kept one, within :data:`TOLERANCE`.
        lost: pruned trials of which that is true.
    """

    nights: int
    pruned: float
    dominated_saved: float | None
    clearly_saved: float | None
    night_s: float
    pruned_night_s: float
    lost_nights: int
    lost: int


def summarise(scores: Sequence[PruningScore]) -> PruningSummary:
    """Add up nights.

    Raises:
        ValueError: there are none.
    """
    if not scores:
        raise ValueError("no night was played")
    nights = len(scores)
    dominated_s, clearly_s = sum(score.dominated_s for score in scores), sum(score.clearly_s for score in scores)
    night_s = sum(score.night_s for score in scores)
    return PruningSummary(
        nights=nights,
        pruned=sum(score.pruned for score in scores) / nights,
        dominated_saved=sum(score.dominated_saved_s for score in scores) / dominated_s if dominated_s else None,
        clearly_saved=sum(score.clearly_saved_s for score in scores) / clearly_s if clearly_s else None,
        night_s=night_s / nights,
        pruned_night_s=(night_s - sum(score.saved_s for score in scores)) / nights,
        lost_nights=sum(score.lost > 0 for score in scores),
        lost=sum(score.lost for score in scores),
    )
