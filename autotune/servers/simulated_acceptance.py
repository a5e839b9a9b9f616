"""Does a server invent its accept lengths? SGLang does when one of two variables is set; pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

VARIABLES: Final = ("SGLANG_SIMULATE_ACC_LEN", "SIMULATE_ACC_LEN")
"""The name of today and that of builds before it had a prefix."""


def find_simulation(environment: Mapping[str, str]) -> str | None:
    """Return the variable that switches simulated acceptance on; ``None`` when none does.

    Zero, negative values and nothing switch it off; what is no number counts as on.

    >>> find_simulation({"SGLANG_SIMULATE_ACC_LEN": "3.5"})
    'SGLANG_SIMULATE_ACC_LEN'
    >>> find_simulation({"SGLANG_SIMULATE_ACC_LEN": "-1.0", "SIMULATE_ACC_LEN": " "})
    """
    return next((name for name in VARIABLES if _is_on(environment.get(name, ""))), None)


def _is_on(text: str) -> bool:
    if not text.strip():
        return False
    try:
        return not float(text) <= 0
    except ValueError:
        return True
