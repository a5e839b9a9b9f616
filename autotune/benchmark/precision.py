"""Was a cell measured often enough inside this boot, or is one more round worth its time? Pure.

More rounds lower the noise inside a boot and leave that between boots as it is. Once the first is a quarter of the second, even
rounds without end would narrow an interval by a tenth, and another boot is the better use of the time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from autotune.baseline import find_baseline_boots
from autotune.interval import ASSUMED_SPREAD, Component, pooled_variance
from autotune.objectives import latest
from autotune.trial import Cell, TrialRecord

QUARTER: Final = 0.25
"""Noise inside a boot that is left alone, as a share of the variance between boots."""


@dataclass(frozen=True, slots=True)
class Precision:
    """What earlier boots teach about the noise of one cell; variances of log speeds.

    Attributes:
        between: of what boots of one configuration measure.
        inside: of one round around the mean of its boot, with the degrees of freedom it was seen with; ``None``: never seen.
    """

    between: float
    inside: Component | None = None

    def wants_round(self, log_speeds: Sequence[float]) -> bool:
        """Whether the mean of the rounds so far is not yet precise enough.

        The noise is pooled over this boot and earlier ones: two rounds alone say next to nothing about it.

        Args:
            log_speeds: one for each round of this boot.
        """
        known = self.inside or Component(0.0, 0)
        degrees = known.degrees + len(log_speeds) - 1
        if degrees <= 0:
            return True
        own = pooled_variance([log_speeds]) * (len(log_speeds) - 1)
        inside = (known.variance * known.degrees + own) / degrees
        return inside / len(log_speeds) > QUARTER * self.between


def learn_precision(trials: Sequence[TrialRecord], cell: Cell) -> Precision:
    """Return what the trials of a study teach about one cell.

    The variance between boots is that of the complete boots of the baseline; until two are known, boots are assumed to
    differ by :data:`autotune.interval.ASSUMED_SPREAD`.
    """
    rounds = [item.round_log_speeds for trial in trials for item in trial.cells if item.cell == cell]
    repeated = [logs for logs in rounds if len(logs) > 1]
    boots = [latest(trial.cells) for trial in find_baseline_boots(trials)]
    speeds = [math.log(cells[cell].decode_tokens_per_s.value) for cells in boots if cell in cells]
    return Precision(
        pooled_variance([speeds]) if len(speeds) > 1 else ASSUMED_SPREAD**2,
        Component(pooled_variance(repeated), sum(len(logs) - 1 for logs in repeated)) if repeated else None,
    )
