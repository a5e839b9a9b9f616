"""Which surfaces are there? By the name that a command line gives them."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Final

from autotune.errors import UserError
from autotune.simulation.parametric import (
    BRIM,
    CLIFF,
    GOOD_DRAFTER,
    ROOMY,
    STAIRS,
    TIGHT,
    LevelSurface,
    ParametricSurface,
    Sight,
)
from autotune.simulation.recorded import EARLIER_TABLE, LARGE_TABLE, PROCESSOR_TABLE, RecordedSurface
from autotune.simulation.surface import Surface

SURFACES: Final[Mapping[str, Callable[[], Surface]]] = {
    "roomy": lambda: ParametricSurface(
        "roomy",
        "memory-bound: large trees pay for one user, small ones for 32",
        ROOMY,
        GOOD_DRAFTER,
        Sight(loss=0.03),
    ),
    "tight": lambda: ParametricSurface(
        "tight",
        "short of computing power: for 32 users hardly any tree pays",
        TIGHT,
        GOOD_DRAFTER,
        Sight(loss=0.03),
    ),
    "stairs": lambda: ParametricSurface(
        "stairs",
        "tokens are computed 128 at a time, trees need a slower attention than chains, a drafter without window is confused",
        STAIRS,
        GOOD_DRAFTER,
        Sight(loss=0.03, longest=2048),
    ),
    "cliff": lambda: ParametricSurface(
        "cliff",
        "as roomy, and a quarter of the space runs out of memory while it starts",
        CLIFF,
        GOOD_DRAFTER,
        Sight(loss=0.03),
    ),
    "brim": lambda: ParametricSurface(
        "brim",
        "as roomy, and budget, block and window together decide whether memory is enough",
        BRIM,
        GOOD_DRAFTER,
        Sight(loss=0.03),
    ),
    "flat": lambda: LevelSurface("flat", "every configuration is equally fast: there is nothing to find"),
    "peak-4": lambda: LevelSurface("peak-4", "equally fast, but for one family that is 4 % faster", gain=0.04),
    "peak-10": lambda: LevelSurface("peak-10", "equally fast, but for one family that is 10 % faster", gain=0.10),
    "h200-large": lambda: RecordedSurface(
        "h200-large", "recorded: 131 million parameters, the embedded engine, one H200", LARGE_TABLE
    ),
    "cpu-small": lambda: RecordedSurface(
        "cpu-small",
        "recorded: the embedded server's model of 5.3 million parameters, two processor cores",
        PROCESSOR_TABLE,
    ),
    "h200-small": lambda: RecordedSurface(
        "h200-small", "recorded: 5.8 million parameters, an earlier engine, one H200", EARLIER_TABLE, model="small"
    ),
    "h200-big": lambda: RecordedSurface(
        "h200-big", "recorded: 131 million parameters, an earlier engine, one H200", EARLIER_TABLE, model="big"
    ),
}
"""Name -> what makes the surface; making one reads its table or enumerates its space."""


def open_surface(name: str) -> Surface:
    """Return a surface by its name.

    Raises:
        UserError: there is none; the nearest name is named.
    """
    if name in SURFACES:
        return SURFACES[name]()
    near = difflib.get_close_matches(name, SURFACES, n=1)
    raise UserError(
        f"there is no surface {name!r}" + (f", did you mean {near[0]!r}?" if near else ""),
        hint=f"known: {', '.join(SURFACES)}",
    )
