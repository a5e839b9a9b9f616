"""What does each boot of the history say about its configuration: log speeds, accept length, and how surely? Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from autotune.drift import find_drifts
from autotune.objectives import CONCURRENCIES, expected_cells, latest, weight
from autotune.sampling.base import History
from autotune.sampling.greybox.encoding import Encoding
from autotune.settings import StudySettings
from autotune.trial import Cell, CellMeasurement, TrialRecord, TrialState

_MISSING_CELLS: Final = 0.05
"""Deviation of a log speed of which no cell but others of the same concurrency was measured, times the missing share."""

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
    speed_effects = {item.cell: math.log(item.decode_tokens_per_s.value) for item in history.baseline.cells}
    accept_effects = _accept_effects(history.trials, settings)
    drifts = find_drifts(history.trials)
    boots = []
    for trial in history.trials:
        row = encoding.row(trial.configuration)
        if not trial.state.counts or row is None or not trial.cells:
            continue
        cells = latest(trial.cells)
        drift = _DRIFT if trial.number in drifts else 0.0
        speeds = [_speed(cells, concurrency, speed_effects, settings) for concurrency in CONCURRENCIES]
        accept, missing = _accept_length(cells, accept_effects, settings)
        if all(speed is None for speed, _ in speeds):
            continue
        boots.append(
            Boot(
                trial.number,
                row,
                (speeds[0][0], speeds[1][0]),
                (math.hypot(speeds[0][1], drift), math.hypot(speeds[1][1], drift)),
                None if encoding.is_plain[row] else accept,
                _MISSING_CELLS * missing,
                all(cell in cells for cell in expected_cells(settings)),
            )
        )
    return tuple(boots)


def _speed(
    cells: Mapping[Cell, CellMeasurement], concurrency: int, effects: Mapping[Cell, float], settings: StudySettings
) -> tuple[float | None, float]:
    """Return the log speed at one concurrency, with its known deviation; missing cells are as the baseline's."""
    wanted = [cell for cell in expected_cells(settings) if cell.concurrency == concurrency and cell in effects]
    known = {cell: math.log(cells[cell].decode_tokens_per_s.value) for cell in wanted if cell in cells}
    if not known:
        return None, 0.0
    value, missing = _fill(known, wanted, effects, settings)
    total = sum(weight(cell, settings) for cell in known)
    inside = sum((weight(cell, settings) / total) ** 2 * _round_variance(cells[cell]) for cell in known)
    return value, math.hypot(math.sqrt(inside), _MISSING_CELLS * missing)


def _round_variance(cell: CellMeasurement) -> float:
    """Return the variance of the mean over rounds of a cell; 0 where there was one."""
    logs = cell.round_log_speeds
    if len(logs) < 2:
        return 0.0
    mean = sum(logs) / len(logs)
    return sum((log - mean) ** 2 for log in logs) / (len(logs) - 1) / len(logs)


def _accept_length(
    cells: Mapping[Cell, CellMeasurement], effects: Mapping[Cell, float], settings: StudySettings
) -> tuple[float | None, float]:
    """Return the log accept length over the contexts of the busiest cells, and the share of cells that is missing.

    It does not depend on concurrency, so cells of both are pooled.
    """
    wanted = accept_cells(settings)
    known = {cell: math.log(length) for cell in wanted if (length := _accept_of(cells.get(cell))) is not None}
    if not known:
        return None, 0.0
    return _fill(known, [cell for cell in wanted if cell in effects] or list(known), effects, settings)


def accept_cells(settings: StudySettings) -> tuple[Cell, ...]:
    """Return the cells whose accept lengths are pooled: those at contexts that are measured at the highest concurrency."""
    cells = expected_cells(settings)
    contexts = {cell.context for cell in cells if cell.concurrency == CONCURRENCIES[-1]}
    return tuple(cell for cell in cells if cell.context in contexts)


def _accept_of(cell: CellMeasurement | None) -> float | None:
    return None if cell is None or cell.accept_length is None else cell.accept_length.value


def _accept_effects(trials: Iterable[TrialRecord], settings: StudySettings) -> dict[Cell, float]:
    """Return the mean log accept length of each cell over the trials that know it in every cell; empty when none does."""
    wanted = accept_cells(settings)
    whole: list[dict[Cell, float]] = []
    for trial in trials:
        if trial.state is not TrialState.COMPLETE:
            continue
        cells = latest(trial.cells)
        known = {cell: math.log(length) for cell in wanted if (length := _accept_of(cells.get(cell))) is not None}
        if len(known) == len(wanted):
            whole.append(known)
    return {cell: sum(each[cell] for each in whole) / len(whole) for cell in wanted} if whole else {}


def _fill(
    known: Mapping[Cell, float], wanted: Iterable[Cell], effects: Mapping[Cell, float], settings: StudySettings
) -> tuple[float, float]:
    """Return the weighted mean over the wanted cells, those not known as far from the known ones as the effects are.

    Returns:
        The mean, and the share of weight that was not known.
    """
    cells = list(wanted)
    total = sum(weight(cell, settings) for cell in cells)
    common = [cell for cell in known if cell in effects]
    if not common:
        weights = sum(weight(cell, settings) for cell in known)
        return sum(weight(cell, settings) * known[cell] for cell in known) / weights, 0.0
    weights = sum(weight(cell, settings) for cell in common)
    ahead = sum(weight(cell, settings) * (known[cell] - effects[cell]) for cell in common) / weights
    mean = sum(weight(cell, settings) * known.get(cell, effects[cell] + ahead) for cell in cells) / total
    missing = sum(weight(cell, settings) for cell in cells if cell not in known) / total
    return mean, missing
