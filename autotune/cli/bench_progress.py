"""What is shown while a benchmark runs: a bar with the time left on a terminal, a line per cell anywhere else."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from rich.console import Console

from autotune.benchmark.request_record import RequestRecord
from autotune.benchmark.saved_result import CellResult
from autotune.cli import render
from autotune.cli.progress_bar import ProgressBar
from autotune.export.wording import clean, render_duration, render_number
from autotune.settings import BenchmarkSettings, CellSettings

_FEWEST_REQUESTS = 4
_PREFILL_TOKENS_PER_OUTPUT_TOKEN = 25.0
_SHARED_SHARE = 0.7
"""A request among C others takes longer than alone, but not C times as long: its share of the time is 1 / C to this power."""
_SOON_S = 2.0


class BenchWork:
    """How much of a benchmark is done, in units of about equal time.

    Args:
        settings: what is measured.
        clock: monotonic seconds.
    """

    def __init__(self, settings: BenchmarkSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._cells: Sequence[CellSettings] = [cell for stage in settings.stages for cell in stage.cells]
        self._whole = sum(map(self._weigh, self._cells))
        self._before = 0.0
        self._began_s = clock()
        self._place = 0
        self.done = 0
        self.planned = self._count(self._cells[0])

    @property
    def cell(self) -> str:
        """Name of the cell that is measured."""
        return self._cells[min(self._place, len(self._cells) - 1)].cell.name

    @property
    def share(self) -> float:
        """Share of the whole that is done, 0 to 1."""
        if self._place >= len(self._cells):
            return 1.0
        within = self._weigh(self._cells[self._place]) * min(self.done / self.planned, 1.0)
        return (self._before + within) / self._whole

    @property
    def left_s(self) -> float | None:
        """Seconds left at the pace so far; ``None`` while too little was seen."""
        elapsed_s = self._clock() - self._began_s
        if self.share <= 0 or elapsed_s < _SOON_S:
            return None
        return elapsed_s * (1 - self.share) / self.share

    def take_record(self, record: RequestRecord) -> None:
        """Count a measured request."""
        self.done += record.repeat >= 0

    def take_cell(self) -> None:
        """Go on to the next cell."""
        self._before += self._weigh(self._cells[self._place])
        self._place += 1
        self.done = 0
        if self._place < len(self._cells):
            self.planned = self._count(self._cells[self._place])

    def _count(self, cell: CellSettings) -> int:
        return self._settings.repeats * (cell.requests or max(cell.concurrency, _FEWEST_REQUESTS))

    def _weigh(self, cell: CellSettings) -> float:
        tokens = self._settings.output_tokens + cell.context / _PREFILL_TOKENS_PER_OUTPUT_TOKEN
        return self._count(cell) * tokens / math.pow(cell.concurrency, _SHARED_SHARE)


class BenchProgress:
    """Shows a benchmark as it goes on; use as a context manager.

    Args:
        settings: what is measured.
        is_live: a bar that is redrawn, or one line per cell.
        console: where the bar is drawn.
    """

    def __init__(self, settings: BenchmarkSettings, *, is_live: bool, console: Console | None = None) -> None:
        self._work = BenchWork(settings)
        self._bar = ProgressBar(console=console) if is_live else None

    def __enter__(self) -> Self:
        """Begin to draw."""
        if self._bar is not None:
            self._bar.__enter__()
            self._draw()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.__exit__(kind, error, trace)

    def take_record(self, record: RequestRecord) -> None:
        """Take note of a request that ended."""
        self._work.take_record(record)
        self._draw()

    def take_cell(self, cell: CellResult) -> None:
        """Take note of a cell that ended."""
        self._work.take_cell()
        left = "" if self._work.left_s is None or self._work.share >= 1 else self._say_left()
        if self._bar is None:
            with contextlib.suppress(OSError):  # a reader that went away ends no benchmark
                render.say(f"{clean(render_cell(cell))}{left}")
        self._draw()

    def _draw(self) -> None:
        if self._bar is None:
            return
        work = self._work
        what = f"{work.cell}: {work.done} of {work.planned} requests" if work.done else f"{work.cell}: warming up"
        self._bar.show(work.share, what, self._say_left().lstrip("; "))

    def _say_left(self) -> str:
        left_s = self._work.left_s
        return "" if left_s is None else f"; about {render_duration(left_s)} left"


def render_cell(cell: CellResult) -> str:
    """Say what one cell measured, in a line."""
    name = cell.settings.cell.name
    if cell.measurement is None:
        return f"{name}: {cell.error}"
    speed = render_number(cell.measurement.decode_tokens_per_s.value)
    return f"{name}: {speed} tokens/s in {render_duration(cell.measurement.duration_s)}"
