"""Does a configuration fit into memory, by how much the others left free? So the limit is seen before anything ran out.

Free memory is a constant less a sum over sizes, their squares and products, each with a weight that is not negative: larger
never leaves more. The weights have a normal prior whose scale, as that of the noise, is the likeliest one; the posterior's
mean is the best one without negative weights, its covariance that of the sum. How much must be left is not known: starting
takes some that is given back. It is learned from what served with little and from what ran out with more.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import nnls
from scipy.special import ndtr

from autotune.sampling.base import History
from autotune.sampling.greybox.encoding import Encoding, Matrix, Rows, Vector
from autotune.trial import TrialState

FEWEST_TOLD: Final = 4
"""Configurations whose free memory is known before anything is concluded."""

_SCALES: Final = (0.03, 0.1, 0.3, 1.0, 3.0)
"""Of the weights' deviations, as shares of the most that was left free."""

_CURVED: Final = (0.1, 1.0)
"""Deviations of the weights of squares and products, as shares of those of the sizes."""

_NOISES: Final = (0.003, 0.01, 0.03, 0.1, 0.3)
"""The same of the noise."""

_CONSTANT: Final = 10.0
"""The same of the constant: nothing is known of it."""

_NEEDED_GB: Final = 0.7
"""Scale of the prior of what must be left free: more than x with probability (1 + x / scale)^-2, so seldom much more."""

_LEVELS: Final = 64
_NEGLIGIBLE: Final = 0.01
_MISTAKE: Final = 0.01
"""Chance that memory ran out for no reason of size."""


@dataclass(frozen=True, slots=True)
class _FreeMemory:
    """Free memory of every configuration in GB.

    Attributes:
        mean: shape (rows,).
        deviation: that of the noise included; shape (rows,).
    """

    mean: Vector
    deviation: Vector


def predict_room(history: History, encoding: Encoding, ran_out: Rows, rows: Rows) -> Vector | None:
    """Return the probability that some configurations fit into memory; shape (n,).

    Plain decoding needs no tree and fits.

    Args:
        history: finished trials.
        encoding: the configurations.
        ran_out: rows that did not fit.
        rows: those asked for.

    Returns:
        ``None`` while too few servers have said how much they left free.
    """
    told = _read_free_memory(history, encoding)
    if len(told) < FEWEST_TOLD:
        return None
    speculating = np.flatnonzero(~encoding.is_plain)
    free = _fit(told, encoding, np.unique(np.concatenate((rows, ran_out))))
    levels, trust = _weigh_levels(free, min(told.values()), ran_out)
    asked = np.intersect1d(rows, speculating)
    chance = np.ones(len(encoding))
    chance[asked] = ndtr((free.mean[asked, None] - levels) / free.deviation[asked, None]) @ trust
    return np.asarray(chance[rows], dtype=np.float64)


def _read_free_memory(history: History, encoding: Encoding) -> dict[int, float]:
    """Return what each speculating row left free, the mean where it was booted more than once, in GB."""
    found: dict[int, list[float]] = {}
    for trial in history.trials:
        row = encoding.row(trial.configuration)
        known = None if trial.boot is None else trial.boot.free_memory_gb
        if row is None or known is None or encoding.is_plain[row] or trial.state is TrialState.FAILED:
            continue
        found.setdefault(row, []).append(known)
    return {row: sum(values) / len(values) for row, values in found.items()}


