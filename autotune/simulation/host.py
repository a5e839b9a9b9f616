"""What happens on an imaginary machine: a server loads, serves, runs out of memory, hangs or dies, all in simulated time.

It outlives the commands that use it, as a real machine does, and a server found running is its baseline.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from autotune.clock import Clock
from autotune.errors import ConnectionLostError
from autotune.simulation.faults import Fault, FaultSettings, draw_fault
from autotune.simulation.noise import BootId, NightNoise
from autotune.simulation.surface import Obstacle, Surface
from autotune.trial import Configuration

STOP_S: Final = 20.0
"""From the stop of a server until its memory is free."""

_BOOT_DEVIATION: Final = 0.03
"""Of the log of a boot's duration."""

_UP_FOR_S: Final = 86_400.0
"""How long the server that is found has been running."""

_MEMORY_DEVIATION_GB: Final = 0.03
"""Of the memory that boots of one configuration leave free."""

_SHARDS: Final = 10
_REFUSED_AT: Final = 0.02
_MEMORY_AT: Final = 0.8
"""Graphs are captured when the weights are loaded."""

_HANGS_AT: Final = 0.35
_LOST_AT: Final = 0.5


@dataclass(frozen=True, slots=True)
class _Running:
    """One server and what becomes of it.

    Attributes:
        configuration: what it runs.
        started_s: by the clock of the machine.
        ready_s: when it answers; ``None`` for never.
        ends_s: when it ends by itself; ``None`` for never.
        exit_code: of that end.
        lines: of its log, each with the moment it is written.
        fault: what the machine does to it.
        crashes_in: index of the cell in which it dies; ``None`` for none.
    """

    configuration: Configuration
    started_s: float
    ready_s: float | None
    ends_s: float | None
    exit_code: int
    lines: tuple[tuple[float, str], ...]
    fault: Fault | None
    crashes_in: int | None


