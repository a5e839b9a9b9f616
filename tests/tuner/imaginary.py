"""A whole night on an imaginary host: what reality does not do on demand is scripted, the study is a real one."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from autotune.confirmation.due import find_asked
from autotune.deployment.base import Occupant
from autotune.errors import AutotuneError
from autotune.events import Event
from autotune.search_space import search_space_of
from autotune.settings import CellSettings, StudySettings, parse_settings
from autotune.study import Study
from autotune.study_view import DATABASE_NAME
from autotune.trial import (
    CellMeasurement,
    Configuration,
    EvaluationMeasurement,
    Figure,
    ProblemResult,
    TrialRecord,
    Verdict,
)
from autotune.tuner.interruption import Interruption
from autotune.tuner.limits import Limits
from autotune.tuner.meters import Meters
from autotune.tuner.night import Night, NightOutcome
from tests.deployment.fake import FakeDeployment
from tests.fake_clock import FakeClock
from tests.servers.fake import FakeDialect

STUDY = """
name = "imaginary"
[baseline]
budget = 16
topk = 4
window = "none"
[[try]]
budget = 0
[server]
ready_timeout_s = 40
[sampler]
name = "random"
[benchmark]
repeats = 1
[[benchmark.stages]]
name = "busy"
cells = [{ context = 128, concurrency = 32 }]
[[benchmark.stages]]
name = "single"
cells = [{ context = 128, concurrency = 1 }]
[evaluation]
problems = 4
"""
CELL_S = 5.0
EVALUATION_S = 4.0


def measurement(cell: CellSettings, speed: float, accept_length: float | None = 2.0) -> CellMeasurement:
    figure = Figure(speed, 8, speed * 0.98, speed * 1.02)
    return CellMeasurement(
        cell=cell.cell,
        requests=8,
        succeeded=8,
        output_tokens=800,
        prompt_tokens=800,
        cached_tokens=None,
        decode_tokens_per_s=figure,
        total_tokens_per_s=figure,
        ttft_s=None,
        tpot_s=None,
        accept_length=None if accept_length is None else Figure(accept_length, 8),
        per_prompt_log_speed={},
        duration_s=CELL_S,
    )


@dataclass
class Imagined:
    """One imaginary night; call it to run.

    Attributes:
        trouble: called before each cell with the configuration and the cell; may raise, kill the server or move time.
        speed: tokens/s by configuration and concurrency.
    """

    folder: Path
    found: Occupant = Occupant.NOBODY
    clock: FakeClock = field(default_factory=FakeClock)
    settings: StudySettings = field(default_factory=lambda: parse_settings(STUDY, "study.toml"))
    speed: Callable[[Configuration, int], float] = lambda configuration, c: (
        100.0 * c + float(str(configuration["budget"]))
    )
    trouble: Callable[[Configuration, CellSettings], None] = lambda _configuration, _cell: None
    accept_length: float | None = 2.0
    foreign: list[str | None] = field(default_factory=list)
    """What the cells to come see of others; then nothing."""
    drain: bool = False
    canaries: list[Figure | None] = field(default_factory=list)
    """What the canaries to come show; then nothing."""

    def __post_init__(self) -> None:
        self.space = search_space_of(self.settings)
        self.dialect = FakeDialect(self.clock, self.space)
        baseline = self.dialect.render_launch(self.space.resolve(self.settings.baseline))
        self.deployment = FakeDeployment(self.clock, baseline, found=self.found)
        self.dialect.deployment = self.deployment
        self.events: list[Event] = []
        self.measured: list[tuple[str, str]] = []
        self.observer: Callable[[Event], None] = self.events.append
        self.interruption = Interruption()

    def __call__(self, limits: Limits) -> NightOutcome:
        return self.conduct(limits, lambda night, _study: night.run())

    def confirm(self, leaders: Sequence[int], boots: int | None, limits: Limits = Limits(trials=0)) -> NightOutcome:  # noqa: B008  # frozen
        """Run a confirmation alone."""

        def confirm(night: Night, study: Study) -> NightOutcome:
            plan = find_asked(study.trials(), self.settings, leaders, boots)
            assert plan is not None
            return night.confirm(plan)

        return self.conduct(limits, confirm)

    def conduct(self, limits: Limits, conduct: Callable[[Night, Study], NightOutcome]) -> NightOutcome:
        self.folder.mkdir(exist_ok=True)
        if not (self.folder / DATABASE_NAME).exists():
            (self.folder / DATABASE_NAME).write_bytes(_empty_database())
        with Study.open(self.settings, self.folder, clock=self.clock) as study:
            night = Night(
                study,
                deployment=self.deployment,
                dialect=self.dialect,
                meters=self.meters(),
                limits=limits,
                observer=self.observer,
                clock=self.clock,
                interruption=self.interruption,
                drain=self.drain,
            )
            try:
                return conduct(night, study)
            finally:
                self.trials = study.trials()

    def meters(self) -> Meters:
        return Meters(self.open_benchmark, self.open_evaluation)

    def open_benchmark(self, configuration: Configuration, _records: Path) -> ImaginedBenchmark:
        return ImaginedBenchmark(self, configuration)

    def open_evaluation(self, _configuration: Configuration, _records: Path) -> ImaginedEvaluation:
        return ImaginedEvaluation(self)

    def states(self) -> list[tuple[str, str]]:
        return [(trial.kind.value, trial.state.value) for trial in self.trials]

    def trial_of(self, **values: object) -> TrialRecord:
        return next(trial for trial in self.trials if _holds(trial.configuration, values))

    def fail(self, error: AutotuneError, **values: object) -> Callable[[Configuration, CellSettings], None]:
        """Return a trouble that raises for configurations with these values."""

        def trouble(configuration: Configuration, _cell: CellSettings) -> None:
            if _holds(configuration, values):
                raise error

        return trouble


class ImaginedBenchmark:
    def __init__(self, imagined: Imagined, configuration: Configuration) -> None:
        self.imagined = imagined
        self.configuration = configuration

    def measure_canary(self) -> Figure | None:
        return self.imagined.canaries.pop(0) if self.imagined.canaries else None

    def measure_cell(self, cell: CellSettings) -> CellMeasurement:
        imagined = self.imagined
        imagined.measured.append((imagined.space.key(self.configuration), cell.cell.name))
        imagined.trouble(self.configuration, cell)
        imagined.clock.sleep(CELL_S)
        measured = measurement(cell, imagined.speed(self.configuration, cell.concurrency), imagined.accept_length)
        return replace(measured, foreign=imagined.foreign.pop(0) if imagined.foreign else None)


class ImaginedEvaluation:
    def __init__(self, imagined: Imagined) -> None:
        self.imagined = imagined

    def run(self) -> EvaluationMeasurement:
        self.imagined.clock.sleep(EVALUATION_S)
        results = tuple(ProblemResult(f"p{index}", Verdict.PASSED) for index in range(4))
        return EvaluationMeasurement(results, "set", Figure(1.0, 4, 0.5, 1.0), 100.0, None, EVALUATION_S)


@cache
def _empty_database() -> bytes:
    """The database of a study without trials: making its tables takes longer than a night."""
    with tempfile.TemporaryDirectory() as folder:
        Study.open(parse_settings(STUDY, "study.toml"), Path(folder)).close()
        return (Path(folder) / DATABASE_NAME).read_bytes()


def _holds(configuration: Configuration, values: Mapping[str, object]) -> bool:
    return all(configuration[name] == value for name, value in values.items())