def _fit(told: Mapping[int, float], encoding: Encoding, rows: Rows) -> _FreeMemory:
    """Return the posterior at some rows, over all scales and noises as likely as they are; 0 and 1 elsewhere."""
    seen = np.array(sorted(told), dtype=np.intp)
    values = np.array([told[int(row)] for row in seen])
    most = max(float(np.max(np.abs(values))), 1e-3)
    values, middle = values / most, float(values.mean()) / most
    values -= middle
    terms, at = _terms(encoding, seen), _terms(encoding, rows)
    spreads = [_spread(encoding, linear, curved) for linear, curved in itertools.product(_SCALES, _CURVED)]
    tried = [(spread, noise, _log_evidence(terms * spread, values, noise)) for spread in spreads for noise in _NOISES]
    likeliest = max(likelihood for _, _, likelihood in tried)
    total, mean, square = 0.0, np.zeros(len(rows)), np.zeros(len(rows))
    for spread, noise, likelihood in tried:
        trust = math.exp(likelihood - likeliest)
        if trust < _NEGLIGIBLE:
            continue
        expected, variance = _predict(terms * spread / noise, values / noise, at * spread)
        total += trust
        mean += trust * expected
        square += trust * (expected**2 + variance + noise**2)
    mean, square = mean / total, square / total
    every, deviation = np.zeros(len(encoding)), np.ones(len(encoding))
    every[rows] = most * (middle + mean)
    deviation[rows] = most * np.sqrt(np.maximum(square - mean**2, min(_NOISES) ** 2))
    return _FreeMemory(every, deviation)


def _predict(scaled: Matrix, values: Vector, at: Matrix) -> tuple[Vector, Vector]:
    """Return mean and variance at some rows, for terms and values in units of the noise."""
    factor = cho_factor(scaled.T @ scaled + np.eye(scaled.shape[1]))
    mean = at @ _solve_not_negative(scaled, values)
    return mean, np.sum(at * cho_solve(factor, at.T).T, axis=1)


def _spread(encoding: Encoding, linear: float, curved: float) -> Vector:
    """Return the priors' deviations: of the constant, the sizes, and their squares and products."""
    sizes = encoding.amounts.shape[1]
    return np.array([_CONSTANT] + [linear] * sizes + [linear * curved] * (sizes * (sizes + 1) // 2))


def _terms(encoding: Encoding, rows: Rows) -> Matrix:
    """Return a constant, and sizes, squares and products with a minus; shape (n, terms)."""
    amounts = encoding.amounts[rows]
    pairs = itertools.combinations_with_replacement(range(amounts.shape[1]), 2)
    products = [amounts[:, one] * amounts[:, other] for one, other in pairs]
    return np.column_stack((np.ones(len(rows)), -amounts, *(-each for each in products)))


def _log_evidence(scaled: Matrix, values: Vector, noise: float) -> float:
    factor = cho_factor(scaled @ scaled.T + noise**2 * np.eye(len(values)))
    return float(-0.5 * values @ cho_solve(factor, values) - np.log(np.diag(factor[0])).sum())


def _solve_not_negative(scaled: Matrix, values: Vector) -> Vector:
    """Return the likeliest coefficients in units of their priors, none negative but the constant."""
    count = scaled.shape[1]
    prior = np.eye(count)
    system = np.column_stack((np.vstack((scaled, prior)), -np.concatenate((scaled[:, 0], prior[:, 0]))))
    solution = nnls(system, np.concatenate((values, np.zeros(count))))[0]
    solution[0] -= solution[-1]
    return np.asarray(solution[:-1], dtype=np.float64)


def _weigh_levels(free: _FreeMemory, least: float, ran_out: Rows) -> tuple[Vector, Vector]:
    """Return how much may have to be left free, in GB, and how likely each amount is.

    Args:
        free: what each configuration leaves.
        least: that one served with.
        ran_out: rows that did not fit.
    """
    levels = np.linspace(0.0, max(least, 0.0), _LEVELS)
    log_trust = -3 * np.log1p(levels / _NEEDED_GB)
    for row in ran_out:
        short = ndtr((levels - free.mean[row]) / free.deviation[row])
        log_trust = log_trust + np.log(_MISTAKE + (1 - _MISTAKE) * short)
    trust = np.exp(log_trust - log_trust.max())
    return levels, np.asarray(trust / trust.sum(), dtype=np.float64)
