"""At which level may each look of a test decide, so that all looks together err no more often than was said? Pure.

A group-sequential test: after each round of boots it may stop, and the chance of an error is spent bit by bit. The spending
function is that of Lan and DeMets (Discrete sequential boundaries for clinical trials, Biometrika 70, 1983) in the form of
O'Brien and Fleming: little at first, so that the last look keeps nearly the level of a test with one look. The boundaries are
those of Brownian motion, by recursive integration (Armitage, McPherson and Rowe 1969); with the variance unknown each is
turned into a level and taken from Student's distribution (Jennison and Turnbull, Group Sequential Methods, 2000, section 4.4).
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np

_NODES: Final = 400
_STUDENT: Final = 0.9
"""Chosen by simulation: the error then is 96 to 100 % of what was said, with 3 to 12 rounds and errors of 1 to 10 %."""

_FAR: Final = 8.0
"""Standard deviations beyond which nothing happens."""


def spend(share: float, alpha: float) -> float:
    """Return how much of an error may be used up when this share of all boots was seen.

    >>> [round(spend(share, 0.05), 4) for share in (0.25, 0.5, 1.0)]
    [0.0001, 0.0056, 0.05]
    """
    from scipy.special import ndtr, ndtri  # noqa: PLC0415  # slow to import, and only a confirmation needs it

    return float(2 * ndtr(ndtri(alpha / 2) / math.sqrt(share)))


@functools.cache
def find_levels(first: int, rounds: int, alpha: float) -> tuple[float, ...]:
    """Return the one-sided level of each look: after round ``first``, after each later one, and after the last.

    >>> [round(level, 4) for level in find_levels(2, 3, 0.05)]
    [0.0164, 0.0451]

    Args:
        first: rounds before the first look, at least one.
        rounds: rounds in all, not fewer.
        alpha: the error of all looks together when the two sides do not differ.

    Raises:
        ValueError: there is no look, or no such error.
    """
    import numpy as np  # noqa: PLC0415  # slow to import, and only a confirmation needs it
    from scipy.optimize import brentq  # noqa: PLC0415
    from scipy.special import ndtr  # noqa: PLC0415

    if not 1 <= first <= rounds or not 0 < alpha < 0.5:
        raise ValueError(f"no looks from round {first} on in {rounds} rounds at a level of {alpha}")
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    levels: list[float] = []
    spent, time = 0.0, 0.0
    # The motion before the first look is at 0; where it has not been stopped, points and their probabilities stand for it.
    points, chances = np.zeros(1), np.ones(1)
    for done in range(first, rounds + 1):
        now = done / rounds
        step = math.sqrt(now - time)
        wanted = spend(now, alpha) - spent

        crossed = functools.partial(_excess, points, chances, step, wanted)
        limit = _FAR if crossed(_FAR) > 0 else float(brentq(crossed, 0.0, _FAR))
        levels.append(float(ndtr(-limit / math.sqrt(now))))
        lowest = -_FAR * math.sqrt(now)
        ends = lowest + (limit - lowest) * (nodes + 1) / 2
        moves = np.exp(-(((ends[:, None] - points[None, :]) / step) ** 2) / 2) / (step * math.sqrt(2 * math.pi))
        points, chances = ends, (moves @ chances) * weights * (limit - lowest) / 2
        spent, time = spend(now, alpha), now
    return tuple(levels)


def find_student_levels(first: int, rounds: int, alpha: float) -> tuple[float, ...]:
    """Return the levels for Student's distribution: :func:`find_levels`, made a little smaller where there are several looks.

    With few boots, quotients at later looks hang together less than Brownian motion does, and all looks together would err 10 %
    more often than was said.
    """
    return find_levels(first, rounds, alpha if first == rounds else _STUDENT * alpha)


def _excess(points: np.ndarray, chances: np.ndarray, step: float, wanted: float, limit: float) -> float:
    """Return the chance of a step across a limit, from points with their probabilities, less what is wanted."""
    from scipy.special import ndtr  # noqa: PLC0415

    return float(chances @ ndtr((points - limit) / step)) - wanted
