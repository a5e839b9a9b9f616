"""Is anything left to win? What the best unmeasured configuration would be worth if all speeds were known, on average."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from autotune.objectives import LEAST_GAIN
from autotune.pareto import hypervolume
from autotune.sampling.greybox.acquisition import (
    expected_hypervolume_improvement,
    expected_merit_improvement,
    is_allowed,
    log_merit,
)
from autotune.sampling.greybox.encoding import Flags, Matrix, Rows, Vector
from autotune.sampling.greybox.standing import Standing
from autotune.settings import ExportSettings

_SHORTLIST: Final = 120
_DRAWS: Final = 128
_SEED: Final = 1
"""The same draws at every look, so that a study that is resumed comes to the same end."""


@dataclass(frozen=True, slots=True)
class Remaining:
    """What the search could still win, on average.

    Attributes:
        merit: log merit of the recommended configuration.
        area: share of the area below the front.
        noise: standard deviation between boots of the log merit.
        least_merit: what is less counts as nothing: half of what makes a configuration worth a trial's time.
        least_area: likewise: the share by which the area would grow if all points of the front were faster by as much.
    """

    merit: float
    area: float
    noise: float
    least_merit: float
    least_area: float

    @property
    def is_nothing(self) -> bool:
        """Whether both count as nothing."""
        return self.merit < self.least_merit and self.area < self.least_area


def find_remaining(standing: Standing, candidates: Rows, feasible: Vector, export: ExportSettings) -> Remaining:
    """Return what is left to win.

    Joint draws of all speeds are compared: in each, the best candidate with the best of what was measured. So the many
    candidates that nobody knows to differ count as one chance, and what is not known counts in full.

    Args:
        standing: where the study stands.
        candidates: rows that may still be proposed.
        feasible: probability that each of them serves; shape (candidates,).
        export: the rule of the recommendation.
    """
    one, two = standing.model.noise
    noise = {"c1": one, "c32": two, "balanced": math.sqrt((one**2 + two**2) / 2)}[export.rule]
    area_now = hypervolume(standing.front, standing.reference)
    faster = [(c1 * (1 + LEAST_GAIN), c32 * (1 + LEAST_GAIN)) for c1, c32 in standing.front]
    least_area = hypervolume(faster, standing.reference) / area_now - 1
    least_merit = math.log1p(LEAST_GAIN) / 2
    if not len(candidates):
        return Remaining(0.0, 0.0, noise, least_merit, least_area)
    forecast = standing.forecast(standing.model, candidates)
    area = expected_hypervolume_improvement(forecast, standing.front, standing.reference) * feasible
    merit = expected_merit_improvement(forecast, standing.best, export) * feasible
    half = _SHORTLIST // 2
    short = np.unique(
        np.concatenate((np.argsort(-area, kind="stable")[:half], np.argsort(-merit, kind="stable")[:half]))
    )
    rows = np.concatenate((standing.complete, candidates[short]))
    draws = standing.model.draw(rows, _DRAWS, _SEED) - standing.home
    serves = np.random.default_rng(_SEED).random((_DRAWS, len(short))) < feasible[short]
    count = len(standing.complete)
    won = _win_area(np.exp(draws), count, serves, standing.reference)
    return Remaining(_win_merit(draws, count, serves, export), won, noise, least_merit, least_area)


def _win_merit(draws: Matrix, count: int, serves: Flags, export: ExportSettings) -> float:
    """Return the mean gain of the best allowed candidate over the best of the first ``count``, the baseline at least."""
    merits = np.where(is_allowed(draws, export), log_merit(draws, export.rule), -np.inf)
    now = np.maximum(merits[:, :count].max(axis=1), 0.0)
    best = np.where(serves, merits[:, count:], -np.inf).max(axis=1)
    return float(np.mean(np.maximum(best - now, 0.0)))


def _win_area(draws: Matrix, count: int, serves: Flags, reference: tuple[float, float]) -> float:
    """Return the mean share by which the area below the front would grow."""
    shares = []
    for draw, serving in zip(draws, serves, strict=True):
        points = [(float(c1), float(c32)) for c1, c32 in draw]
        now = hypervolume(points[:count], reference)
        more = hypervolume(
            points[:count] + [point for point, is_serving in zip(points[count:], serving, strict=True) if is_serving],
            reference,
        )
        shares.append(0.0 if now <= 0 else more / now - 1)
    return float(np.mean(shares))
