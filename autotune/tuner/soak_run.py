"""The soak: load a confirmed leader at C=32 for long, because some servers die only after thousands of sampled steps.

Its only result is whether the server lived, answered and kept its speed; none of its figures is a speed of the study.
"""

from __future__ import annotations

from typing import Final

from autotune.clock import Clock
from autotune.confirmation.soak import find_sinking
from autotune.deployment.base import Deployment
from autotune.errors import HostError, MeasurementError, ServerError
from autotune.events import Activity
from autotune.servers.base import ServerDialect
from autotune.settings import BenchmarkSettings, CellSettings, StudySettings
from autotune.study import Study, Suggestion
from autotune.trial import TrialRecord, TrialState
from autotune.tuner.boot import Booter
from autotune.tuner.interruption import Interruption
from autotune.tuner.trial_run import Meters, Watch, say_briefly

_CONCURRENCY: Final = 32

_TEMPERATURE, _TOP_P = 1.0, 0.95
"""Of a soak where the study is greedy: some kernels fail only while they sample."""


class SoakRun:
    """Runs the soak of one leader.

    Args:
        study: where everything is recorded.
        number: the trial, begun.
        suggestion: what is loaded.
        booter: brings the server up, or finds it up.
        deployment: the host.
        dialect: the server's family.
        meters: who sends requests.
        watch: sees everything.
        interruption: lets signals end a measurement.
        clock: where times come from.
    """

    def __init__(
        self,
        study: Study,
        number: int,
        suggestion: Suggestion,
        *,
        booter: Booter,
        deployment: Deployment,
        dialect: ServerDialect,
        meters: Meters,
        watch: Watch,
        interruption: Interruption,
        clock: Clock,
    ) -> None:
        self._study = study
        self._number = number
        self._configuration = suggestion.configuration
        self._booter = booter
        self._deployment = deployment
        self._dialect = dialect
        self._meters = meters
        self._watch = watch
        self._interruption = interruption
        self._clock = clock
        self._folder = study.directory / "trials" / f"{number:04d}"
        self._passes = 0

    def run(self) -> TrialRecord:
        """Run the soak to its end; there is no second try, because a server that dies once is not recommended.

        Raises:
            HostError: the host is at fault; the trial is still open.
        """
        started_s = self._clock.monotonic()
        try:
            self._boot()
            started_s = self._clock.monotonic()
            return self._load(started_s)
        except ServerError as error:
            return self._study.mark_infeasible(self._number, f"{self._say_when(started_s)} {say_briefly(error)}")
        except MeasurementError as error:
            return self._study.fail(self._number, f"{self._say_when(started_s)} {say_briefly(error)}")
        except OSError as error:
            raise HostError(
                f"{error.strerror or error}",
                where=str(error.filename or self._folder),
                hint="see to the disk and permissions, then run the same command again",
            ) from error

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
                self._check_alive(error)
                raise
            self._check_alive()
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

    def _check_alive(self, symptom: MeasurementError | None = None) -> None:
        """See whether the server still runs.

        Raises:
            ServerError: it ended, as its log says.
        """
        exit_code = self._deployment.poll()
        if exit_code is not None:
            raise self._dialect.classify_failure(self._deployment.read_log(), exit_code) from symptom

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
