"""Which configuration is worth the next boot? The one with the most expected improvement per expected second."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Final

import numpy as np

from autotune.pareto import hypervolume
from autotune.sampling.base import History
from autotune.sampling.greybox.acquisition import expected_hypervolume_improvement, expected_merit_improvement
from autotune.sampling.greybox.durations import expected_seconds
from autotune.sampling.greybox.encoding import Encoding, Rows, Vector
from autotune.sampling.greybox.exhaustion import find_remaining
from autotune.sampling.greybox.feasibility import predict_feasible
from autotune.sampling.greybox.model import SpeedModel
from autotune.sampling.greybox.one_thread import one_thread
from autotune.sampling.greybox.opening import find_opening
from autotune.sampling.greybox.standing import Standing, find_settled, find_standing
from autotune.search_space import SearchSpace
from autotune.trial import Configuration, TrialKind, TrialRecord

FEWEST_TRIALS: Final = 8
"""Counted trials before a study is ever called exhausted."""

_SHORTLIST: Final = 8_000
"""Configurations scored at once; of a larger space so many are drawn, then what lies near the best of them is scored."""

_CAUTION: Final = 2
"""Power of the probability that a boot works: one that does not uses up a trial and leaves less to choose by."""

_SEED: Final = 1
"""The same draw at every look, so that a study that is resumed comes to the same end."""

_BEST: Final = 8
_NEAR: Final = 250


class GreyboxSampler:
    """Scores every configuration that is left by a model of what decides its speed.

    The model is kept from one question to the next and made anew when a trial has ended.
    """

    def __init__(self) -> None:
        self._encoding: Encoding | None = None
        self._known: tuple[object, ...] = ()
        self._standing: Standing | None = None

    @one_thread()
    def propose(
        self, history: History, space: SearchSpace, pending: Sequence[Configuration], rng: random.Random
    ) -> Configuration:
        """Return the configuration to boot next; one that was measured before only when nothing else is left."""
        encoding = self._encode(space)
        busy = {row for configuration in pending if (row := encoding.row(configuration)) is not None}
        candidates = self._find_candidates(history, encoding, busy)
        if not len(candidates):
            return rng.choice(space.configurations)
        measured = np.array(sorted(find_settled(history, encoding) | busy), dtype=np.intp)
        row = find_opening(history, measured, candidates, encoding)
        standing = self._stand(history, encoding)
        if row is None and standing is not None:
            row = _choose(standing, history, np.array(sorted(busy), dtype=np.intp), candidates, rng)
        return space.configurations[rng.choice(candidates.tolist()) if row is None else row]

    @one_thread()
    def explain_exhaustion(self, history: History, space: SearchSpace) -> str | None:
        """Return the sentence that says why nothing is left to win; ``None`` while something is, or too little is known."""
        if sum(trial.kind is not TrialKind.BASELINE and trial.state.counts for trial in history.trials) < FEWEST_TRIALS:
            return None
        encoding = self._encode(space)
        candidates = self._find_candidates(history, encoding, set())
        measured = np.array(sorted(find_settled(history, encoding)), dtype=np.intp)
        standing = self._stand(history, encoding)
        if standing is None or not len(candidates):
            return None
        if find_opening(history, measured, candidates, encoding) is not None:
            return None
        export = history.settings.export
        for rows in _find_looks(candidates):
            remaining = find_remaining(standing, rows, predict_feasible(history, encoding, rows), export)
            if not remaining.is_nothing:
                return None
        return (
            f"nothing is left to win: what was not measured is expected to add {math.expm1(remaining.merit):.1%} to what "
            f"the rule {export.rule!r} recommends and {remaining.area:.1%} to the area below the front, and less than "
            f"{math.expm1(remaining.least_merit):.1%} and {remaining.least_area:.1%} count as nothing (boots of one "
            f"configuration differ by {remaining.noise:.1%})"
        )

    def _encode(self, space: SearchSpace) -> Encoding:
        if self._encoding is None or self._encoding.space is not space:
            self._encoding = Encoding(space)
            self._known = ()
        return self._encoding

    def _stand(self, history: History, encoding: Encoding) -> Standing | None:
        told: tuple[TrialRecord, ...] = tuple(trial for trial in history.trials if trial.state.counts)
        known = (told, history.baseline, history.evidence, history.settings)
        if known != self._known:
            self._standing = find_standing(history, encoding)
            self._known = known
        return self._standing

    @staticmethod
    def _find_candidates(history: History, encoding: Encoding, busy: set[int]) -> Rows:
        left = np.ones(len(encoding), dtype=np.bool_)
        left[sorted(find_settled(history, encoding) | busy)] = False
        return np.flatnonzero(left)


def _find_looks(candidates: Rows) -> tuple[Rows, ...]:
    """Return the rows to look at in turn: what a draw of a large space may win is enough to go on, only all of it to end."""
    if len(candidates) <= _SHORTLIST:
        return (candidates,)
    return np.sort(np.random.default_rng(_SEED).choice(candidates, _SHORTLIST, replace=False)), candidates


def _choose(standing: Standing, history: History, busy: Rows, candidates: Rows, rng: random.Random) -> int:
    """Return the row with the highest score; of a large space the best of a sample and of what lies near its best."""
    model = standing.model.believing(busy)
    if len(candidates) <= _SHORTLIST:
        return int(candidates[int(np.argmax(_score(standing, model, history, busy, candidates)))])
    some = np.array(sorted(rng.sample(candidates.tolist(), _SHORTLIST)), dtype=np.intp)
    score = _score(standing, model, history, busy, some)
    x = standing.encoding.x
    near = [
        candidates[np.argsort(np.sum((x[candidates] - x[row]) ** 2, axis=1), kind="stable")[:_NEAR]]
        for row in some[np.argsort(-score, kind="stable")[:_BEST]]
    ]
    final = np.unique(np.concatenate(near))
    return int(final[int(np.argmax(_score(standing, model, history, busy, final)))])


def _score(standing: Standing, model: SpeedModel, history: History, busy: Rows, rows: Rows) -> Vector:
    """Return the expected improvement per expected second of some configurations; shape (n,).

    What improves is the front, as a share of the area below it, and what the study's rule would recommend, as a share of
    its merit: the first keeps every trade-off in sight, the second is what the user takes home.
    """
    forecast = standing.forecast(model, rows)
    front, best = standing.front, standing.best
    if len(busy):
        believed = standing.forecast(model, busy)
        front, best = standing.joined(believed, history.settings.export)
    area = hypervolume(front, standing.reference)  # the baseline is in the front: never 0
    wider = expected_hypervolume_improvement(forecast, front, standing.reference) / area
    better = expected_merit_improvement(forecast, best, history.settings.export)
    feasible = predict_feasible(history, standing.encoding, rows)
    score = (wider + better) * feasible**_CAUTION / expected_seconds(history, feasible, standing.encoding, rows)
    if score.max() > 0:
        return np.asarray(score, dtype=np.float64)
    # Nothing is expected to improve anything: what could be the best with some luck, then.
    luck = np.sum(forecast.mean + 3 * forecast.deviation, axis=1)
    return np.asarray(np.where(feasible > 0, luck, -np.inf), dtype=np.float64)
