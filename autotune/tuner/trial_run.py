"""One trial from its suggestion to its end: boot, stages, pruning, coding evaluation, and who is to blame for a failure.

A bad configuration is a result: refused arguments and memory that ran out decide the trial at once. Anything else is
unexplained: the trial is tried once more, and if it fails again the baseline is booted; what that shows is the caller's
business (:class:`Unexplained`).
"""

from __future__ import annotations

from dataclasses import replace

from autotune.drift import find_drifts
from autotune.errors import (
    AutotuneError,
    ConfigurationRejected,
    FlagsMismatch,
    LiveTrafficError,
    MeasurementError,
    OutOfMemory,
    ServerError,
)
from autotune.events import Activity
from autotune.pruning import decide
from autotune.settings import CellSettings
from autotune.trial import (
    BootCondition,
    Cell,
    CellMeasurement,
    Configuration,
    Figure,
    TrialKind,
    TrialRecord,
    TrialState,
)
from autotune.tuner.begun_trial import BegunTrial, say_briefly
from autotune.tuner.boot_watch import BootWatch
from autotune.tuner.meters import CellMeter

_ATTEMPTS = 2
_CELL_ATTEMPTS = 3


class Unexplained(Exception):
    """A trial failed twice for no reason that its log explains; it is still open."""

    def __init__(self, error: AutotuneError) -> None:
        super().__init__(str(error))
        self.error = error


