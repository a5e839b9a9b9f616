"""Where does a study stand: what is settled, which speeds are known how well, which front and which recommendation follow?"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

import numpy as np

from autotune.sampling.base import History
from autotune.sampling.greybox.acquisition import Point, is_allowed, keep_front, log_merit
from autotune.sampling.greybox.boots import read_boots
from autotune.sampling.greybox.encoding import Encoding, Matrix, Rows
from autotune.sampling.greybox.model import Forecast, SpeedModel, fit_speeds
from autotune.sampling.greybox.smaller_blocks import read_smaller_blocks
from autotune.settings import ExportSettings
from autotune.trial import TrialState

_GIVEN_UP: Final = 2
"""Failures of one configuration for unknown reasons after which it is not proposed again."""

_REFERENCE: Final = 0.9
"""Of the worse of baseline and plain decoding, as the front's reference is stored."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A study as the model sees it.

    Attributes:
        encoding: all configurations.
        model: of the speeds.
        home: log speeds of the baseline, by the model.
        complete: rows of the configurations that were measured to the end and miss no constraint.
        front: ratios to the baseline, by the model, that no other measured configuration dominates.
        reference: ratios below which nothing counts.
        best: log merit of what the rule recommends, by the model; 0 is the baseline.
        recommended: its row.
    """

    encoding: Encoding
    model: SpeedModel
    home: Matrix
    complete: Rows
    front: tuple[Point, ...]
    reference: Point
    best: float
    recommended: int

    def forecast(self, model: SpeedModel, rows: Rows) -> Forecast:
        """Return log ratios to the baseline."""
        known = model.forecast(rows)
        return Forecast(known.mean - self.home, known.shared, known.own)

    def joined(self, believed: Forecast, export: ExportSettings) -> tuple[tuple[Point, ...], float]:
        """Return front and best log merit as they would be if some configurations were measured as expected."""
        ratios = [(float(c1), float(c32)) for c1, c32 in np.exp(believed.mean)]
        merits = np.where(is_allowed(believed.mean, export), log_merit(believed.mean, export.rule), -np.inf)
        return keep_front((*self.front, *ratios)), max(self.best, float(merits.max(initial=-np.inf)))


def find_standing(history: History, encoding: Encoding) -> Standing | None:
    """Return where the study stands; ``None`` until the baseline and both speeds are known."""
    home = encoding.row(encoding.space.resolve(history.settings.baseline))
    boots = read_boots(history, encoding)
    model = fit_speeds((*boots, *read_smaller_blocks(history, encoding, boots)), history.evidence, encoding)
    if model is None or home is None:
        return None
    found = {encoding.row(trial.configuration) for trial in history.trials if trial.state is TrialState.COMPLETE}
    complete = np.array(sorted({home, *(row for row in found if row is not None)}), dtype=np.intp)
    base = model.forecast(np.array([home])).mean
    logs = model.forecast(complete).mean - base
    merits = log_merit(logs, history.settings.export.rule)
    allowed = (is_allowed(logs, history.settings.export) & (merits > 0)) | (complete == home)
    best = int(np.argmax(np.where(allowed, merits, -np.inf)))
    ratios = [(float(c1), float(c32)) for c1, c32 in np.exp(logs)]
    worst = [ratio for ratio, row in zip(ratios, complete, strict=True) if row == home or encoding.is_plain[row]]
    reference = (_REFERENCE * min(c1 for c1, _ in worst), _REFERENCE * min(c32 for _, c32 in worst))
    return Standing(
        encoding, model, base, complete, keep_front(ratios), reference, float(merits[best]), int(complete[best])
    )


def find_settled(history: History, encoding: Encoding) -> frozenset[int]:
    """Return the rows that are not to be proposed again: measured, answered by another one, or given up."""
    settled: set[int | None] = set()
    failed: Counter[int | None] = Counter()
    for trial in history.trials:
        row = encoding.row(trial.configuration)
        if trial.state.counts:
            settled.add(row)
        failed[row] += trial.state is TrialState.FAILED
        asked = trial.attributes.get("asked")
        if isinstance(asked, list):  # the server made another configuration of it
            settled.add(encoding.row(dict(asked)))
    settled |= {row for row, count in failed.items() if count >= _GIVEN_UP}
    return frozenset(row for row in settled if row is not None)
