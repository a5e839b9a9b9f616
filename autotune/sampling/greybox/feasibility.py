"""How likely does a configuration start, serve and meet the constraints, by what others did?

Memory: what is larger in everything and equal in every word runs out too. More is said by many imaginable limits, each on a
weighted sum of the sizes of all parameters, of which those count that agree with what served and what ran out: each is
monotone, so is their vote, and together they learn which parameter costs memory.

Every other reason not to start: a Gaussian process of the labels 1 (served) and -1 (did not) with mean 1 (least-squares
classification: Rasmussen and Williams 6.5), so nothing is suspected far from failures. One failure among ten boots is too few
for a forest of decision trees, which would put its step anywhere between the two nearest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import ndtr, stdtr

from autotune.errors import OutOfMemory
from autotune.objectives import judge
from autotune.sampling.base import History
from autotune.sampling.greybox.encoding import Encoding, Flags, Matrix, Rows, Vector
from autotune.sampling.greybox.gaussian_process import GaussianProcess, Inputs, LogNormal, Priors, fit
from autotune.sampling.greybox.memory import predict_room
from autotune.trial import TrialKind, TrialRecord, TrialState

_SERVED, _FAILED = 1.0, -1.0
_SCALE: Final = 1.0
_LENGTH: Final = 0.35
_NOTHING: Final = 1e-6
_SLACK: Final = 0.15
"""Deviation of a label: one surprising failure in the midst of what serves convinces nobody of its neighbours."""

_SEED: Final = 1
_LIMITS: Final = 4000
_BELIEVED: Final = 400
_SPARSE: Final = 0.7
"""Of Dirichlet's distribution: memory limits that one or two parameters decide are likelier than those of all alike."""
_MISTAKE: Final = 0.02
"""Trust in a limit that one boot contradicts."""

_UNLIKELY: Final = 0.01
"""Chance below which as many missed guards of pass@1 are no accident any more."""

_LOSS_PRIORS: Final = Priors(
    LogNormal(0.05, 0.7),
    LogNormal(0.5, 0.7),
    LogNormal(0.02, 0.7),
    LogNormal(0.01, 0.7),
    LogNormal(0.02, 0.8),
    LogNormal(0.01, 0.7),
)
_FEWEST_LOSSES: Final = 3


@dataclass(frozen=True, slots=True)
class _Outcomes:
    """Rows of configurations by what became of them."""

    served: Rows
    ran_out: Rows
    refused: Rows


def predict_feasible(history: History, encoding: Encoding, rows: Rows) -> Vector:
    """Return the probability that some configurations serve and meet every constraint; shape (n,)."""
    return predict_serves(history, encoding, rows) * _predict_context_loss(history, encoding, rows)


def predict_serves(history: History, encoding: Encoding, rows: Rows) -> Vector:
    """Return the probability that some configurations start, can be measured and keep pass@1; shape (n,)."""
    outcomes = _sort(history, encoding)
    room = predict_room(history, encoding, outcomes.ran_out, rows)
    fits = (
        _predict_fits(outcomes, encoding, rows)
        if room is None
        else np.where(_exceeds(outcomes, encoding)[rows], 0.0, room)
    )
    return fits * _predict_accepted(outcomes, encoding, rows)


def _predict_fits(outcomes: _Outcomes, encoding: Encoding, rows: Rows) -> Vector:
    """Return the share of imaginable memory limits that each configuration keeps to; 1 while nothing ran out."""
    if not len(outcomes.ran_out):
        return np.ones(len(rows))
    rng = np.random.default_rng(_SEED)
    columns = encoding.sizes.shape[1]
    weights = rng.dirichlet(np.full(columns, _SPARSE), _LIMITS).T if columns else np.zeros((0, _LIMITS))
    limits = rng.random(_LIMITS)
    served = encoding.sizes[outcomes.served] @ weights <= limits
    ran_out = encoding.sizes[outcomes.ran_out] @ weights > limits
    mistakes = np.sum(~served, axis=0) + np.sum(~ran_out, axis=0)
    trust = _MISTAKE ** (mistakes - mistakes.min())
    believed = np.argsort(-trust, kind="stable")[:_BELIEVED]
    keeps = encoding.sizes[rows] @ weights[:, believed] <= limits[believed]
    chance = keeps @ trust[believed] / trust[believed].sum()
    return np.where(_exceeds(outcomes, encoding)[rows], 0.0, chance)


def _exceeds(outcomes: _Outcomes, encoding: Encoding) -> Flags:
    """Whether each configuration is as large as one that ran out of memory for its size; shape (rows,)."""
    above = np.zeros(len(encoding), dtype=np.bool_)
    for row in outcomes.ran_out:
        larger = is_larger(encoding, int(row))
        if not larger[outcomes.served].any():  # else it was not for its size
            above |= larger
    return above


