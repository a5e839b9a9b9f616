"""Who measures a server that is up: its cells, its coding answers, its drafts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from autotune.replay.table import AcceptLengthTable
from autotune.settings import CellSettings
from autotune.trial import CellMeasurement, Configuration, EvaluationMeasurement, Figure


class CellMeter(Protocol):
    """Measures cells of one boot."""

    def measure_cell(self, cell: CellSettings) -> CellMeasurement:
        """Measure one cell."""
        ...

    def measure_canary(self) -> Figure | None:
        """Return the prefill rate of fixed prompts; ``None`` where it cannot be had."""
        ...


class CodingMeter(Protocol):
    """Asks and judges the coding problems of one boot."""

    def run(self) -> EvaluationMeasurement:
        """Run the whole evaluation."""
        ...


class ProfileMeter(Protocol):
    """Asks a server that logs its drafts for answers."""

    def run(self) -> tuple[AcceptLengthTable, ...]:
        """Return the accept lengths that its log tells."""
        ...


@dataclass(frozen=True, slots=True)
class Meters:
    """Who measures.

    Attributes:
        open_benchmark: from configuration and record file to a meter of cells.
        open_evaluation: from configuration and record file to a meter of coding answers.
        open_profile: from configuration, record file and log of drafts to who replays it; ``None`` where nobody can.
        open_soak: from configuration and record file to a meter of cells that samples; ``None``: as ``open_benchmark``.
    """

    open_benchmark: Callable[[Configuration, Path], CellMeter]
    open_evaluation: Callable[[Configuration, Path], CodingMeter]
    open_profile: Callable[[Configuration, Path, Path], ProfileMeter] | None = None
    open_soak: Callable[[Configuration, Path], CellMeter] | None = None
