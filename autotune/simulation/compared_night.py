"""What does one method make of one night on one surface? A night of a campaign, played and judged."""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from autotune.sampling.base import History, Sampler, StoppingSampler
from autotune.search_space import SearchSpace
from autotune.simulation.catalogue import open_surface
from autotune.simulation.method import Method
from autotune.simulation.night import simulate_night
from autotune.simulation.night_score import NightKey, NightScore
from autotune.simulation.noise import NoiseSettings
from autotune.simulation.regret import Standing, follow_night, is_counted
from autotune.simulation.surface import Obstacle, Surface
from autotune.simulation.truth import Truth, find_truth
from autotune.trial import Configuration, TrialRecord, TrialState

NOISE: Final = NoiseSettings()
"""The same in every night of a comparison."""


@dataclass(frozen=True, slots=True)
class ComparedNight:
    """A night to play; those of one surface and seed have the same noise, whoever proposes.

    Attributes:
        method: who proposes.
        surface: name of the surface.
        seed: of sampler and noise.
        trials: counted trials.
    """

    method: Method
    surface: str
    seed: int
    trials: int

    @property
    def key(self) -> NightKey:
        """What its score is kept under."""
        return NightKey(self.method.name, self.surface, find_version(self.surface, NOISE), self.seed, self.trials)


@cache
def know(name: str) -> tuple[Surface, Truth]:
    """Return a surface by name and its truth; worked out once in a process.

    Raises:
        UserError: there is no such surface.
    """
    surface = open_surface(name)
    return surface, find_truth(surface)


@cache
def find_version(name: str, *conditions: object) -> str:
    """Return what changes when a surface, its study, or a condition of the night (noise, boots of a confirmation) does.

    Raises:
        UserError: there is no such surface.
    """
    _, truth = know(name)
    return hashlib.sha256(f"{truth.version} {conditions}".encode()).hexdigest()[:12]


class TimedSampler:
    """Passes every question on and adds up the time of the answers.

    Args:
        sampler: who is asked.
        clock: seconds; the processor time of this process, so that what else runs does not count.

    Attributes:
        proposed: answers so far.
        proposing_s: their time.
    """

    def __init__(self, sampler: Sampler, clock: Callable[[], float] = time.process_time) -> None:
        self._sampler = sampler
        self._clock = clock
        self.proposed = 0
        self.proposing_s = 0.0

    def propose(
        self, history: History, space: SearchSpace, pending: Sequence[Configuration], rng: random.Random
    ) -> Configuration:
        """Return what the other sampler proposes."""
        began_s = self._clock()
        try:
            return self._sampler.propose(history, space, pending, rng)
        finally:
            self.proposing_s += self._clock() - began_s
            self.proposed += 1


class TimedStoppingSampler(TimedSampler):
    """The same for one that may end the night early; in a comparison of equal budgets none may."""

    def __init__(self, sampler: StoppingSampler, clock: Callable[[], float] = time.process_time) -> None:
        super().__init__(sampler, clock)
        self._stopping = sampler

    def explain_exhaustion(self, history: History, space: SearchSpace) -> str | None:
        """Return why nothing is left to win, if the sampler says so."""
        return self._stopping.explain_exhaustion(history, space)


def play_night(night: ComparedNight) -> NightScore:
    """Play a night on the real trial loop and judge it by the truth."""
    surface, truth = know(night.surface)
    sampler = _time(night.method.make_sampler(surface, night.trials), may_stop=night.method.may_stop)
    evidence = night.method.find_evidence(surface, night.seed)
    played = simulate_night(
        surface,
        sampler,
        night.seed,
        night.trials,
        noise=NOISE,
        evidence=evidence,
    )
    trials = played.view.trials
    met = find_obstacles(trials, surface)
    warned, infeasible_warned = count_warned(met)
    standings = follow_night(trials, played.view.settings, surface.space, truth)
    if evidence:
        standings = tuple(map(_with_profile, standings))
    return NightScore(
        key=night.key,
        standings=standings,
        reason=played.reason,
        pruned=sum(trial.state is TrialState.PRUNED for trial in trials),
        infeasible=sum(obstacle is not None for obstacle in met),
        warned=warned,
        infeasible_warned=infeasible_warned,
        proposed=sampler.proposed,
        proposing_s=round(sampler.proposing_s, 4),
    )


def _time(sampler: Sampler, *, may_stop: bool) -> TimedSampler:
    """Return the sampler with its time taken; one that may not stop cannot be asked whether it would."""
    return TimedStoppingSampler(sampler) if may_stop and isinstance(sampler, StoppingSampler) else TimedSampler(sampler)


def _with_profile(standing: Standing) -> Standing:
    """Count the boot that evidence of accept lengths takes before the first trial."""
    return replace(standing, boots=standing.boots + 1)


def find_obstacles(trials: Sequence[TrialRecord], surface: Surface) -> list[Obstacle | None]:
    """Return which obstacle each counted trial met, in their order; ``None`` for one that served."""
    return [
        surface.find_obstacle(trial.configuration) if trial.state is TrialState.INFEASIBLE else None
        for trial in trials
        if is_counted(trial)
    ]


def count_warned(met: Sequence[Obstacle | None]) -> tuple[int, int]:
    """Return how many trials came after the first obstacle, and how many of those met one of a kind met before.

    >>> count_warned([None, Obstacle.OUT_OF_MEMORY, None, Obstacle.OUT_OF_MEMORY, Obstacle.REFUSED])
    (3, 1)
    """
    known: set[Obstacle] = set()
    warned = again = 0
    for obstacle in met:
        warned += bool(known)
        if obstacle is not None:
            again += obstacle in known
            known.add(obstacle)
    return warned, again
