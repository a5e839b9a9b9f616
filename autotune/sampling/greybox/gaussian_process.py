"""What do a few noisy values say about a smooth function? An exact Gaussian process, fitted by maximum a posteriori.

The kernel is a sum: a Matérn 5/2 with one length for each column; an effect of each column alone, so that a parameter that
was never moved stays unknown however well the others are known; a rough part of short range, for steps and cliffs; an offset
for each arm; given basis functions (Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006: 2.2, 2.7, 4.2, 5.4). Numbers are in the units of
the target; for logs, 0.02 is two per cent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.optimize import minimize

from autotune.sampling.greybox.encoding import Matrix, Rows, Vector

_ROOT_5: Final = math.sqrt(5.0)
_JITTER: Final = 1e-9
_MAX_FITTED: Final = 120
"""Points by which lengths and scales are fitted; all points are conditioned on."""
_CHUNK: Final = 20_000
_EFFECT_LENGTH: Final = 0.6
"""Distance in a column over which its own effect changes."""
_ROUGH_LENGTH: Final = 0.15
"""Distance over which the rough part changes."""
_CONFIDENCE: Final = 4.0
"""Surprises of ordinary size that the first real ones are averaged with."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """Where a function is known or asked for.

    Attributes:
        x: columns from 0 to 1; shape (n, columns).
        arm: code of the arm: each has an offset of its own; shape (n,).
        group: the smooth parts of two groups have nothing in common; shape (n,).
        basis: functions whose coefficients are standard normal; shape (n, functions).
        loose: deviation of a second smooth part, of the same lengths and a fixed size, 0 where there is none; shape (n,).
    """

    x: Matrix
    arm: Rows
    group: Rows
    basis: Matrix
    loose: Vector

    def take(self, rows: Rows | slice) -> Inputs:
        """Return some of the points."""
        return Inputs(self.x[rows], self.arm[rows], self.group[rows], self.basis[rows], self.loose[rows])

    def __len__(self) -> int:
        """How many points there are."""
        return len(self.arm)


@dataclass(frozen=True, slots=True)
class LogNormal:
    """What is believed of a positive number before it was seen.

    Attributes:
        median: half of the belief lies below.
        spread: standard deviation of the log.
    """

    median: float
    spread: float


@dataclass(frozen=True, slots=True)
class Priors:
    """Beliefs about the kernel.

    Attributes:
        scale: deviation of the smooth part.
        length: distance in a column, which goes from 0 to 1, over which the smooth part changes.
        effect: deviation of the effect of one column alone.
        rough: deviation of the rough part.
        arm: deviation between arms.
        noise: deviation of one measurement beyond what is known of it.
    """

    scale: LogNormal
    length: LogNormal
    effect: LogNormal
    rough: LogNormal
    arm: LogNormal
    noise: LogNormal

    def of(self, columns: int) -> tuple[Vector, Vector]:
        """Return means and deviations of the logs of all parameters: scale, lengths, effects, rough, arm, noise."""
        parts = [self.scale, *[self.length] * columns, *[self.effect] * columns, self.rough, self.arm, self.noise]
        return np.array([math.log(part.median) for part in parts]), np.array([part.spread for part in parts])


class GaussianProcess:
    """A function given its noisy values.

    Args:
        inputs: where it is known.
        values: what was seen there, less the mean function; shape (n,).
        variance: of the noise that is known of each value; shape (n,).
        theta: logs of scale, lengths, effects, rough part, arm offset and noise.
        inflation: factor of all variances of predictions.
    """

    def __init__(
        self, inputs: Inputs, values: Vector, variance: Vector, theta: Vector, inflation: float | None = None
    ) -> None:
        self.inputs: Final = inputs
        self.values: Final = values
        self.variance: Final = variance
        self.theta: Final = theta
        count = len(values)
        covariance = _covariance(theta, inputs, inputs) + np.diag(variance + math.exp(2 * theta[-1]) + _JITTER)
        self._factor = cholesky(covariance, lower=True) if count else np.zeros((0, 0))
        self._weights = cho_solve((self._factor, True), values) if count else np.zeros(0)
        self.inflation: Final = self._find_inflation() if inflation is None else inflation

    @property
    def noise(self) -> float:
        """Standard deviation of one measurement beyond what is known of it, which for boots is that between boots."""
        return math.exp(self.theta[-1])

    def leave_one_out(self) -> Vector:
        """Return how many deviations each value lies from what all others predict (5.12 of the book); shape (n,)."""
        if not len(self.values):
            return np.zeros(0)
        inverse = cho_solve((self._factor, True), np.eye(len(self.values)))
        return np.asarray(self._weights / np.sqrt(np.diag(inverse)), dtype=np.float64)

    def _find_inflation(self) -> float:
        """Return how much wider predictions must be where values contradict each other more than the kernel explains."""
        surprises = self.leave_one_out()
        return max(1.0, (float(surprises @ surprises) + _CONFIDENCE) / (len(surprises) + _CONFIDENCE))

    def predict(self, inputs: Inputs) -> tuple[Vector, Vector]:
        """Return mean and standard deviation of the function itself, noise left out; each of shape (n,)."""
        means, deviations = [], []
        for start in range(0, len(inputs), _CHUNK):
            part = inputs.take(slice(start, start + _CHUNK))
            cross = _covariance(self.theta, part, self.inputs)
            variance = _variance(self.theta, part)
            if len(self.values):
                variance = variance - np.sum(solve_triangular(self._factor, cross.T, lower=True) ** 2, axis=0)
            means.append(cross @ self._weights)
            deviations.append(np.sqrt(np.maximum(variance, 0.0) * self.inflation))
        return np.concatenate(means), np.concatenate(deviations)

    def joint(self, inputs: Inputs) -> tuple[Vector, Matrix]:
        """Return mean and covariance of the function at several points; shapes (n,) and (n, n)."""
        cross = _covariance(self.theta, inputs, self.inputs)
        covariance = _covariance(self.theta, inputs, inputs)
        if len(self.values):
            solved = solve_triangular(self._factor, cross.T, lower=True)
            covariance = covariance - solved.T @ solved
        return cross @ self._weights, covariance * self.inflation

    def believing(self, inputs: Inputs) -> GaussianProcess:
        """Return the process that has seen its own means at some more points: no mean moves, deviations shrink there."""
        means, _ = self.predict(inputs)
        return GaussianProcess(
            Inputs(
                np.concatenate((self.inputs.x, inputs.x)),
                np.concatenate((self.inputs.arm, inputs.arm)),
                np.concatenate((self.inputs.group, inputs.group)),
                np.concatenate((self.inputs.basis, inputs.basis)),
                np.concatenate((self.inputs.loose, inputs.loose)),
            ),
            np.concatenate((self.values, means)),
            np.concatenate((self.variance, np.zeros(len(inputs)))),
            self.theta,
            self.inflation,
        )


def fit(inputs: Inputs, values: Vector, variance: Vector, priors: Priors) -> GaussianProcess:
    """Return the process whose lengths and scales are the likeliest under the priors; without values the priors' medians.

    Deterministic: the search begins at the medians.
    """
    means, spreads = priors.of(inputs.x.shape[1])
    if not len(values):
        return GaussianProcess(inputs, values, variance, means)
    chosen = np.unique(np.linspace(0, len(values) - 1, min(len(values), _MAX_FITTED)).round().astype(np.intp))
    seen, seen_values, seen_variance = inputs.take(chosen), values[chosen], variance[chosen]
    found = minimize(
        lambda theta: negative_log_posterior(theta, seen, seen_values, seen_variance, means, spreads),
        means,
        jac=True,
        method="L-BFGS-B",
        bounds=[(mean - 4 * spread, mean + 4 * spread) for mean, spread in zip(means, spreads, strict=True)],
        options={"maxiter": 60, "ftol": 1e-7},
    )
    return GaussianProcess(inputs, values, variance, np.asarray(found.x, dtype=np.float64))


def negative_log_posterior(
    theta: Vector, inputs: Inputs, values: Vector, variance: Vector, means: Vector, spreads: Vector
) -> tuple[float, Vector]:
    """Return the negative log posterior of the kernel's parameters and its gradient (5.8 and 5.9 of the book).

    Args:
        theta: logs of scale, lengths, effects, rough part, arm offset and noise; shape (2 columns + 4,).
        inputs: n points.
        values: shape (n,).
        variance: known noise; shape (n,).
        means: of the priors of ``theta``.
        spreads: of the priors of ``theta``.
    """
    count, columns = len(values), inputs.x.shape[1]
    parts = _parts(theta, inputs, inputs)
    noise = math.exp(2 * theta[-1])
    covariance = parts.total()
    covariance[np.diag_indices(count)] += variance + noise + _JITTER
    factor = cholesky(covariance, lower=True)
    weights = cho_solve((factor, True), values)
    inner = cho_solve((factor, True), np.eye(count)) - np.outer(weights, weights)
    gradient = np.empty_like(theta)
    gradient[0] = np.sum(inner * parts.smooth)
    slope = 5 / 3 * (1 + _ROOT_5 * parts.distance) * np.exp(-_ROOT_5 * parts.distance) * parts.amplitude * inner
    for column in range(columns):
        squares = ((inputs.x[:, None, column] - inputs.x[None, :, column]) * math.exp(-theta[1 + column])) ** 2
        gradient[1 + column] = 0.5 * np.sum(slope * squares)
        gradient[1 + columns + column] = np.sum(inner * parts.effects[column])
    gradient[-3] = np.sum(inner * parts.rough)
    gradient[-2] = np.sum(inner * parts.offsets)
    gradient[-1] = noise * np.trace(inner)
    pull = (theta - means) / spreads**2
    likelihood = 0.5 * float(values @ weights) + float(np.sum(np.log(np.diag(factor))))
    return likelihood + 0.5 * float(pull @ (theta - means)), gradient + pull


@dataclass(frozen=True, slots=True)
class _Parts:
    """The kernel between two sets of points, taken apart; all of shape (n, m) but ``effects``, which has one for each column."""

    distance: Matrix
    amplitude: Matrix
    smooth: Matrix
    loose: Matrix
    effects: list[Matrix]
    rough: Matrix
    offsets: Matrix
    basis: Matrix

    def total(self) -> Matrix:
        total = self.smooth + self.loose + self.rough + self.offsets + self.basis
        for effect in self.effects:
            total += effect
        return total


def _parts(theta: Vector, a: Inputs, b: Inputs) -> _Parts:
    columns = a.x.shape[1]
    is_same_group = a.group[:, None] == b.group[None, :]
    distance = _distances(a.x, b.x, np.exp(-theta[1 : 1 + columns]))
    matern = _matern(distance) * is_same_group
    size, loose = math.exp(2 * theta[0]), np.outer(a.loose, b.loose)
    effects = []
    for column in range(columns):
        one, place = np.unique(
            a.x[:, column], return_inverse=True
        )  # a column has few values: one exponential for each pair
        two, other = np.unique(b.x[:, column], return_inverse=True)
        table = math.exp(2 * theta[1 + columns + column]) * _matern(
            np.abs(one[:, None] - two[None, :]) / _EFFECT_LENGTH
        )
        effects.append(table[np.ix_(place, other)] * is_same_group)
    rough = np.exp(-_distances(a.x, b.x, np.full(columns, 1 / _ROUGH_LENGTH)))
    return _Parts(
        distance,
        (size + loose) * is_same_group,
        size * matern,
        loose * matern,
        effects,
        math.exp(2 * theta[-3]) * is_same_group * rough,
        math.exp(2 * theta[-2]) * (a.arm[:, None] == b.arm[None, :]),
        a.basis @ b.basis.T,
    )


def _covariance(theta: Vector, a: Inputs, b: Inputs) -> Matrix:
    return _parts(theta, a, b).total()


def _distances(a: Matrix, b: Matrix, scales: Vector) -> Matrix:
    """Return Euclidean distances of scaled points; shape (n, m)."""
    one, two = a * scales, b * scales
    squares = np.sum(one**2, axis=1)[:, None] + np.sum(two**2, axis=1)[None, :] - 2 * one @ two.T
    return np.asarray(np.sqrt(np.maximum(squares, 0.0)), dtype=np.float64)


def _matern(distance: Matrix) -> Matrix:
    return np.asarray((1 + _ROOT_5 * distance + 5 / 3 * distance**2) * np.exp(-_ROOT_5 * distance), dtype=np.float64)


def _variance(theta: Vector, a: Inputs) -> Vector:
    columns = a.x.shape[1]
    alike = [theta[0], *theta[1 + columns : 1 + 2 * columns], theta[-3], theta[-2]]
    same = math.fsum(math.exp(2 * each) for each in alike)
    return np.asarray(same + a.loose**2 + np.sum(a.basis**2, axis=1), dtype=np.float64)
