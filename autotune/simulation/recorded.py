"""Surfaces that were measured: recorded tables of real engines, replayed. What a table does not hold is not in the space.

Between two recorded budgets both accept length and step time are interpolated. Accept lengths are those of the 32 prompts at
C=32, which stand for every concurrency: a tree accepts the same whoever else is served, and at C=1 a table holds a few prompts
only. Boots take as long as those of a large model, because a night is made of boots; the engines themselves start in a second.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from autotune.errors import UserError
from autotune.packaged import find_packaged
from autotune.search_space import search_space_of
from autotune.simulation.imagined_study import StudyOutline, outline_study
from autotune.simulation.parametric import boot_s
from autotune.simulation.surface import CellTruth, Obstacle, Surface
from autotune.trial import Cell, Configuration, ParameterValue

TABLES: Final = "studies/tables"
"""Folder of the recorded tables."""

_PLAIN: Final = "plain"
_CHAIN: Final = "chain"
_TREE: Final = "tree"

_PREFILL_S: Final = 5e-3
_PREFILL_TOKEN_S: Final = 1.5e-6
"""Where a table says nothing of prefill: about what the table of the embedded engine says of it."""


@dataclass(frozen=True, slots=True)
class RecordedTable:
    """Where a table lies and what its columns are called.

    Attributes:
        file: below :data:`TABLES`.
        accept_length: column of the accept length.
        step_ms: column of the step time in milliseconds.
        prefill_ms: column of the time of a prefill in milliseconds; ``None`` when the table has none.
        contexts: that it holds.
        windows: that it holds; ``None`` is the whole context.
        blocks: that it holds.
        topks: that it holds.
        is_noisy: its boots lie so far apart that step times are smoothed: the same line in budget for all trees of one
            concurrency and context, and another for all chains.
        rules: what the table does not hold, as rules of the search space.
    """

    file: str
    accept_length: str
    step_ms: str
    prefill_ms: str | None
    contexts: tuple[int, ...]
    windows: tuple[int | None, ...]
    blocks: tuple[int, ...]
    topks: tuple[int, ...] = (1, 2, 4, 8)
    is_noisy: bool = False
    rules: tuple[tuple[str, str], ...] = ()


LARGE_TABLE: Final = RecordedTable(
    "h200_large.csv",
    "accept_length",
    "step_ms",
    "prefill_ms",
    contexts=(256, 1536),
    windows=(64, 512, None),
    blocks=(8, 16),
    is_noisy=True,
    rules=(
        ("topk > 1 or budget <= 12", "no longer chain was recorded"),
        ("topk > 1 or block == 16 or budget <= 6", "no longer chain was recorded with this block"),
    ),
)
"""Two boots of each configuration, which differ by 16 %: both are averaged, and smoothed."""

PROCESSOR_TABLE: Final = RecordedTable(
    "cpu_small.csv",
    "accept_length",
    "step_ms",
    "prefill_ms",
    contexts=(128, 512),
    windows=(64, None),
    blocks=(16,),
    topks=(1, 4, 8),
    is_noisy=True,
    rules=(("topk > 1 or budget <= 12", "no longer chain was recorded"),),
)
"""Two boots of each configuration, which differ by 16 %, as those of the large one."""

EARLIER_TABLE: Final = RecordedTable(
    "ddtree_h200.csv",
    "accept_len",
    "ms_step",
    None,
    contexts=(400,),
    windows=(32, 128, 512, None),
    blocks=(16,),
)
"""Two repeats of each configuration in one boot, which differ by half a per cent: taken as they are."""


@dataclass(frozen=True, slots=True)
class _Row:
    budget: int
    topk: int
    window: int | None
    block: int
    cell: Cell
    accept_length: float
    step_s: float
    prefill_s: float | None

    @property
    def arm(self) -> str:
        return _PLAIN if self.budget == 0 else _CHAIN if self.topk == 1 else _TREE


@dataclass(frozen=True, slots=True)
class _Curve:
    """Values by budget, ascending."""

    budgets: tuple[int, ...]
    values: tuple[float, ...]

    def at(self, budget: int) -> float:
        return float(np.interp(budget, self.budgets, self.values))


_Family = tuple[ParameterValue, ParameterValue, ParameterValue]
"""Topk, window and block: configurations that differ in budget only."""


class RecordedSurface(Surface):
    """A table, replayed.

    Args:
        name: of the surface.
        summary: what was recorded.
        table: where it lies.
        model: rows of this model only; ``None`` for a table of one model.

    Raises:
        UserError: the table is not there.
    """

    def __init__(self, name: str, summary: str, table: RecordedTable, model: str | None = None) -> None:
        self.name = name
        self.summary = summary
        self.settings = outline_study(
            StudyOutline(
                name, table.contexts, table.topks, table.windows, table.blocks, budget_step=2, rules=table.rules
            )
        )
        self.space = search_space_of(self.settings)
        rows = list(_read(table, model))
        self._plain_s = {cell: _mean([row.step_s for row in each]) for cell, each in _by_cell(rows, _PLAIN).items()}
        self._lengths = _fit_lengths(rows)
        self._steps = None if table.is_noisy else _fit_steps(rows)
        self._lines = _fit_lines(rows) if table.is_noisy else {}
        self._prefills = _fit_prefills(rows)

    def truth(self, configuration: Configuration, cell: Cell) -> CellTruth:
        """Return what a cell would show.

        Raises:
            ValueError: the table does not hold this cell.
        """
        if cell not in self._plain_s:
            known = ", ".join(sorted(each.name for each in self._plain_s))
            raise ValueError(f"the surface {self.name} holds no cell {cell.name}, only {known}")
        prefill_s = self._prefills[cell]
        budget = configuration["budget"]
        if not isinstance(budget, int):
            raise TypeError(f"budget is {budget!r}, no number")
        if budget == 0:
            return CellTruth(self._plain_s[cell], None, prefill_s)
        family = (configuration["topk"], configuration["window"], configuration["block"])
        accept_length = self._lengths[family, cell.context].at(budget)
        if self._steps is not None:
            step_s = self._steps[family, cell].at(budget)
        else:
            step_s = self._lines[_CHAIN if configuration["topk"] == 1 else _TREE, cell].at(budget)
        return CellTruth(step_s, accept_length, prefill_s)

    def find_obstacle(self, configuration: Configuration) -> Obstacle | None:  # noqa: ARG002  # all that was recorded served
        """Return ``None``: every recorded configuration served."""
        return None

    def boot_s(self, configuration: Configuration) -> float:
        """Return how long a large model takes to load."""
        return boot_s(configuration)


def _read(table: RecordedTable, model: str | None) -> Iterator[_Row]:
    """Yield the rows of a table."""
    path = find_packaged(TABLES, table.file)
    if path is None:
        raise UserError(f"this installation carries no table {table.file}", hint="install autotune again")
    with Path(path).open(encoding="utf-8", newline="") as file:
        for item in csv.DictReader(file):
            if model is not None and item["model"] != model:
                continue
            window = item["window"]
            yield _Row(
                budget=int(item["budget"]),
                topk=int(item["topk"]),
                window=None if window in {"0", "none"} else int(window),
                block=int(item["block"]),
                cell=Cell(int(item["context"]), int(item["concurrency"])),
                accept_length=float(item[table.accept_length]),
                step_s=float(item[table.step_ms]) / 1000,
                prefill_s=None if table.prefill_ms is None else float(item[table.prefill_ms]) / 1000,
            )


def _by_cell(rows: Sequence[_Row], arm: str) -> dict[Cell, list[_Row]]:
    found: dict[Cell, list[_Row]] = defaultdict(list)
    for row in rows:
        if row.arm == arm:
            found[row.cell].append(row)
    return found


def _fit_lengths(rows: Sequence[_Row]) -> Mapping[tuple[_Family, int], _Curve]:
    """Return the accept lengths at C=32 by budget, for each family and context."""
    found: dict[tuple[_Family, int], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row.budget and row.cell.concurrency == 32:
            found[(row.topk, row.window, row.block), row.cell.context][row.budget].append(row.accept_length)
    return {key: _curve(each) for key, each in found.items()}


def _fit_steps(rows: Sequence[_Row]) -> Mapping[tuple[_Family, Cell], _Curve]:
    """Return the step times by budget, for each family and cell."""
    found: dict[tuple[_Family, Cell], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row.budget:
            found[(row.topk, row.window, row.block), row.cell][row.budget].append(row.step_s)
    return {key: _curve(each) for key, each in found.items()}


def _fit_lines(rows: Sequence[_Row]) -> Mapping[tuple[str, Cell], _Curve]:
    """Return straight lines in budget through all step times of an arm in a cell; none of them falls."""
    lines = {}
    for arm in (_CHAIN, _TREE):
        for cell, each in _by_cell(rows, arm).items():
            budgets = np.array([row.budget for row in each], dtype=float)
            steps = np.array([row.step_s for row in each])
            slope = float(np.polyfit(budgets, steps, 1)[0]) if len(set(budgets)) > 1 else 0.0
            slope = max(slope, 0.0)
            start = float(steps.mean()) - slope * float(budgets.mean())
            ends = (int(budgets.min()), int(budgets.max()))
            lines[arm, cell] = _Curve(ends, tuple(start + slope * budget for budget in ends))
    return lines


def _fit_prefills(rows: Sequence[_Row]) -> Mapping[Cell, float]:
    """Return the mean prefill time of each cell; trees do not change it."""
    found: dict[Cell, list[float]] = defaultdict(list)
    for row in rows:
        assumed_s = _PREFILL_S + row.cell.concurrency * row.cell.context * _PREFILL_TOKEN_S
        found[row.cell].append(assumed_s if row.prefill_s is None else row.prefill_s)
    return {cell: _mean(each) for cell, each in found.items()}


def _curve(values: Mapping[int, Sequence[float]]) -> _Curve:
    budgets = tuple(sorted(values))
    return _Curve(budgets, tuple(_mean(values[budget]) for budget in budgets))


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))