def _predict_accepted(outcomes: _Outcomes, encoding: Encoding, rows: Rows) -> Vector:
    """Return the probability that nothing but memory keeps each configuration from serving; 1 while nothing did."""
    if not len(outcomes.refused):
        return np.ones(len(rows))
    known = np.concatenate((outcomes.served, outcomes.refused))
    labels = np.array([_SERVED] * len(outcomes.served) + [_FAILED] * len(outcomes.refused))
    columns = encoding.x.shape[1]
    theta = np.log(np.array([_SCALE, *[_LENGTH] * columns, *[_NOTHING] * (columns + 2), _SLACK]))
    process = GaussianProcess(_inputs(encoding, known), labels - _SERVED, np.zeros(len(known)), theta, inflation=1.0)
    mean, deviation = process.predict(_inputs(encoding, rows))
    return np.asarray(ndtr((_SERVED + mean) / np.hypot(deviation, _SLACK)), dtype=np.float64)


def is_larger(encoding: Encoding, row: int) -> Flags:
    """Whether each configuration is as large as one in every number and equal in every word; shape (rows,)."""
    as_large = np.all(encoding.sizes >= encoding.sizes[row], axis=1)
    return np.asarray(as_large & np.all(encoding.words == encoding.words[row], axis=1), dtype=np.bool_)


def _sort(history: History, encoding: Encoding) -> _Outcomes:
    served, ran_out, refused, guarded = [], [], [], []
    for trial in history.trials:
        row = encoding.row(trial.configuration)
        if row is None or not trial.state.counts:
            continue
        if trial.state is not TrialState.INFEASIBLE:
            served.append(row)
        elif _misses_guard(trial, history):
            guarded.append(row)
        elif trial.objectives.tokens_per_s_c1 is not None and trial.objectives.tokens_per_s_c32 is not None:
            served.append(row)
        elif OutOfMemory.__name__ in (trial.reason or ""):
            ran_out.append(row)
        else:
            refused.append(row)
    (refused if _is_no_accident(len(guarded), history) else served).extend(guarded)
    return _Outcomes(*(np.array(sorted(set(rows)), dtype=np.intp) for rows in (served, ran_out, refused)))


def _misses_guard(trial: TrialRecord, history: History) -> bool:
    if trial.evaluation is None or history.baseline is None:
        return False
    value = judge(trial, history.baseline, history.settings).constraints["pass_guard"]
    return value is not None and value > 0


def _is_no_accident(missed: int, history: History) -> bool:
    """Whether more trials miss the guard of pass@1 than equally good ones do by chance (exact binomial test)."""
    judged = sum(trial.evaluation is not None and trial.kind is not TrialKind.BASELINE for trial in history.trials)
    alpha = history.settings.objectives.pass_guard_alpha
    fewer = sum(math.comb(judged, count) * alpha**count * (1 - alpha) ** (judged - count) for count in range(missed))
    return missed > 0 and 1 - fewer < _UNLIKELY


def _predict_context_loss(history: History, encoding: Encoding, rows: Rows) -> Vector:
    """Return the probability that no context loses more than is allowed; 1 while no trial has missed it."""
    baseline = history.baseline
    seen, values = [], []
    for trial in history.trials:
        row = encoding.row(trial.configuration)
        is_measured = trial.objectives.tokens_per_s_c1 is not None and trial.objectives.tokens_per_s_c32 is not None
        if baseline is None or row is None or not trial.state.counts or not is_measured:
            continue
        value = judge(trial, baseline, history.settings).constraints["context_loss"]
        if value is not None:
            seen.append(row)
            values.append(value)
    if len(values) < _FEWEST_LOSSES or max(values) <= 0:
        return np.ones(len(rows))
    targets = np.array(values)
    middle = float(np.median(targets))
    process = fit(_inputs(encoding, np.array(seen, dtype=np.intp)), targets - middle, np.zeros(len(seen)), _LOSS_PRIORS)
    mean, deviation = process.predict(_inputs(encoding, rows))
    # As surely as the next value is met, its noise included; few values have a normal's tails, so Student's are taken.
    width = np.hypot(deviation, process.noise)
    return np.asarray(stdtr(len(seen), -(middle + mean) / width), dtype=np.float64)


def _inputs(encoding: Encoding, rows: Rows) -> Inputs:
    basis: Matrix = np.zeros((len(rows), 0))
    group = encoding.is_plain[rows].astype(np.intp)
    return Inputs(encoding.x[rows], encoding.arm[rows], group, basis, np.zeros(len(rows)))
