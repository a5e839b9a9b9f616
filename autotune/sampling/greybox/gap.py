"""By how much do two logs of one boot differ, given its configuration and one of the two? Bayesian linear regression; pure.

With normal beliefs about the coefficients and none about the level (Bishop, Pattern Recognition and Machine Learning, 2006:
3.3). The noise is that of the boots it was learned from, beside a belief.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from autotune.sampling.greybox.encoding import Matrix, Vector

_BELIEF: Final = 2
"""Boots that the noise believed in is worth."""

_ROUNDS: Final = 4
"""Times that noise and coefficients are estimated in turn."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A line through gaps.

    Attributes:
        level: mean gap.
        middle: mean of the features; shape (k,).
        slopes: likeliest coefficients; shape (k,).
        covariance: of the coefficients; shape (k, k).
        noise: deviation of one gap from the line.
        count: gaps it was learned from.
    """

    level: float
    middle: Vector
    slopes: Vector
    covariance: Matrix
    noise: float
    count: int

    def expect(self, features: Vector) -> tuple[float, float]:
        """Return the gap of another boot and the deviation of its error.

        Args:
            features: of it; shape (k,).
        """
        offset = features - self.middle
        variance = self.noise**2 * (1 + 1 / self.count) + float(offset @ self.covariance @ offset)
        return self.level + float(offset @ self.slopes), math.sqrt(variance)


def fit_gap(gaps: Vector, features: Matrix, spreads: Vector, noise: float) -> Gap:
    """Return the line through some gaps.

    Args:
        gaps: shape (n,), n at least 1.
        features: shape (n, k).
        spreads: deviations of the coefficients as they are believed, none of them 0; shape (k,).
        noise: deviation of a gap from the line as it is believed, above 0.
    """
    level, middle = float(gaps.mean()), features.mean(axis=0)
    offsets, rest = features - middle, gaps - level
    squares, belief = offsets.T @ offsets, _BELIEF * noise**2
    variance = noise**2
    for _ in range(_ROUNDS):
        covariance = np.linalg.inv(np.diag(spreads**-2) + squares / variance)
        slopes = covariance @ (offsets.T @ rest) / variance
        left = rest - offsets @ slopes
        used = 1 + float(np.trace(covariance @ squares)) / variance
        variance = (float(left @ left) + belief) / (max(len(gaps) - used, 0.0) + _BELIEF)
    return Gap(level, middle, slopes, covariance, math.sqrt(variance), len(gaps))
