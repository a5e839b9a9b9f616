"""What does each boot of the history say about its configuration: log speeds, accept length, and how surely? Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from autotune.drift import find_drifts
from autotune.objectives import CONCURRENCIES, expected_cells, latest, weight
from autotune.sampling.base import History
from autotune.sampling.greybox.encoding import Encoding
from autotune.sampling.greybox.filling import Filling
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
        deviations: of the noise that is known of each log speed, boots aside: between rounds, for missing cells, for drift.
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
    whole = [latest(trial.cells) for trial in history.trials if trial.state is TrialState.COMPLETE]
    speed_filling = _find_filling(map(_log_speeds, whole), expected_cells(settings), settings)
    accept_filling = _find_filling(map(_log_accept_lengths, whole), accept_cells(settings), settings)
    drifts = find_drifts(history.trials)
    boots = []
    for trial in history.trials:
        row = encoding.row(trial.configuration)
        if not trial.state.counts or row is None or not trial.cells:
            continue
        cells = latest(trial.cells)
        drift = _DRIFT if trial.number in drifts else 0.0
        speeds = [_speed(cells, concurrency, speed_filling, settings) for concurrency in CONCURRENCIES]
        accept, accept_deviation = _accept_length(cells, accept_filling, settings)
        if all(speed is None for speed, _ in speeds):
            continue
        boots.append(
            Boot(
                trial.number,
                row,
                (speeds[0][0], speeds[1][0]),
                (math.hypot(speeds[0][1], drift), math.hypot(speeds[1][1], drift)),
                None if encoding.is_plain[row] else accept,
                accept_deviation,
                all(cell in cells for cell in expected_cells(settings)),
            )
        )
    return tuple(boots)


def _find_filling(boots: Iterable[Mapping[Cell, float]], cells: Sequence[Cell], settings: StudySettings) -> Filling:
    """Return what the boots that know all cells tell of those that do not."""
    return Filling([boot for boot in boots if all(cell in boot for cell in cells)], settings)


def _log_speeds(cells: Mapping[Cell, CellMeasurement]) -> dict[Cell, float]:
    return {cell: math.log(item.decode_tokens_per_s.value) for cell, item in cells.items()}


def _log_accept_lengths(cells: Mapping[Cell, CellMeasurement]) -> dict[Cell, float]:
    """Return the logs of the accept lengths that are known."""
    return {cell: math.log(item.accept_length.value) for cell, item in cells.items() if item.accept_length is not None}


def _speed(
    cells: Mapping[Cell, CellMeasurement], concurrency: int, filling: Filling, settings: StudySettings
) -> tuple[float | None, float]:
    """Return the log speed at one concurrency, with its known deviation."""
    wanted = [cell for cell in expected_cells(settings) if cell.concurrency == concurrency]
    known = {cell: log for cell, log in _log_speeds(cells).items() if cell in wanted}
    if not known:
        return None, 0.0
    value, deviation = filling.fill(known, wanted)
    total = sum(weight(cell, settings) for cell in known)
    inside = sum((weight(cell, settings) / total) ** 2 * _round_variance(cells[cell]) for cell in known)
    return value, math.hypot(math.sqrt(inside), deviation)


def _round_variance(cell: CellMeasurement) -> float:
    """Return the variance of the mean over rounds of a cell; 0 where there was one."""
    logs = cell.round_log_speeds
    if len(logs) < 2:
        return 0.0
    mean = sum(logs) / len(logs)
    return sum((log - mean) ** 2 for log in logs) / (len(logs) - 1) / len(logs)


def _accept_length(
    cells: Mapping[Cell, CellMeasurement], filling: Filling, settings: StudySettings
) -> tuple[float | None, float]:
    """Return the log accept length over the contexts of the busiest cells, with its known deviation.

    It does not depend on concurrency, so cells of both are pooled.
    """
    wanted = accept_cells(settings)
    known = {cell: log for cell, log in _log_accept_lengths(cells).items() if cell in wanted}
    return filling.fill(known, wanted) if known else (None, 0.0)


def accept_cells(settings: StudySettings) -> tuple[Cell, ...]:
    """Return the cells whose accept lengths are pooled: those at contexts that are measured at the highest concurrency."""
    cells = expected_cells(settings)
    contexts = {cell.context for cell in cells if cell.concurrency == CONCURRENCIES[-1]}
    return tuple(cell for cell in cells if cell.context in contexts)
