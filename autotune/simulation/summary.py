"""Which method is better, by how much, and is that more than chance? Figures over the nights of a campaign. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from autotune.simulation.night_score import NightScore
from autotune.simulation.regret import Standing

Read = Callable[[Standing], float]
"""What is looked at, for example the regret of a standing."""


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean over nights.

    Attributes:
        value: the mean.
        error: its standard error; ``None`` with fewer than two nights.
        count: nights.
    """

    value: float
    error: float | None
    count: int


def mean_of(values: Sequence[float]) -> Mean | None:
    """Return the mean with its standard error; ``None`` of nothing.

    >>> mean_of([1.0, 3.0])
    Mean(value=2.0, error=1.0, count=2)
    """
    if not values:
        return None
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
    return Mean(statistics.fmean(values), error, len(values))


@dataclass(frozen=True, slots=True)
class Comparison:
    """The nights of a campaign, to be asked for figures.

    Attributes:
        scores: all nights; those of one surface and seed share their noise and are compared in pairs.
    """

    scores: tuple[NightScore, ...]

    def mean(self, method: str, read: Read, trials: int, surface: str | None = None) -> Mean | None:
        """Return the mean of a figure after so many trials, over the nights of one method.

        Args:
            method: its name.
            read: which figure.
            trials: the budget; a night that ended earlier counts as it ended.
            surface: only its nights; default: all.

        Returns:
            ``None`` when there is no such night.
        """
        nights = self._nights(method, trials, surface)
        return mean_of([read(night.after(trials)) for night in nights.values()])

    def mean_after_boots(self, method: str, read: Read, boots: int, surface: str | None = None) -> Mean | None:
        """Return the mean of a figure after so many starts of the server, the baseline's included."""
        nights = self._nights(method, 0, surface)
        return mean_of([read(night.after_boots(boots)) for night in nights.values()])

    def difference(
        self,
        method: str,
        other: str,
        read: Read,
        trials: tuple[int, int],
        surface: str | None = None,
    ) -> Mean | None:
        """Return the mean paired difference of a figure, method minus other, over the nights that both have.

        Args:
            method: who is looked at.
            other: whom it is compared with.
            read: which figure.
            trials: budget of the one, budget of the other.
            surface: only its nights; default: all.
        """
        ours, theirs = self._nights(method, trials[0], surface), self._nights(other, trials[1], surface)
        return mean_of(
            [read(ours[pair].after(trials[0])) - read(theirs[pair].after(trials[1])) for pair in ours if pair in theirs]
        )

    def best(self, methods: Sequence[str], read: Read, trials: int) -> str | None:
        """Return which of these methods has the smallest mean; ``None`` when none has a night.

        The best of several means is the luckiest as well as the best: who is compared with it is not favoured.
        """
        means = {method: found.value for method in methods if (found := self.mean(method, read, trials)) is not None}
        return min(means, key=lambda method: means[method], default=None)

    def wasted_share(self, method: str, surface: str | None = None) -> float | None:
        """Return which share of the trials after the first that met an obstacle met one of a kind seen before.

        Returns:
            ``None`` when no night of it met any obstacle.
        """
        nights = self._nights(method, 0, surface).values()
        warned = sum(night.warned for night in nights)
        return sum(night.infeasible_warned for night in nights) / warned if warned else None

    def trials_used(self, method: str) -> float | None:
        """Return how many trials a night took on average; ``None`` without any night."""
        found = mean_of([night.standings[-1].counted for night in self._nights(method, 0, None).values()])
        return None if found is None else found.value

    def proposing_s(self, method: str) -> float | None:
        """Return the mean processor time of one proposal, in seconds; ``None`` without any."""
        nights = self._nights(method, 0, None).values()
        proposed = sum(night.proposed for night in nights)
        return math.fsum(night.proposing_s for night in nights) / proposed if proposed else None

    def _nights(self, method: str, trials: int, surface: str | None) -> dict[tuple[str, int], NightScore]:
        """Nights of a method that were allowed so many trials, by surface and seed; the longest one of each."""
        nights: dict[tuple[str, int], NightScore] = {}
        for score in sorted(self.scores, key=lambda score: score.key.trials):
            key = score.key
            if key.method == method and key.trials >= trials and surface in (None, key.surface):
                nights[key.surface, key.seed] = score
        return nights


def regret_of(standing: Standing) -> float:
    """Return the regret of the recommended configuration, as a share of speed."""
    return standing.regret


def own_hypervolume_regret_of(standing: Standing) -> float:
    """Return the hypervolume regret to the study's own reference."""
    return standing.hypervolume_regrets[0]


def high_hypervolume_regret_of(standing: Standing) -> float:
    """Return the hypervolume regret to the higher reference."""
    return standing.hypervolume_regrets[1]


def breaks_rule_of(standing: Standing) -> float:
    """Return 1 where the recommended configuration truly loses more than the study allows, else 0."""
    return float(standing.breaks_rule)
