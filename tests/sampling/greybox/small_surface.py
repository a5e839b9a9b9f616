"""A small server of one formula: trials of it, with or without noise between boots, and the truth to compare with."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from autotune.baseline import pool_baseline
from autotune.sampling.base import History
from autotune.search_space import SearchSpace, load_search_space
from autotune.settings import StudySettings
from autotune.trial import (
    BootRecord,
    Cell,
    CellMeasurement,
    Configuration,
    Figure,
    Objectives,
    TrialKind,
    TrialRecord,
    TrialState,
)
from tests.records import make_settings

SPACE = load_search_space("ddtree", proofs=frozenset({"best-first-tree"}))
SETTINGS = make_settings()
BLOCK = 16


def whole(configuration: Configuration, name: str) -> int:
    value = configuration[name]
    assert isinstance(value, int)
    return value


def accept_length(configuration: Configuration) -> float:
    """Rises and saturates in the budget, a little more with width, less with a narrow window."""
    budget, topk = whole(configuration, "budget"), whole(configuration, "topk")
    if budget == 0:
        return 1.0
    accepted = 1 / (1 / (5.0 + 0.5 * math.log2(topk)) + 1 / (0.8 * budget))
    window = configuration["window"]
    kept = 1.0 if window is None else 1 - 4.0 / float(str(window))
    return 1 + kept * accepted


def step_time_s(configuration: Configuration, concurrency: int) -> float:
    """Linear in the budget, much steeper at C=32; plain decoding has no drafter; a window saves a little."""
    budget = whole(configuration, "budget")
    if budget == 0:
        return 0.010 if concurrency == 1 else 0.014
    saved = 0.0 if configuration["window"] is None else 0.0004
    if concurrency == 1:
        return 0.0145 * (1 + 0.004 * budget) - saved
    return 0.0180 * (1 + 0.035 * budget) - saved


def log_speeds(configuration: Configuration) -> tuple[float, float]:
    """The truth."""
    length = accept_length(configuration)
    return (
        math.log(length / step_time_s(configuration, 1)),
        math.log(32 * length / step_time_s(configuration, 32)),
    )


def measure(cell: Cell, speed: float, length: float | None) -> CellMeasurement:
    return CellMeasurement(
        cell=cell,
        requests=8,
        succeeded=8,
        output_tokens=1024,
        prompt_tokens=1024,
        cached_tokens=None,
        decode_tokens_per_s=Figure(speed, 8),
        total_tokens_per_s=Figure(speed, 8),
        ttft_s=None,
        tpot_s=None,
        accept_length=None if length is None else Figure(length, 8),
        per_prompt_log_speed={},
        duration_s=10.0,
    )


@dataclass
class Server:
    """Boots configurations one after the other.

    Attributes:
        noise: deviation of the log speed between boots.
        tells_accept_length: whether it says so.
        fits: whether a configuration fits into memory.
        settings: the study.
    """

    noise: float = 0.0
    seed: int = 0
    tells_accept_length: bool = True
    fits: Callable[[Configuration], bool] = lambda _configuration: True
    settings: StudySettings = SETTINGS
    space: SearchSpace = SPACE
    speeds: Callable[[Configuration], tuple[float, float]] = log_speeds
    trials: list[TrialRecord] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)  # noqa: S311
        self.boot(self.space.resolve(self.settings.baseline), TrialKind.BASELINE)

    def boot(self, configuration: Configuration, kind: TrialKind = TrialKind.SEARCH) -> TrialRecord:
        number = len(self.trials)
        record = TrialRecord(
            number,
            kind,
            TrialState.COMPLETE,
            configuration,
            boot=BootRecord(1, ("serve",), {}, {}, 60.0),
            duration_s=100.0,
        )
        if not self.fits(configuration):
            record = replace(record, state=TrialState.INFEASIBLE, reason="OutOfMemory: no room", boot=None)
        else:
            is_plain = configuration.get("budget") == 0
            length = None if is_plain or not self.tells_accept_length else accept_length(configuration)
            c1, c32 = (math.exp(log + self._rng.gauss(0, self.noise)) for log in self.speeds(configuration))
            cells = (measure(Cell(128, 32), c32, length), measure(Cell(128, 1), c1, length))
            record = replace(record, cells=cells, objectives=Objectives(Figure(c1, 8), Figure(c32, 8), None))
        self.trials.append(record)
        return record

    def boot_all(self, texts: Sequence[str]) -> None:
        for text in texts:
            self.boot(self.space.parse(text))

    def history(self) -> History:
        return History(self.settings, tuple(self.trials), pool_baseline(self.trials, self.settings))
