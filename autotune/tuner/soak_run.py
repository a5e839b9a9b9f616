"""The soak: load a confirmed leader at C=32 for long, because some servers die only after thousands of sampled steps.

Its only result is whether the server lived, answered and kept its speed; none of its figures is a speed of the study.
"""

from __future__ import annotations

from typing import Final

from autotune.confirmation.soak import find_sinking
from autotune.errors import MeasurementError, ServerError
from autotune.events import Activity
from autotune.settings import BenchmarkSettings, CellSettings, StudySettings
from autotune.study import Suggestion
from autotune.trial import TrialRecord, TrialState
from autotune.tuner.begun_trial import BegunTrial, Rig, say_briefly

_CONCURRENCY: Final = 32

_TEMPERATURE, _TOP_P = 1.0, 0.95
"""Of a soak where the study is greedy: some kernels fail only while they sample."""


class SoakRun(BegunTrial):
    """Runs the soak of one leader."""

    def __init__(self, rig: Rig, number: int, suggestion: Suggestion) -> None:
        super().__init__(rig, number, suggestion)
        self._clock = rig.clock
        self._passes = 0

    def run(self) -> TrialRecord:
        """Run the soak to its end; there is no second try, because a server that dies once is not recommended.

        Raises:
            HostError: the host is at fault; the trial is still open.
        """
        started_s = self._clock.monotonic()
        try:
            with self.blaming_the_disk():
                self._boot()
                started_s = self._clock.monotonic()
                return self._load(started_s)
        except ServerError as error:
            self.explain_silence(error)
            self.record_log(error)
            return self._study.mark_infeasible(self._number, f"{self._say_when(started_s)} {say_briefly(error)}")
        except MeasurementError as error:
            return self._study.fail(self._number, f"{self._say_when(started_s)} {say_briefly(error)}")

    def _boot(self) -> None:
        """Bring the leader up, or use the server of its last boot as it is."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._study.set_state(self._number, TrialState.DEPLOYING)
        booted = self._booter.bring_up(self._configuration, self._folder / "server.log", may_reuse=True)
        self._study.record_boot(self._number, booted.record)
        self._study.set_state(self._number, TrialState.MEASURING)

    def _load(self, started_s: float) -> TrialRecord:
        """Measure one cell again and again until the time is over; each pass is on disk."""
        settings = self._study.settings
        open_meter = self._meters.open_soak or self._meters.open_benchmark
        benchmark = open_meter(self._configuration, self._folder / "requests.jsonl")
        stage, cell = find_cell(settings)
        speeds: list[float] = []
        while not speeds or self._clock.monotonic() - started_s < settings.soak_s:
            self._watch.on_activity(Activity.SOAKING)
            try:
                with self._interruption.interruptible(self._watch.time_left_s()):
                    measurement = benchmark.measure_cell(cell)
            except MeasurementError as error:
                self.check_alive(error)
                raise
            self.check_alive()
            self._study.record_cell(self._number, measurement)
            self._watch.on_cell(stage, measurement)
            speeds.append(measurement.decode_tokens_per_s.value)
            self._passes += 1
        loaded_s = self._clock.monotonic() - started_s
        sinking = find_sinking(speeds)
        if sinking is not None:
            return self._study.mark_infeasible(self._number, f"{sinking} ({loaded_s:.0f} s at C={_CONCURRENCY})")
        return self._study.complete_soak(
            self._number, f"it survived {loaded_s:.0f} s of load at C={_CONCURRENCY}, {self._passes} passes"
        )

    def _say_when(self, started_s: float) -> str:
        if not self._passes:
            return "before the first pass of its soak was over:"
        return f"after {self._clock.monotonic() - started_s:.0f} s of load at C={_CONCURRENCY}:"


def for_soak(benchmark: BenchmarkSettings) -> BenchmarkSettings:
    """Return what a soak sends: as the study samples, or sampled where the study is greedy; one round a pass."""
    sampling = benchmark.sampling
    if sampling.temperature == 0:
        sampling = sampling.model_copy(update={"temperature": _TEMPERATURE, "top_p": _TOP_P})
    return benchmark.model_copy(update={"sampling": sampling, "max_rounds": 1})


def find_cell(settings: StudySettings) -> tuple[str, CellSettings]:
    """Return the first cell of the study at C=32, and the name of its stage."""
    return next(
        (stage.name, cell)
        for stage in settings.benchmark.stages
        for cell in stage.cells
        if cell.concurrency == _CONCURRENCY
    )