class TrialRun(BegunTrial):
    """Runs one trial that measures cells, and the coding evaluation where the configuration has none yet."""

    def run(self, *, may_reuse: bool) -> TrialRecord:
        """Run the trial to its end.

        Args:
            may_reuse: use a live or loading server that has this configuration as it is.

        Raises:
            Unexplained: it failed twice and nobody knows why; the trial is still open.
            HostError: the host is at fault; the trial is still open.
            EvaluationError: the coding evaluation cannot be trusted; the trial is still open.
        """
        for cell in self._suggestion.cells:
            note = f"measured in the boot of trial {self._suggestion.retries}"
            self._study.record_cell(self._number, replace(cell, notes=(*cell.notes, note)))
        known = {cell.cell for cell in self._suggestion.cells}
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                with self.blaming_the_disk():
                    return self._attempt(attempt, known, may_reuse=may_reuse and attempt == 1)
            except (ConfigurationRejected, OutOfMemory, FlagsMismatch) as error:
                self.record_log(error)
                return self._study.mark_infeasible(self._number, say_briefly(error))
            except (ServerError, MeasurementError) as error:
                self.explain_silence(error)
                self.record_log(error)
                if attempt == _ATTEMPTS:
                    raise Unexplained(error) from error
                self._watch.on_note(f"unexplained, so it is tried once more: {say_briefly(error)}")
                known = set()
        raise AssertionError("unreachable")

    def _attempt(self, attempt: int, known: set[Cell], *, may_reuse: bool) -> TrialRecord:
        """Boot and measure once."""
        suffix = "" if attempt == 1 else f"-{attempt}"
        self._folder.mkdir(parents=True, exist_ok=True)
        self._study.set_state(self._number, TrialState.DEPLOYING)
        try:
            booted = self._booter.bring_up(
                self._suggestion.configuration,
                self._folder / f"server{suffix}.log",
                may_reuse=may_reuse,
                may_differ=not self._suggestion.is_baseline,
            )
            self._study.record_boot(self._number, booted.record)
            self._configuration = booted.configuration
            measured = self._adopt(booted.configuration)
            if measured is not None:
                return measured
            self._study.set_state(self._number, TrialState.MEASURING)
            return self._measure(suffix, known)
        except MeasurementError as error:
            self.check_alive(error)
            raise

    def _adopt(self, effective: Configuration) -> TrialRecord | None:
        """Record the trial under what the server made of it; its end, when that was measured before."""
        space = self._study.space
        asked = self._suggestion.configuration
        if space.key(effective) == space.key(asked):
            return None
        self._watch.on_note(
            f"asked for {space.describe(asked)}, the server runs {space.describe(effective)}: recorded as that"
        )
        return self._study.record_effective(self._number, effective)

    def _measure(self, suffix: str, known: set[Cell]) -> TrialRecord:
        """Measure every stage that is not known yet, then the coding evaluation, which a configuration has once."""
        settings = self._study.settings
        configuration = self._configuration
        benchmark = self._meters.open_benchmark(configuration, self._folder / f"requests{suffix}.jsonl")
        with BootWatch(self._rig.deployment.sample_gpus) as gpus:
            canaries = self._hear_canary(benchmark, ())
            pruned = self._measure_stages(benchmark, known)
            if pruned is None:
                canaries = self._hear_canary(benchmark, canaries)
            self._study.record_condition(self._number, BootCondition(canaries, gpus.activity()))
        self._tell_drift()
        if pruned is not None:
            return self._study.prune(self._number, pruned)
        if settings.evaluation.enabled and self._suggestion.kind is not TrialKind.CONFIRMATION:
            self._watch.on_activity(Activity.EVALUATING)
            evaluator = self._meters.open_evaluation(configuration, self._folder / f"answers{suffix}.jsonl")
            with self._interruption.interruptible(self._watch.time_left_s()):
                evaluation = evaluator.run()
            self.check_alive()
            self._study.record_evaluation(self._number, evaluation)
        return self._study.complete(self._number)

    def _measure_stages(self, benchmark: CellMeter, known: set[Cell]) -> str | None:
        """Measure every stage that is not known yet; return why the trial is to be stopped, if it is."""
        settings = self._study.settings
        for stage in settings.benchmark.stages:
            for cell in stage.cells:
                if cell.cell not in known:
                    self._watch.on_activity(Activity.MEASURING, stage.name, cell.cell)
                    self._measure_cell(benchmark, stage.name, cell)
            trials = self._study.trials()
            mine = next(trial for trial in trials if trial.number == self._number)
            decision = decide(mine, trials, settings, self._study.space)
            if decision.prune:
                return f"after stage {stage.name}: {decision.reason}"
        return None

    def _hear_canary(self, benchmark: CellMeter, earlier: tuple[Figure, ...]) -> tuple[Figure, ...]:
        """Measure what the configuration cannot change, and put it on disk; where it cannot be had, cells will say why."""
        self._watch.on_activity(Activity.MEASURING)
        try:
            with self._interruption.interruptible(self._watch.time_left_s()):
                canary = benchmark.measure_canary()
        except MeasurementError:
            canary = None
        canaries = earlier if canary is None else (*earlier, canary)
        self._study.record_condition(self._number, BootCondition(canaries))
        return canaries

    def _tell_drift(self) -> None:
        """Say when this boot is seen to run on a machine that is not itself."""
        for sentence in find_drifts(self._study.trials()).get(self._number, ()):
            self._watch.on_note(f"this boot drifted: {sentence}")

    def _measure_cell(self, benchmark: CellMeter, stage: str, cell: CellSettings) -> None:
        """Measure one cell and put it on disk, unless the server died meanwhile."""
        measurement = self._measure_alone(benchmark, cell)
        accept_length = None if measurement.accept_length is None else measurement.accept_length.value
        suspicion = self._rig.dialect.find_suspicion(self._configuration, accept_length)
        if suspicion is not None:
            measurement = replace(measurement, notes=(*measurement.notes, suspicion))
            self._watch.on_note(suspicion)
        self._study.record_cell(self._number, measurement)
        self._watch.on_cell(stage, measurement)

    def _measure_alone(self, benchmark: CellMeter, cell: CellSettings) -> CellMeasurement:
        """Measure one cell; again when others used the server meanwhile, or once when its figures cannot be trusted.

        Raises:
            LiveTrafficError: others used it each time.
            MeasurementError: the figures cannot be trusted, while the server lives.
        """
        notes: tuple[str, ...] = ()
        failed: MeasurementError | None = None
        for _attempt in range(_CELL_ATTEMPTS):
            try:
                with self._interruption.interruptible(self._watch.time_left_s()):
                    measurement = benchmark.measure_cell(cell)
                self.check_alive()
            except MeasurementError as error:
                self.check_alive(error)
                if failed is not None:
                    raise
                failed = error  # another try costs a minute, another boot may cost a quarter of an hour
                why = f"its figures could not be trusted: {say_briefly(error)}"
            else:
                if measurement.foreign is None:
                    return replace(measurement, notes=(*measurement.notes, *notes))
                why = f"others used the server: {measurement.foreign}"
                self._booter.wait_for_quiet()
            note = f"measured again, because {why}"
            notes = (*notes, note)
            self._watch.on_note(f"{cell.cell.name} {note}")
        raise LiveTrafficError(
            f"others used the server in {_CELL_ATTEMPTS} measurements of {cell.cell.name}: {notes[-1]}",
            where=self._rig.deployment.url,
            hint="tune when nobody needs the server, or keep its users away; the same command goes on where this one ended",
        )
