"""What does one boot tell of the accept length with a smaller block? By how many drafted tokens its steps accepted. Pure.

A step that accepted k tokens accepts min(k, b - 1) with a block of b, had its tree the same nodes and it begun at the same
place. Neither is quite so where something is cut off: a smaller block spends its budget on width, and its steps begin
elsewhere. That makes the estimate low, on recorded drafts by 5 % with a deviation of 2 %, by the law of best-first trees with
independent steps by 0 to 5 %.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from autotune.errors import SearchSpaceError
from autotune.objectives import latest, weight
from autotune.sampling.base import History
from autotune.sampling.greybox.boots import Boot
from autotune.sampling.greybox.encoding import BLOCK, Encoding
from autotune.sampling.greybox.filling import accept_cells
from autotune.settings import StudySettings
from autotune.trial import Cell, CellMeasurement, Configuration

_LOW: Final = 0.03
"""By how much the log of an estimate is too low where steps are cut off."""

_DEVIATION: Final = 0.03
"""Of the log of an estimate, where steps are cut off."""

_CLUSTERED: Final = 2.0
"""Steps of one text are alike: a standard error is so much larger."""

_WHOLE: Final = 0.003
"""Share of the accept length below which nothing counts as cut off: the trees are the same."""


@dataclass(frozen=True, slots=True)
class _Told:
    """What a boot tells of one row: the log accept length, its deviation, and how much of its own log is cut off."""

    log_accept_length: float
    deviation: float
    lost: float


def read_smaller_blocks(history: History, encoding: Encoding, boots: Sequence[Boot]) -> tuple[Boot, ...]:
    """Return accept lengths of configurations that were not booted, as boots that measured nothing else.

    Empty where the block is no parameter, or the server does not say how many drafted tokens its steps accepted.

    Args:
        history: finished trials.
        encoding: the configurations.
        boots: what the trials say of their own configurations.
    """
    if BLOCK not in encoding.space.parameters or encoding.block is None:
        return ()
    trials = {trial.number: trial for trial in history.trials}
    own = {boot.row for boot in boots if boot.log_accept_length is not None}
    blocks = [int(block) for block in np.unique(encoding.block)]
    told: dict[int, tuple[int, _Told]] = {}
    for boot in boots:
        if boot.log_accept_length is None:
            continue
        configuration = encoding.space.configurations[boot.row]
        cells = latest(trials[boot.trial].cells)
        for block in (each for each in blocks if each < encoding.block[boot.row]):
            cut = _cut_off(cells, block, history.settings)
            other = None if cut is None else _find(configuration, block, encoding)
            if cut is None or other is None or other in own:
                continue
            lost, error = cut
            is_whole = lost < _WHOLE
            log = boot.log_accept_length - lost + (0.0 if is_whole else _LOW)
            deviation = math.hypot(boot.accept_deviation, error, 0.0 if is_whole else _DEVIATION)
            if other not in told or lost < told[other][1].lost:
                told[other] = (boot.trial, _Told(min(log, math.log(block)), deviation, lost))
    return tuple(
        Boot(number, row, (None, None), (0.0, 0.0), each.log_accept_length, each.deviation, is_whole=False)
        for row, (number, each) in told.items()
    )


def _find(configuration: Configuration, block: int, encoding: Encoding) -> int | None:
    """Return the row with another block; ``None`` where the space does not allow it, or it would decode plainly."""
    try:
        row = encoding.row(encoding.space.canonicalise({**configuration, BLOCK: block}))
    except SearchSpaceError:
        return None
    return None if row is None or encoding.is_plain[row] else row


def _cut_off(cells: Mapping[Cell, CellMeasurement], block: int, settings: StudySettings) -> tuple[float, float] | None:
    """Return by how much the log accept length falls where no step accepts more than a block holds.

    Cells whose accept lengths are pooled count by their weights and their steps.

    Returns:
        The fall, and the standard error of it if steps were each on its own, doubled because those of one text are not;
        ``None`` where no cell has a histogram.
    """
    shares: dict[int, float] = {}
    steps = 0
    for cell in accept_cells(settings):
        for accepted, count in enumerate(cells[cell].accepted_histogram if cell in cells else ()):
            shares[accepted] = shares.get(accepted, 0.0) + weight(cell, settings) * count
            steps += count
    total = sum(shares.values())
    if total <= 0:
        return None
    whole = 1 + sum(accepted * share for accepted, share in shares.items()) / total
    short = 1 + sum(min(accepted, block - 1) * share for accepted, share in shares.items()) / total
    square = sum(max(accepted - block + 1, 0) ** 2 * share for accepted, share in shares.items()) / total
    error = math.sqrt(max(square - (whole - short) ** 2, 0.0) / steps) / short
    return math.log(whole / short), _CLUSTERED * error
