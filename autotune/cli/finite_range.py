"""Which numbers may an option have? What Python calls a number and no server can read is none."""

from __future__ import annotations

import math
from typing import Any, Final

import click

LARGEST_SEED: Final = 2**62
"""Seeds of later requests are counted up from the first; all of them have to be numbers that a server can read."""


class FiniteRange(click.FloatRange):
    """A range of numbers without NaN and infinity."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number, or refuse it."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is no number that a server can read.", param, ctx)
        return number