class SimulatedHost:
    """One machine with at most one server.

    Args:
        surface: the truth about every configuration.
        clock: moves only while somebody waits.
        noise: errors of the night.
        faults: what goes wrong.

    Attributes:
        count_results: how many trials of the study have a result; the command that uses the machine sets it.
    """

    def __init__(self, surface: Surface, clock: Clock, noise: NightNoise, faults: FaultSettings) -> None:
        self.surface: Final = surface
        self.clock: Final = clock
        self.noise: Final = noise
        self.count_results: Callable[[], int] = lambda: 0
        self._faults = faults
        self._baseline = surface.space.resolve(surface.settings.baseline)
        self._starts = BootId(0, 0)
        self._attempts: Counter[int] = Counter()
        self._pid = 1000
        self._running: _Running | None = None
        self._crashed_s: float | None = None
        self._is_lost = False
        self._cells = 0
        self._run(self._baseline, -_UP_FOR_S, None, None)

    @property
    def boot(self) -> BootId:
        """Which boot is running."""
        number = self.count_results()
        return self._starts if self._starts.number == number else BootId(number, 0)

    @property
    def pid(self) -> int | None:
        """Process of the server; ``None`` when none was started or it has ended."""
        return None if self._running is None or self.exit_code is not None else self._pid

    @property
    def is_ready(self) -> bool:
        """Whether the server makes a generation."""
        running = self._running
        return (
            running is not None
            and running.ready_s is not None
            and self.exit_code is None
            and self.clock.monotonic() >= running.ready_s
        )

    @property
    def configuration(self) -> Configuration | None:
        """What the server runs; ``None`` without a server."""
        return None if self._running is None else self._running.configuration

    @property
    def exit_code(self) -> int | None:
        """The exit code of the server once it has ended by itself; -1 without a server."""
        running, now = self._running, self.clock.monotonic()
        if running is None:
            return -1
        if self._crashed_s is not None:
            return -9
        return running.exit_code if running.ends_s is not None and now >= running.ends_s else None

    @property
    def log(self) -> tuple[str, ...]:
        """What the server has written so far."""
        now = self.clock.monotonic()
        return () if self._running is None else tuple(line for at, line in self._running.lines if at <= now)

    def check_connection(self) -> None:
        """Break the connection once, where that is the fault of this boot.

        Raises:
            ConnectionLostError: it broke.
        """
        running = self._running
        if running is None or running.fault is not Fault.LOSS or self._is_lost:
            return
        if self.clock.monotonic() >= running.started_s + _LOST_AT * self.surface.boot_s(running.configuration):
            self._is_lost = True
            raise ConnectionLostError(
                "the connection to the imaginary machine is gone", where=self.surface.name, hint="run the command again"
            )

    def start(self, configuration: Configuration) -> int:
        """Start a server for a trial and return its process id."""
        number = self.count_results()
        self._attempts[number] += 1
        self._starts = BootId(number, self._attempts[number])
        fault = draw_fault(self._faults, self.noise, self._starts)
        return self._run(configuration, self.clock.monotonic(), fault, self.surface.find_obstacle(configuration))

    def start_baseline(self) -> int:
        """Put the baseline back; nothing goes wrong with that."""
        self._starts = BootId(self.count_results(), 0)
        return self._run(self._baseline, self.clock.monotonic(), None, None)

    def stop(self) -> None:
        """Stop the server, if there is one, and wait until its memory is free."""
        if self._running is not None:
            self.clock.sleep(STOP_S)
        self._running = None

    def enter_cell(self) -> bool:
        """Take note that a cell is begun; return whether the server dies in it."""
        running, index = self._running, self._cells
        self._cells += 1
        return running is not None and running.crashes_in == index

    def kill(self) -> None:
        """Let the machine kill the server."""
        self._crashed_s = self.clock.monotonic()

    def _run(
        self, configuration: Configuration, started_s: float, fault: Fault | None, obstacle: Obstacle | None
    ) -> int:
        """Decide what becomes of a server."""
        chance = self.noise.draw_of("boot", self._starts)
        boot_s = self.surface.boot_s(configuration) * chance.lognormvariate(0, _BOOT_DEVIATION)
        ready_s: float | None = started_s + boot_s
        ends_s: float | None = None
        exit_code = 0
        stop_at = 1.0
        words: tuple[str, ...] = (
            *self._say_memory(configuration),
            _stamp(self.clock.now(), "The server is fired up and ready to roll!"),
        )
        if obstacle is Obstacle.REFUSED:
            ready_s, exit_code, stop_at = None, 2, _REFUSED_AT
            words = ("launch_server: error: argument value is not supported by this model",)
        elif obstacle is Obstacle.OUT_OF_MEMORY:
            ready_s, exit_code, stop_at = None, 1, _MEMORY_AT
            words = (
                _stamp(self.clock.now(), "Scheduler hit an exception: Traceback (most recent call last):"),
                "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
            )
        elif fault is Fault.HANG:
            ready_s, stop_at, words = None, _HANGS_AT, ()
        if exit_code:
            ends_s = started_s + stop_at * boot_s
        loading = [
            (started_s + share * boot_s, f"Loading safetensors checkpoint shards: {share:.0%} completed")
            for share in (shard / _SHARDS for shard in range(_SHARDS))
            if share < stop_at
        ]
        last_words = [(started_s + stop_at * boot_s, word) for word in words]
        crashes_in = chance.randrange(_count_cells(self.surface)) if fault is Fault.CRASH else None
        self._running = _Running(
            configuration, started_s, ready_s, ends_s, exit_code, (*loading, *last_words), fault, crashes_in
        )
        self._crashed_s = None
        self._is_lost = False
        self._cells = 0
        self._pid += 1
        return self._pid

    def _say_memory(self, configuration: Configuration) -> tuple[str, ...]:
        """Return the line in which a server says how much memory it left free, where it does."""
        free_gb = self.surface.free_memory_gb(configuration)
        if free_gb is None:
            return ()
        free_gb = max(0.0, free_gb + self.noise.draw_of("memory", self._starts).gauss(0, _MEMORY_DEVIATION_GB))
        return (
            _stamp(
                self.clock.now(), f"max_total_num_tokens=400000, context_len=65536, available_gpu_mem={free_gb:.2f} GB"
            ),
        )


def _count_cells(surface: Surface) -> int:
    return sum(len(stage.cells) for stage in surface.settings.benchmark.stages)


def _stamp(now: datetime, text: str) -> str:
    """Write a line as the server itself stamps it."""
    return f"[{now:%Y-%m-%d %H:%M:%S}] {text}"
