"""How fast would each configuration be at C=1 and C=32? Speed = concurrency x accept length / step time, each modelled apart.

What does not decompose (a window, other parameters, contexts that only one concurrency has) is part of the step time, whose
process sees every parameter. Where no accept length is known the two speeds are modelled directly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from autotune.objectives import CONCURRENCIES
from autotune.sampling.base import AcceptLengthEvidence
from autotune.sampling.greybox.boots import Boot
from autotune.sampling.greybox.curves import Curve, accept_shape, fit_curve, speed_shape, step_shape
from autotune.sampling.greybox.encoding import Encoding, Matrix, Rows, Vector
from autotune.sampling.greybox.gaussian_process import GaussianProcess, Inputs, LogNormal, Priors, fit

_LENGTH: Final = LogNormal(0.7, 0.7)

_NONE: Final = LogNormal(1e-4, 0.1)

ACCEPT_PRIORS: Final = Priors(
    LogNormal(0.05, 0.7),
    _LENGTH,
    LogNormal(0.04, 0.7),
    LogNormal(0.01, 0.7),
    LogNormal(0.05, 0.7),
    LogNormal(0.01, 0.7),
)
STEP_PRIORS: Final = Priors(
    LogNormal(0.05, 0.7),
    _LENGTH,
    LogNormal(0.04, 0.7),
    LogNormal(0.02, 0.7),
    LogNormal(0.1, 0.8),
    LogNormal(0.015, 0.7),
)
SPEED_PRIORS: Final = Priors(
    LogNormal(0.2, 0.6), _LENGTH, LogNormal(0.1, 0.7), LogNormal(0.03, 0.7), LogNormal(0.15, 0.8), LogNormal(0.02, 0.7)
)
REPLAY_PRIORS: Final = Priors(
    LogNormal(0.01, 0.5), _LENGTH, _NONE, LogNormal(0.005, 0.5), LogNormal(0.005, 0.5), LogNormal(0.01, 0.7)
)
"""Of the accept length where evidence says it but for a common error: about one per cent stays for each configuration."""

_UNTOLD: Final = 0.1
"""Deviation of the log accept length of a configuration that evidence of its nearest neighbour has to answer for."""

_FEWEST_LENGTHS: Final = 3
"""Boots with an accept length that must be known before speeds are taken apart, where there is no evidence."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """Log speeds of some configurations; noise between boots is not in it.

    Attributes:
        mean: at C=1 and C=32; shape (n, 2).
        shared: deviation that both speeds have in common, from the accept length; shape (n,).
        own: deviation of each speed beside it; shape (n, 2).
    """

    mean: Matrix
    shared: Vector
    own: Matrix

    @property
    def deviation(self) -> Matrix:
        """Deviation of each speed; shape (n, 2)."""
        return np.asarray(np.hypot(self.shared[:, None], self.own), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class _Part:
    """One modelled quantity: a curve and a process of the rest."""

    curve: Curve
    process: GaussianProcess
    loose: Vector
    encoding: Encoding

    def inputs(self, rows: Rows) -> Inputs:
        return _inputs(self.encoding, self.curve, self.loose, rows)

    def predict(self, rows: Rows) -> tuple[Vector, Vector]:
        mean, deviation = self.process.predict(self.inputs(rows))
        return self.curve.mean[rows] + mean, deviation

    def draw(self, rows: Rows, normals: Matrix) -> Matrix:
        """Return joint draws at some rows; shapes (draws, n) both."""
        mean, covariance = self.process.joint(self.inputs(rows))
        values, vectors = np.linalg.eigh(covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        return np.asarray(self.curve.mean[rows] + mean + normals @ root.T, dtype=np.float64)

    def believing(self, rows: Rows) -> _Part:
        return _Part(self.curve, self.process.believing(self.inputs(rows)), self.loose, self.encoding)


class SpeedModel:
    """What is known of the speeds of every configuration after some boots.

    Args:
        encoding: the configurations.
        accept: log accept length of speculating rows; ``None`` where speeds are not taken apart.
        rest: by concurrency the log step time, or the negative log speed where speeds are not taken apart.
    """

    def __init__(self, encoding: Encoding, accept: _Part | None, rest: Sequence[_Part]) -> None:
        self.encoding: Final = encoding
        self._accept = accept
        self._rest = tuple(rest)

    @property
    def is_taken_apart(self) -> bool:
        """Whether accept length and step time are modelled."""
        return self._accept is not None

    @property
    def noise(self) -> tuple[float, float]:
        """Standard deviation between boots of the log speed at C=1 and C=32."""
        accept = 0.0 if self._accept is None else self._accept.process.noise
        return (math.hypot(accept, self._rest[0].process.noise), math.hypot(accept, self._rest[1].process.noise))

    def forecast(self, rows: Rows) -> Forecast:
        """Return what some configurations are expected to reach."""
        accept, shared = self._predict_accept(rows)
        rest = [part.predict(rows) for part in self._rest]
        log_c = np.log(CONCURRENCIES) if self.is_taken_apart else np.zeros(2)
        mean = np.stack([accept - value for value, _ in rest], axis=1) + log_c
        return Forecast(mean, shared, np.stack([deviation for _, deviation in rest], axis=1))

    def log_accept_length(self, rows: Rows) -> tuple[Vector, Vector] | None:
        """Return mean and deviation of the log accept length; ``None`` where speeds are not taken apart."""
        return None if self._accept is None else self._predict_accept(rows)

    def draw(self, rows: Rows, draws: int, seed: int) -> Matrix:
        """Return joint draws of both log speeds; shape (draws, n, 2)."""
        rng = np.random.default_rng(seed)
        normals = rng.standard_normal((3, draws, len(rows)))
        rest = [part.draw(rows, each) for part, each in zip(self._rest, normals[1:], strict=True)]
        accept = np.zeros((draws, len(rows)))
        if self._accept is not None:
            is_plain = self.encoding.is_plain[rows]
            accept = np.where(is_plain, 0.0, self._accept.draw(rows, normals[0]))
        log_c = np.log(CONCURRENCIES) if self.is_taken_apart else np.zeros(2)
        return np.stack([accept - value for value in rest], axis=2) + log_c

    def believing(self, rows: Rows) -> SpeedModel:
        """Return the model as it would be if some configurations had been measured and were as expected."""
        if not len(rows):
            return self
        accept = self._accept
        if accept is not None and len(speculating := rows[~self.encoding.is_plain[rows]]):
            accept = accept.believing(speculating)
        return SpeedModel(self.encoding, accept, [part.believing(rows) for part in self._rest])

    def _predict_accept(self, rows: Rows) -> tuple[Vector, Vector]:
        if self._accept is None:
            return np.zeros(len(rows)), np.zeros(len(rows))
        mean, deviation = self._accept.predict(rows)
        if self.encoding.block is not None:
            mean = np.minimum(mean, np.log(self.encoding.block[rows]))
        is_plain = self.encoding.is_plain[rows]
        return np.where(is_plain, 0.0, np.maximum(mean, 0.0)), np.where(is_plain, 0.0, deviation)


def fit_speeds(
    boots: Sequence[Boot], evidence: Sequence[AcceptLengthEvidence], encoding: Encoding
) -> SpeedModel | None:
    """Return the model after some boots; ``None`` until both speeds were measured once."""
    if any(all(boot.log_speeds[axis] is None for boot in boots) for axis in range(len(CONCURRENCIES))):
        return None
    told = _read_evidence(evidence, encoding)
    lengths = [boot for boot in boots if boot.log_accept_length is not None]
    if len(lengths) < _FEWEST_LENGTHS and not told:
        rest = [_fit_speed(boots, axis, encoding) for axis in range(len(CONCURRENCIES))]
        return SpeedModel(encoding, None, rest)
    accept = _fit_accept(lengths, told, encoding)
    silent = np.array(sorted({boot.row for boot in boots if boot.log_accept_length is None}), dtype=np.intp)
    mean, deviation = accept.predict(silent) if len(silent) else (np.zeros(0), np.zeros(0))
    guessed = {
        int(row): (0.0, 0.0) if encoding.is_plain[row] else (float(value), float(width))
        for row, value, width in zip(silent, mean, deviation, strict=True)
    }
    rest = [_fit_step(boots, axis, guessed, encoding) for axis in range(len(CONCURRENCIES))]
    return SpeedModel(encoding, accept, rest)


def _read_evidence(evidence: Sequence[AcceptLengthEvidence], encoding: Encoding) -> dict[int, tuple[float, float]]:
    """Return log accept length and deviation by row; where several speak of one row, weighted by their precision."""
    found: dict[int, list[tuple[float, float]]] = {}
    for item in evidence:
        row = encoding.row(item.configuration)
        if row is not None and not encoding.is_plain[row]:
            found.setdefault(row, []).append((math.log(item.accept_length), max(item.deviation, 1e-3)))
    told = {}
    for row, items in found.items():
        precision = [1 / deviation**2 for _, deviation in items]
        mean = sum(value * each for (value, _), each in zip(items, precision, strict=True)) / sum(precision)
        told[row] = (mean, min(deviation for _, deviation in items))
    return told


def _fit_accept(boots: Sequence[Boot], told: Mapping[int, tuple[float, float]], encoding: Encoding) -> _Part:
    rows = np.array([boot.row for boot in boots], dtype=np.intp)
    values = np.array([boot.log_accept_length for boot in boots], dtype=np.float64)
    deviations = np.array([boot.accept_deviation for boot in boots], dtype=np.float64)
    loose = np.zeros(len(encoding))
    if told:
        curve, loose = _told_curve(told, encoding)
        priors = REPLAY_PRIORS
    else:
        curve = fit_curve(*accept_shape(encoding), rows, values, deviations)
        priors = ACCEPT_PRIORS
    return _fit_part(encoding, curve, loose, rows, values, deviations**2, priors)


def _told_curve(told: Mapping[int, tuple[float, float]], encoding: Encoding) -> tuple[Curve, Vector]:
    """Return what evidence says as a mean function with one common error, and where nobody spoke.

    Errors of replayed drafts are nearly the same for all configurations, because the prompts are: one boot settles them.
    A configuration nobody spoke of is expected to be as its nearest neighbour.
    """
    rows = np.array(sorted(told), dtype=np.intp)
    lengths = np.array([told[int(row)][0] for row in rows])
    nearest = _find_nearest(encoding.x[rows], encoding.x)
    is_told = np.zeros(len(encoding), dtype=np.bool_)
    is_told[rows] = True
    common = float(np.median([told[int(row)][1] for row in rows]))
    return Curve(lengths[nearest], np.full((len(encoding), 1), common)), np.where(is_told, 0.0, _UNTOLD)


def _find_nearest(known: Matrix, asked: Matrix) -> Rows:
    """Return for each point asked for the index of the nearest known one; the first where all points are the same."""
    if not known.shape[1]:
        return np.zeros(len(asked), dtype=np.intp)
    from scipy.spatial import KDTree  # noqa: PLC0415  # only evidence needs it

    return np.asarray(KDTree(known).query(asked)[1], dtype=np.intp)


def _fit_step(
    boots: Sequence[Boot], axis: int, guessed: Mapping[int, tuple[float, float]], encoding: Encoding
) -> _Part:
    """Fit the log step time at one concurrency, in seconds; a boot without accept length takes the guessed one."""
    rows, values, variances = [], [], []
    for boot in boots:
        speed = boot.log_speeds[axis]
        if speed is None:
            continue
        known = boot.log_accept_length
        accept, width = guessed[boot.row] if known is None else (known, 0.0)
        rows.append(boot.row)
        values.append(math.log(CONCURRENCIES[axis]) + accept - speed)
        variances.append(boot.deviations[axis] ** 2 + width**2)
    targets, deviations = np.array(values), np.sqrt(np.array(variances))
    seen = np.array(rows, dtype=np.intp)
    curve = fit_curve(*step_shape(encoding, float(np.median(targets))), seen, targets, deviations)
    return _fit_part(encoding, curve, np.zeros(len(encoding)), seen, targets, deviations**2, STEP_PRIORS)


def _fit_speed(boots: Sequence[Boot], axis: int, encoding: Encoding) -> _Part:
    """Fit the negative log speed at one concurrency."""
    known = [
        (boot.row, -speed, math.hypot(boot.deviations[axis], boot.accept_deviation))
        for boot in boots
        if (speed := boot.log_speeds[axis]) is not None
    ]
    seen = np.array([row for row, _, _ in known], dtype=np.intp)
    targets = np.array([value for _, value, _ in known])
    deviations = np.array([deviation for _, _, deviation in known])
    curve = fit_curve(*speed_shape(encoding, float(np.median(targets))), seen, targets, deviations)
    return _fit_part(encoding, curve, np.zeros(len(encoding)), seen, targets, deviations**2, SPEED_PRIORS)


def _fit_part(
    encoding: Encoding, curve: Curve, loose: Vector, rows: Rows, values: Vector, variance: Vector, priors: Priors
) -> _Part:
    inputs = _inputs(encoding, curve, loose, rows)
    return _Part(curve, fit(inputs, values - curve.mean[rows], variance, priors), loose, encoding)


def _inputs(encoding: Encoding, curve: Curve, loose: Vector, rows: Rows) -> Inputs:
    group = encoding.is_plain[rows].astype(np.intp)
    return Inputs(encoding.x[rows], encoding.arm[rows], group, curve.basis[rows], loose[rows])
