"""Did a server get slower while it was loaded for long? Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Final

from autotune.interval import pooled_variance, student_quantile

SUNK: Final = 0.1
"""Share of its speed that a server may lose from the first to the last third of a soak."""

FEWEST_PASSES: Final = 6
"""Passes that must have ended before anything is said: two in each third."""


def find_sinking(speeds: Sequence[float]) -> str | None:
    """Say by how much the speed sank from the first to the last third of the passes; ``None`` when it did not.

    It sank when it is lower by more than :data:`SUNK`, and beyond the noise of passes around the mean of their third (one-sided
    97.5 %, Student's).

    >>> find_sinking([100.0, 101.0, 90.0, 91.0, 70.0, 71.0])
    'its speed sank by 29.9% while it was loaded'
    >>> find_sinking([100.0, 101.0, 99.0, 100.0, 101.0, 99.0]) is None
    True

    Args:
        speeds: tokens/s of each pass, in order; fewer than :data:`FEWEST_PASSES` say nothing.
    """
    if len(speeds) < FEWEST_PASSES:
        return None
    third = len(speeds) // 3
    first, last = ([math.log(speed) for speed in part] for part in (speeds[:third], speeds[-third:]))
    loss = statistics.fmean(first) - statistics.fmean(last)
    error = math.sqrt(pooled_variance([first, last]) * 2 / third)
    if -math.expm1(-loss) <= SUNK or loss <= student_quantile(2 * third - 2) * error:
        return None
    return f"its speed sank by {-math.expm1(-loss):.1%} while it was loaded"
