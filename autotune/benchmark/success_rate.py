"""Did too few requests succeed to go on? A binomial bound over everything that one boot was sent. Pure.

A fixed share of each cell would fail a trial for one hiccup where a cell has six requests, and let a server through that
loses one request in twenty in every cell. So all cells of a boot are judged together, and only when chance does not explain it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

LEVEL: Final = 0.01
"""One-sided level: a boot that succeeds as often as demanded is called worse in one of a hundred looks, at most."""


@dataclass(frozen=True, slots=True)
class SuccessCount:
    """Requests of one boot, up to now."""

    succeeded: int = 0
    sent: int = 0

    def plus(self, succeeded: int, sent: int) -> SuccessCount:
        """Return the count with more requests."""
        return SuccessCount(self.succeeded + succeeded, self.sent + sent)

    @property
    def upper_bound(self) -> float:
        """Highest success rate that these counts leave possible: Clopper and Pearson's one-sided bound at :data:`LEVEL`.

        >>> round(SuccessCount(19, 20).upper_bound, 3), round(SuccessCount(10, 20).upper_bound, 3)
        (0.999, 0.761)
        """
        from scipy.special import betaincinv  # noqa: PLC0415  # slow to import, and only failures need it

        if self.succeeded == self.sent:
            return 1.0
        return float(betaincinv(self.succeeded + 1, self.sent - self.succeeded, 1 - LEVEL))

    def is_below(self, demanded: float) -> bool:
        """Whether fewer succeed than demanded, beyond chance.

        >>> SuccessCount(5, 6).is_below(0.95), SuccessCount(50, 60).is_below(0.95)
        (False, True)
        """
        return self.upper_bound < demanded
