"""What is known of accept length and step time before anything smooth is added: their shape in the budget. Pure.

Accept length rises and saturates: of the first node a share is accepted, of all nodes together no more than a ceiling below
the block. Step time is close to linear in the budget. Both have few coefficients with priors; a curve is used as its value at
the likeliest coefficients and its slopes there, so that what the values leave open about the coefficients stays open.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.optimize import least_squares

from autotune.sampling.greybox.encoding import Encoding, Matrix, Rows, Vector

_FIRST_SHARE: Final = (math.log(0.75), 0.3)
"""Mean and deviation of the log of the accepted share of a first node: 0.6 with drafters of large models, 0.95 with good ones."""

_CEILING: Final = (math.log(4.0), 0.7)
"""The same of the nodes that are accepted of a tree without end."""

_SHARPNESS: Final = (math.log(1.5), 0.3)
"""The same of the power by which the limits combine: 2 where every node is as hard as the other, 1 where places differ much."""

_CAP: Final = 4.0

_NODE_SHARE: Final = (math.log(0.015), 1.2)
"""Time that one node more takes as a share of a step without any: 0.001 at one request on a large GPU, 0.03 at many."""

_PLAIN_STEP: Final = (-0.5, 0.5)
"""Log of a step of plain decoding over a speculating step without nodes: it has no drafter."""

_ROUGH: Final = 0.05
"""Deviation of a value from its curve while the coefficients are sought."""


@dataclass(frozen=True, slots=True)
class Curve:
    """A mean function at all rows, with what is not known of it.

    Attributes:
        mean: shape (rows,).
        basis: slopes times the priors' deviations, so that the coefficients are standard normal around ``mean``;
            shape (rows, coefficients).
    """

    mean: Vector
    basis: Matrix


Shape = Callable[[Vector], tuple[Vector, Matrix]]
"""Coefficients -> values and slopes at all rows."""


def fit_curve(shape: Shape, prior: tuple[Vector, Vector], rows: Rows, values: Vector, deviations: Vector) -> Curve:
    """Find the likeliest coefficients of a shape and return the curve around its prior there.

    Args:
        shape: the values and slopes for given coefficients.
        prior: means and deviations of the coefficients.
        rows: where values are known.
        values: shape (n,).
        deviations: of the noise of each value; shape (n,).
    """
    means, spreads = prior
    width = np.sqrt(deviations**2 + _ROUGH**2)

    def misfit(theta: Vector) -> Vector:
        return np.concatenate(((shape(theta)[0][rows] - values) / width, (theta - means) / spreads))

    def slopes(theta: Vector) -> Matrix:
        return np.concatenate((shape(theta)[1][rows] / width[:, None], np.diag(1 / spreads)))

    theta = means if not len(values) else np.asarray(least_squares(misfit, means, slopes).x, dtype=np.float64)
    at, slope = shape(theta)
    return Curve(at + slope @ (means - theta), slope * spreads)


def accept_shape(encoding: Encoding) -> tuple[Shape, tuple[Vector, Vector]]:
    """Return the log accept length in the budget and the prior of its three coefficients; constant without a budget.

    Of b nodes no more than p b are accepted, and never more than a ceiling g; both limits combine to (sum of their powers -q)
    to the power -1/q. Nodes beyond the depth k of the block can only widen a tree: of b > k nodes as many count as the
    geometric mean of b and k. And never more than k are accepted, which is combined by the power 4. Plain rows, where the
    accept length is 1, are meaningless here.
    """
    if encoding.budget is None:
        count = len(encoding)

        def constant(theta: Vector) -> tuple[Vector, Matrix]:
            return np.full(count, theta[0]), np.ones((count, 1))

        return constant, (np.array([math.log(3.0)]), np.array([1.0]))
    nodes = np.maximum(encoding.budget, 1.0)
    depths = np.full(len(nodes), np.inf) if encoding.block is None else np.maximum(encoding.block - 1, 1.0)
    counting = np.log(np.where(nodes > depths, np.sqrt(nodes * depths), nodes))

    def saturating(theta: Vector) -> tuple[Vector, Matrix]:
        first, ceiling, power = theta[0], theta[1], np.exp(theta[2])
        limits = np.stack((first + counting, np.full(len(nodes), ceiling)))
        terms = np.exp(-power * limits)
        total = terms.sum(axis=0)
        free = -np.log(total) / power
        parts = terms / total
        slopes = np.stack((parts[0], parts[1], np.sum(parts * limits, axis=0) - free), axis=1)
        below = np.exp(-_CAP * free)
        bound = below + depths**-_CAP
        accepted = bound ** (-1 / _CAP)
        return np.log1p(accepted), slopes * (below / bound * accepted / (1 + accepted))[:, None]

    priors = (_FIRST_SHARE, _CEILING, _SHARPNESS)
    return saturating, (np.array([mean for mean, _ in priors]), np.array([spread for _, spread in priors]))


def step_shape(encoding: Encoding, middle: float) -> tuple[Shape, tuple[Vector, Vector]]:
    """Return the log step time in the budget and the prior of its coefficients.

    A speculating step takes c (1 + r b), a plain one c e^d.

    Args:
        encoding: the configurations.
        middle: what log step times are around.
    """
    is_plain = encoding.is_plain.astype(np.float64)
    nodes = np.zeros(len(encoding)) if encoding.budget is None else encoding.budget

    def linear(theta: Vector) -> tuple[Vector, Matrix]:
        share = np.exp(theta[1])
        values = theta[0] + np.log1p(share * nodes) + theta[2] * is_plain
        slopes = np.stack((np.ones_like(nodes), share * nodes / (1 + share * nodes), is_plain), axis=1)
        return values, slopes

    means = np.array([middle, _NODE_SHARE[0], _PLAIN_STEP[0]])
    return linear, (means, np.array([1.0, _NODE_SHARE[1], _PLAIN_STEP[1]]))


def speed_shape(encoding: Encoding, middle: float) -> tuple[Shape, tuple[Vector, Vector]]:
    """Return a constant log speed, another one for plain decoding: all that is known where no accept length is.

    Args:
        encoding: the configurations.
        middle: what log speeds are around.
    """
    slopes = np.stack((np.ones(len(encoding)), encoding.is_plain.astype(np.float64)), axis=1)

    def two_levels(theta: Vector) -> tuple[Vector, Matrix]:
        return slopes @ theta, slopes

    return two_levels, (np.array([middle, 0.0]), np.array([0.5, 0.5]))
