"""One trial from its suggestion to its end: boot, stages, pruning, coding evaluation, and who is to blame for a failure.

A bad configuration is a result: refused arguments and memory that ran out decide the trial at once. Anything else is
unexplained: the trial is tried once more, and if it fails again the baseline is booted; what that shows is the caller's
business (:class:`Unexplained`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from autotune.deployment.base import Deployment
from autotune.drift import find_drifts
from autotune.errors import (
    AutotuneError,
    ConfigurationRejected,
    FlagsMismatch,
    HostError,
    LiveTrafficError,
    MeasurementError,
    OutOfMemory,
    ServerError,
)
from autotune.events import Activity
from autotune.export.provenance import hide_secrets_in
from autotune.pruning import decide
from autotune.replay.table import AcceptLengthTable
from autotune.servers.base import ServerDialect
from autotune.settings import CellSettings
from autotune.study import Study, Suggestion
from autotune.trial import (
    BootCondition,
    Cell,
    CellMeasurement,
    Configuration,
    EvaluationMeasurement,
    Figure,
    TrialKind,
    TrialRecord,
    TrialState,
)
from autotune.tuner.boot import Booter
from autotune.tuner.boot_watch import BootWatch
from autotune.tuner.interruption import Interruption

_ATTEMPTS = 2
_CELL_ATTEMPTS = 3
_REASON_LENGTH = 500


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


class Watch(Protocol):
    """Sees what a trial does, and may end it."""

    def on_activity(self, activity: Activity, stage: str | None = None, cell: Cell | None = None) -> None:
        """Take note of what is done next; called between any two steps of a trial, so it may raise to end the trial."""
        ...

    def time_left_s(self) -> float | None:
        """Return the seconds that a measurement may take; ``None`` for as long as it takes."""
        ...

    def on_cell(self, stage: str, measurement: CellMeasurement) -> None:
        """Take note of a cell that is on disk."""
        ...

    def on_note(self, sentence: str) -> None:
        """Take note of something else."""
        ...


class Unexplained(Exception):
    """A trial failed twice for no reason that its log explains; it is still open."""

    def __init__(self, error: AutotuneError) -> None:
        super().__init__(str(error))
        self.error = error


class TrialRun:
    """Runs one trial that the study has begun.

    Args:
        study: where everything is recorded.
        number: the trial.
        suggestion: what to boot.
        booter: brings it up.
        deployment: the host.
        dialect: the server's family.
        meters: who measures.
        watch: sees everything.
        interruption: lets signals end a measurement.
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
    ) -> None:
        self._study = study
        self._number = number
        self._suggestion = suggestion
        self._configuration = suggestion.configuration
        self._booter = booter
        self._deployment = deployment
        self._dialect = dialect
        self._meters = meters
        self._watch = watch
        self._interruption = interruption
        self._folder = study.directory / "trials" / f"{number:04d}"

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
                return self._attempt(attempt, known, may_reuse=may_reuse and attempt == 1)
            except (ConfigurationRejected, OutOfMemory, FlagsMismatch) as error:
                self._record_log(error)
                return self._study.mark_infeasible(self._number, say_briefly(error))
            except (ServerError, MeasurementError) as error:
                self._explain_silence(error)
                self._record_log(error)
                if attempt == _ATTEMPTS:
                    raise Unexplained(error) from error
                self._watch.on_note(f"unexplained, so it is tried once more: {say_briefly(error)}")
                known = set()
            except OSError as error:
                raise HostError(
                    f"{error.strerror or error}",
                    where=str(error.filename or self._folder),
                    hint="see to the disk and permissions, then run the same command again",
                ) from error
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
            self._check_alive(error)
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

    def _check_alive(self, symptom: MeasurementError | None = None) -> None:
        """See whether the server still runs.

        Raises:
            ServerError: it ended, as its log says; that is the cause of whatever was seen before.
        """
        exit_code = self._deployment.poll()
        if exit_code is not None:
            raise self._dialect.classify_failure(self._deployment.read_log(), exit_code) from symptom

    def _measure(self, suffix: str, known: set[Cell]) -> TrialRecord:
        """Measure every stage that is not known yet, then the coding evaluation, which a configuration has once."""
        settings = self._study.settings
        configuration = self._configuration
        benchmark = self._meters.open_benchmark(configuration, self._folder / f"requests{suffix}.jsonl")
        with BootWatch(self._deployment.sample_gpus) as gpus:
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
            self._check_alive()
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
            decision = decide(next(trial for trial in trials if trial.number == self._number), trials, settings)
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
        suspicion = self._dialect.find_suspicion(self._configuration, accept_length)
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
                self._check_alive()
            except MeasurementError as error:
                self._check_alive(error)
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
            where=self._deployment.url,
            hint="tune when nobody needs the server, or keep its users away; the same command goes on where this one ended",
        )

    def _explain_silence(self, error: AutotuneError) -> None:
        """Say why a server that failed had no last words, where its log is not to be had."""
        gap = self._deployment.log_gap
        if isinstance(error, ServerError) and not error.log_lines and gap is not None:
            error.message += f"; its log could not be read: {gap}"

    def _record_log(self, error: AutotuneError) -> None:
        """Keep the log lines that say why, with the trial."""
        lines = getattr(error, "log_lines", ())
        if lines:
            self._study.record_attributes(self._number, {"log_lines": [hide_secrets_in(line) for line in lines]})


def say_briefly(error: AutotuneError) -> str:
    """Return the message of an error, cut where a server's own words go on and on."""
    text = " ".join(f"{type(error).__name__}: {error.message}".split())
    return text if len(text) <= _REASON_LENGTH else f"{text[: _REASON_LENGTH - 1]}…"
