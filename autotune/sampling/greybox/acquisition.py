"""How much better is a configuration expected to make the front, and the one that is recommended? Exact formulas; pure.

Speeds are ratios to the baseline, their logs normal. What both speeds of a configuration have in common (the error of its
accept length) is integrated over by Gauss-Hermite quadrature; given it they are independent, and the expected improvement of
a two-dimensional hypervolume is a sum over strips of products of one-dimensional ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from scipy.special import ndtr

from autotune.sampling.greybox.encoding import Flags, Matrix, Vector
from autotune.sampling.greybox.model import Forecast
from autotune.settings import ExportSettings

Point = tuple[float, float]

_NODES: Final = 9
_SMALLEST: Final = 1e-6
"""Deviations below it are taken for it: nothing is known better."""


def keep_front(points: Sequence[Point]) -> tuple[Point, ...]:
    """Return the points that no other dominates, first value ascending.

    >>> keep_front([(1.0, 3.0), (2.0, 2.0), (1.0, 2.0), (2.0, 2.0)])
    ((1.0, 3.0), (2.0, 2.0))
    """
    front: list[Point] = []
    for point in sorted(set(points), reverse=True):
        if not front or point[1] > front[-1][1]:
            front.append(point)
    return tuple(reversed(front))


def expected_hypervolume_improvement(forecast: Forecast, front: Sequence[Point], reference: Point) -> Vector:
    """Return by how much each configuration is expected to enlarge the area above the reference; shape (n,).

    Args:
        forecast: log ratios to the baseline.
        front: ratios of points that do not dominate each other, first value ascending; may be empty.
        reference: ratios below which nothing counts.
    """
    inside = [point for point in front if point[0] > reference[0] and point[1] > reference[1]]
    lefts = np.array([reference[0], *(point[0] for point in inside)])
    floors = np.array([*(point[1] for point in inside), reference[1]])
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    own = np.maximum(forecast.own, _SMALLEST)
    total = np.zeros(len(forecast.shared))
    for node, share in zip(nodes, weights / weights.sum(), strict=True):
        means = forecast.mean + node * forecast.shared[:, None]
        beyond = _expected_excess(means[:, 0], own[:, 0], lefts)
        widths = beyond - np.concatenate((beyond[:, 1:], np.zeros((len(beyond), 1))), axis=1)
        heights = _expected_excess(means[:, 1], own[:, 1], floors)
        total += share * np.sum(widths * heights, axis=1)
    return total


def chance_ahead(draws: Matrix, least: float) -> float:
    """Return how often the first of several configurations is ahead of each other one at either concurrency.

    Args:
        draws: joint draws of log speeds, the first configuration's first; shape (draws, configurations, 2).
        least: by how much in logs it must be ahead to count.
    """
    is_behind = np.all(draws[:, 1:] + least >= draws[:, :1], axis=2)
    return float(np.mean(~np.any(is_behind, axis=1)))


def _expected_excess(mean: Vector, deviation: Vector, limits: Vector) -> Matrix:
    """Return E[max(exp(z) - limit, 0)] of normal z for every limit; shape (n, limits). Black and Scholes's formula."""
    distance = (mean[:, None] - np.log(limits)[None, :]) / deviation[:, None]
    forward = np.exp(mean + deviation**2 / 2)[:, None]
    return np.asarray(
        np.maximum(forward * ndtr(distance + deviation[:, None]) - limits[None, :] * ndtr(distance), 0.0),
        dtype=np.float64,
    )


def log_merit(log_ratios: Matrix, rule: str) -> Matrix:
    """Return the log of what a rule of recommendation maximises, 0 being the baseline; shape of all axes but the last."""
    axes = {"balanced": (0, 1), "c1": (0,), "c32": (1,)}[rule]
    return np.asarray(np.mean(log_ratios[..., axes], axis=-1), dtype=np.float64)


def is_allowed(log_ratios: Matrix, export: ExportSettings) -> Flags:
    """Whether no speed loses more than the recommended configuration may; shape of all axes but the last."""
    return np.asarray(np.all(log_ratios >= _lowest(export), axis=-1), dtype=np.bool_)


def _lowest(export: ExportSettings) -> float:
    return math.log1p(-export.max_loss) if export.max_loss < 1 else -math.inf


def expected_merit_improvement(forecast: Forecast, best: float, export: ExportSettings) -> Vector:
    """Return by how much each configuration is expected to raise the log merit of what is recommended; shape (n,).

    Args:
        forecast: log ratios to the baseline.
        best: log merit of what would be recommended now, 0 for the baseline.
        export: the rule, and what may be lost at either concurrency.
    """
    mean = log_merit(forecast.mean, export.rule)
    count = 2 if export.rule == "balanced" else 1
    axes = {"balanced": (0, 1), "c1": (0,), "c32": (1,)}[export.rule]
    own = np.sqrt(np.sum(forecast.own[:, axes] ** 2, axis=1)) / count
    deviation = np.maximum(np.hypot(forecast.shared, own), _SMALLEST)
    ahead = (mean - best) / deviation
    gain = deviation * (np.exp(-(ahead**2) / 2) / math.sqrt(2 * math.pi) + ahead * ndtr(ahead))
    allowed = ndtr((forecast.mean - _lowest(export)) / np.maximum(forecast.deviation, _SMALLEST))
    return np.asarray(np.maximum(gain, 0.0) * np.prod(allowed, axis=1), dtype=np.float64)
