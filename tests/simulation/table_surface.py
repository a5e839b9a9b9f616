"""A surface of a handful of configurations whose every speed is written down by a test."""

from __future__ import annotations

from collections.abc import Mapping

from autotune.search_space import search_space_of
from autotune.settings import StudySettings, parse_settings
from autotune.simulation.surface import CellTruth, Obstacle, Surface
from autotune.trial import Cell, Configuration

STUDY = """
name = "table"
[search_space]
name = "one_number"
[search_space.parameters.budget]
kind = "int"
low = 0
high = {high}
default = 1
flag = "--budget"
[[search_space.arms]]
name = "plain"
when = "budget == 0"
[[search_space.arms]]
name = "tree"
when = "true"
[baseline]
budget = 1
[benchmark]
[[benchmark.stages]]
name = "busy"
cells = [{{ context = 100, concurrency = 32 }}, {{ context = 1000, concurrency = 32 }}]
[[benchmark.stages]]
name = "single"
cells = [{{ context = 100, concurrency = 1 }}]
[evaluation]
enabled = false
"""
BUSY, BUSY_LONG, SINGLE = Cell(100, 32), Cell(1000, 32), Cell(100, 1)


class TableSurface(Surface):
    """Speeds by budget: tokens/s at C=1, then at C=32 in the short context, then in the long one.

    Budgets that are not in the table meet an obstacle.
    """

    name = "table"
    summary = "as a test says"

    def __init__(self, speeds: Mapping[int, tuple[float, float, float]], **changes: object) -> None:
        self.speeds = speeds
        self.settings: StudySettings = parse_settings(STUDY.format(high=max(speeds) + 1), "table.toml")
        self.settings = self.settings.model_copy(update=changes)
        self.space = search_space_of(self.settings)

    def truth(self, configuration: Configuration, cell: Cell) -> CellTruth:
        c1, short, long = self.speeds[int(str(configuration["budget"]))]
        speed = {SINGLE: c1, BUSY: short, BUSY_LONG: long}[cell]
        return CellTruth(2.0 * cell.concurrency / speed, 2.0, 0.1)

    def find_obstacle(self, configuration: Configuration) -> Obstacle | None:
        return None if configuration["budget"] in self.speeds else Obstacle.OUT_OF_MEMORY

    def boot_s(self, configuration: Configuration) -> float:  # noqa: ARG002 - the same for all
        return 100.0
