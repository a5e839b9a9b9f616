"""What does each boot of the history say about its configuration: log speeds, accept length, and how surely? Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from autotune.drift import find_drifts
from autotune.objectives import CONCURRENCIES, expected_cells, latest, weight
from autotune.sampling.base import History
from autotune.sampling.greybox.encoding import Encoding
from autotune.sampling.greybox.filling import Filling, Shown
from autotune.settings import StudySettings
from autotune.trial import Cell, CellMeasurement, TrialState

_DRIFT: Final = 0.05
"""Deviation that a boot gets on a machine that was not itself."""


@dataclass(frozen=True, slots=True)
class Boot:
    """What one boot measured of one configuration.

    Attributes:
        trial: its number.
        row: of its configuration.
        log_speeds: logs of tokens/s at C=1 and C=32, weighted over contexts; ``None`` where no cell was measured.
        deviations: of the noise that is known of each log speed, boots aside: between rounds, for missing cells beside what
            their accept length leaves open, for drift.
        log_accept_length: mean over the contexts; ``None`` with plain decoding or where the server does not say.
        accept_deviation: likewise of the accept length.
        is_whole: whether every cell was measured.
    """

    trial: int
    row: int
    log_speeds: tuple[float | None, float | None]
    deviations: tuple[float, float]
    log_accept_length: float | None
    accept_deviation: float
    is_whole: bool


def read_boots(history: History, encoding: Encoding) -> tuple[Boot, ...]:
    """Return what the finished boots say, by number; empty while the baseline is unknown.

    Boots of the baseline and repeats count one by one: they show the noise. A failed trial says nothing. The interval of a
    figure is not its noise here: it holds what prompts differ by, and every boot has the same prompts.
    """
    if history.baseline is None:
        return ()
    settings = history.settings
    whole = [
        Shown.of(latest(trial.cells), row, encoding)
        for trial in history.trials
        if trial.state is TrialState.COMPLETE and (row := encoding.row(trial.configuration)) is not None
    ]
    filling = Filling(whole, settings)
    drifts = find_drifts(history.trials)
    boots = []
    for trial in history.trials:
        row = encoding.row(trial.configuration)
        if not trial.state.counts or row is None or not trial.cells:
            continue
        cells = latest(trial.cells)
        shown = Shown.of(cells, row, encoding)
        drift = _DRIFT if trial.number in drifts else 0.0
        speeds = [filling.speed(shown, concurrency) for concurrency in CONCURRENCIES]
        inside = [_deviation_inside(cells, concurrency, settings) for concurrency in CONCURRENCIES]
        accept, accept_deviation = filling.accept_length(shown)
        if all(speed is None for speed, _ in speeds):
            continue
        boots.append(
            Boot(
                trial.number,
                row,
                (speeds[0][0], speeds[1][0]),
                (math.hypot(speeds[0][1], inside[0], drift), math.hypot(speeds[1][1], inside[1], drift)),
                accept,
                accept_deviation,
                all(cell in cells for cell in expected_cells(settings)),
            )
        )
    return tuple(boots)


def _deviation_inside(cells: Mapping[Cell, CellMeasurement], concurrency: int, settings: StudySettings) -> float:
    """Return the deviation of the log speed at one concurrency from the noise inside the boot; 0 without any cell."""
    known = [cell for cell in expected_cells(settings) if cell.concurrency == concurrency and cell in cells]
    total = math.fsum(weight(cell, settings) for cell in known)
    return math.sqrt(sum((weight(cell, settings) / total) ** 2 * _round_variance(cells[cell]) for cell in known))


def _round_variance(cell: CellMeasurement) -> float:
    """Return the variance of the mean over rounds of a cell; 0 where there was one."""
    logs = cell.round_log_speeds
    if len(logs) < 2:
        return 0.0
    mean = sum(logs) / len(logs)
    return sum((log - mean) ** 2 for log in logs) / (len(logs) - 1) / len(logs)
