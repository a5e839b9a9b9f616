"""What has this study tried, and what comes next? The only module that moves a trial from one state to another.

Each finished cell, boot and evaluation is on disk before the call that records it returns.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from autotune import __version__
from autotune.baseline import pool_baseline
from autotune.clock import Clock, SystemClock
from autotune.errors import ImpossibleMetric, ProblemSetChanged, SettingsError, StudyMismatchError, UserError
from autotune.objectives import (
    CONSTRAINT_NAMES,
    OBJECTIVE_NAMES,
    check_cell,
    check_condition,
    check_evaluation,
    check_objectives,
    judge,
    score,
    told_values,
)
from autotune.pareto import Point
from autotune.sampling.base import Sampler
from autotune.sampling.choice import make_sampler
from autotune.sampling.stock import distributions_of
from autotune.search_space import SearchSpace, search_space_of
from autotune.settings import StudySettings
from autotune.settings_difference import dump_settings, find_differences, load_settings_dump
from autotune.storage import TrialStore, sqlite_url
from autotune.study_lock import StudyLock
from autotune.study_view import DATABASE_NAME, StudyView, load_study, missing_study, study_reference
from autotune.suggestion import ASKED, Suggestion, find_next, find_profile, measured_as
from autotune.trial import (
    BootCondition,
    BootRecord,
    CellMeasurement,
    Configuration,
    EvaluationMeasurement,
    TrialKind,
    TrialRecord,
    TrialState,
)
from autotune.trial_attributes import EXTRA_PREFIX, cell_key, dump_record
from autotune.trial_ledger import TrialLedger

__all__ = ["Study", "StudyView", "Suggestion", "load_study"]

_ENDED_EARLIER: Final = "the tuner ended while this trial was open"


class Study:
    """One study on disk, held by one process. Use as a context manager: leaving it releases the lock.

    Attributes:
        settings: what decides what is measured.
        space: the search space.
        directory: where the database and everything else the study makes lives.
    """

    def __init__(
        self, settings: StudySettings, space: SearchSpace, directory: Path, store: TrialStore, lock: StudyLock
    ) -> None:
        self.settings: Final = settings
        self.space: Final = space
        self.directory: Final = directory
        self._store = store
        self._ledger = TrialLedger(store)
        self._lock = lock
        self._clock: Clock = SystemClock()
        self._sampler: Sampler = make_sampler(settings.sampler)
        self._exhaustion: str | None = None
        self._started: dict[int, float] = {}

    @classmethod
    def open(
        cls,
        settings: StudySettings,
        directory: Path,
        *,
        create: bool = True,
        clock: Clock | None = None,
        sampler: Sampler | None = None,
    ) -> Self:
        """Open or make the study; open trials of a killed run become INTERRUPTED.

        Args:
            settings: the study file; ``settings.try_`` and purely operational settings may differ from the stored ones.
            directory: made when it does not exist.
            create: make the study when there is none.
            clock: where times come from.
            sampler: who proposes configurations; default: the one that the settings name.

        Raises:
            HostBusyError: another process holds this study.
            StudyMismatchError: the stored study differs, another one is there, or there is none and ``create`` is false.
            SearchSpaceError: the search space, the baseline or a listed configuration is wrong.
            SettingsError: the storage cannot be opened.
            UserError: the folder cannot be made or written.
        """
        space = search_space_of(settings)
        for values in (settings.baseline, *settings.try_):
            space.resolve(values)
        is_there = settings.storage is not None or (directory / DATABASE_NAME).is_file()
        if not create and not (directory.is_dir() and is_there):
            raise missing_study(directory)
        with ExitStack() as undo:
            lock = _lock_folder(directory)
            undo.callback(lock.release)
            store = _open_store(settings, directory, create=create)
            undo.callback(store.close)
            study = cls(settings, space, directory, store, lock)
            study._clock = clock or study._clock
            study._sampler = sampler or study._sampler
            study._match_settings()
            study._close_open_trials()
            undo.pop_all()
        return study

    def __enter__(self) -> Self:
        """Return the study."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release the lock."""
        self.close()

    def close(self) -> None:
        """Release the lock; open trials stay open and become INTERRUPTED at the next :meth:`open`."""
        self._store.close()
        self._lock.release()

    def _match_settings(self) -> None:
        """Refuse a study that was made with other settings, else store the present ones."""
        where = str(self.directory)
        stored = self._store.read("settings")
        if stored is not None:
            differences = list(find_differences(load_settings_dump(stored, where), self.settings))
            if self._store.read("search_space") != self.space.fingerprint:
                differences.append(
                    f"the search space {self.space.name!r} has other configurations or flags than before"
                )
            if differences:
                raise StudyMismatchError(
                    "\n  ".join((f"the study {self.settings.name!r} was made with other settings:", *differences)),
                    where=where,
                    hint="put them back to go on, or give the study another name",
                )
        self._store.write("search_space", self.space.fingerprint)
        self._store.write("settings", dump_settings(self.settings))

    def _close_open_trials(self) -> None:
        """End what a killed run left open: as it had decided, where it had, else as INTERRUPTED."""
        for trial in self._ledger.untold():
            if trial.state.is_final:
                self._tell(trial)
            else:
                self._end(trial.number, TrialState.INTERRUPTED, _ENDED_EARLIER)

    def view(self) -> StudyView:
        """Return the study as a reader sees it now."""
        reference = self._store.read("reference")
        return StudyView(
            self.settings, self.space, self._ledger.records(), None if reference is None else tuple(reference)
        )

    def trials(self) -> tuple[TrialRecord, ...]:
        """Return all trials by number, duplicates and interrupted ones included."""
        return self._ledger.records()

    def trial(self, number: int) -> TrialRecord:
        """Return one trial."""
        return self._ledger.record(number)

    def baseline(self) -> TrialRecord | None:
        """Return the baseline, all its complete boots pooled cell by cell; ``None`` until one is complete."""
        return pool_baseline(self._ledger.records(), self.settings)

    def counted(self) -> int:
        """Return how many trials used up one of ``--trials``."""
        return self.view().counted

    def reference(self) -> Point | None:
        """Return the stored reference of the hypervolume; ``None`` until the first arms are measured."""
        return self.view().reference

    def suggest_baseline(self) -> Suggestion:
        """Return the configuration found on the host, as a trial that is never counted."""
        trials = [trial for trial in self.trials() if trial.kind is TrialKind.BASELINE]
        configuration = self.space.resolve(self.settings.baseline)
        if trials and trials[-1].state is TrialState.INTERRUPTED:
            return Suggestion(configuration, TrialKind.BASELINE, trials[-1].number, trials[-1].cells)
        return Suggestion(configuration, TrialKind.BASELINE)

    def suggest_profile(self) -> Suggestion | None:
        """Return the configuration whose drafts are worth logging; ``None`` when nothing is to be profiled (any more)."""
        return find_profile(self.trials(), self.settings, self.space)

    def next_suggestion(self, *, listed_only: bool = False) -> Suggestion | None:
        """Return what to boot next: interrupted again, then listed, then proposed by the sampler.

        Asks and proposals that were measured before are recorded as DUPLICATE on the way.

        Args:
            listed_only: never ask the sampler (``--trials 0``).

        Returns:
            ``None`` when nothing is left: every configuration was measured, no listed one is left, or nothing is left to
            win (:attr:`exhaustion`).
        """
        answer = find_next(self.trials(), self.settings, self.space, self._sampler, listed_only=listed_only)
        self._exhaustion = answer.exhaustion
        for suggestion, known in answer.duplicates:
            self._record_duplicate(suggestion, known)
        return answer.suggestion

    @property
    def exhaustion(self) -> str | None:
        """Why nothing was left to win when it was last asked what comes next; ``None`` while something was."""
        return self._exhaustion

    def _record_duplicate(self, suggestion: Suggestion, known: TrialRecord) -> None:
        number = self.begin(suggestion)
        name = "the baseline" if known.kind is TrialKind.BASELINE else f"trial {known.number}"
        self._end(
            number,
            TrialState.DUPLICATE,
            f"the same configuration as {name} ({known.state.value})",
            {f"{EXTRA_PREFIX}duplicate_of": known.number},
        )

    def begin(self, suggestion: Suggestion, attributes: Mapping[str, object] | None = None) -> int:
        """Store the trial as SUGGESTED and return its number; sampling, seeds and versions are stored with it."""
        extra: dict[str, object] = {
            "sampling": self.settings.benchmark.sampling.model_dump(mode="json"),
            "evaluation_sampling": self.settings.evaluation.sampling.model_dump(mode="json"),
            "mix": dict(self.settings.benchmark.mix),
            "seed": self.settings.seed,
            "sampler": self.settings.sampler.name,
            "search_space": self.space.fingerprint,
            "arm": self.space.arm(suggestion.configuration),
            "autotune_version": __version__,
            "retries": suggestion.retries,
            **(attributes or {}),
        }
        return self._ledger.add(
            suggestion.configuration,
            distributions_of(self.space),
            {
                "state": TrialState.SUGGESTED.value,
                "kind": suggestion.kind.value,
                "configuration": _as_pairs(suggestion.configuration),
                **({} if suggestion.confirmation is None else {"confirmation": dump_record(suggestion.confirmation)}),
                **{f"{EXTRA_PREFIX}{name}": value for name, value in extra.items() if value is not None},
            },
        )

    def set_state(self, number: int, state: TrialState) -> None:
        """Move an open trial to DEPLOYING or MEASURING.

        Raises:
            ValueError: the trial is not open, or the state is not one of these.
        """
        if state.is_final or state is TrialState.SUGGESTED:
            raise ValueError(f"{state.value} is not a state to move an open trial to")
        attributes = {"state": state.value}
        if number not in self._started:
            self._started[number] = self._clock.monotonic()
            attributes["started_at"] = self._clock.now().isoformat(timespec="seconds")
        self._ledger.write(number, attributes)

    def record_boot(self, number: int, boot: BootRecord) -> None:
        """Store the proof of what is running."""
        self._ledger.write(number, {"boot": dump_record(boot)})

    def record_effective(self, number: int, effective: Configuration) -> TrialRecord | None:
        """Record an open trial under the configuration that the server has made of what was asked for.

        What was asked for is kept with it and is answered from history from now on.

        Returns:
            The trial, ended as DUPLICATE, when the effective configuration was measured before; else ``None``.
        """
        trial = self.trial(number)
        known = measured_as(effective, self.trials(), self.space)
        self._ledger.write(
            number,
            {
                f"{EXTRA_PREFIX}{ASKED}": _as_pairs(trial.configuration),
                f"{EXTRA_PREFIX}arm": self.space.arm(effective),
                "configuration": _as_pairs(effective),
            },
        )
        if known is None:
            return None
        name = "the baseline" if known.kind is TrialKind.BASELINE else f"trial {known.number}"
        return self._end(
            number,
            TrialState.DUPLICATE,
            f"the server runs it as {self.space.describe(effective)}, which {name} has measured",
            {f"{EXTRA_PREFIX}duplicate_of": known.number},
        )

    def record_condition(self, number: int, condition: BootCondition) -> None:
        """Store in which condition the machine was; a later call replaces what an earlier one stored.

        Raises:
            ImpossibleMetric: as :meth:`record_cell`.
        """
        check_condition(condition)
        self._ledger.write(number, {"condition": dump_record(condition)})

    def record_cell(self, number: int, cell: CellMeasurement) -> None:
        """Store one finished cell, at once.

        Raises:
            ImpossibleMetric: a figure is infinite, not a number or negative; nothing is stored.
        """
        check_cell(cell)
        self._ledger.write(number, {cell_key(len(self.trial(number).cells)): dump_record(cell)})

    def record_evaluation(self, number: int, evaluation: EvaluationMeasurement) -> None:
        """Store the coding evaluation, at once.

        Raises:
            ImpossibleMetric: as :meth:`record_cell`.
            ProblemSetChanged: earlier trials answered other problems.
        """
        check_evaluation(evaluation)
        before = self._store.read("problem_set")
        if before is not None and before != evaluation.problem_set:
            raise ProblemSetChanged(
                f"trial {number} answered the problem set {evaluation.problem_set}, earlier trials {before}",
                where=str(self.directory),
                hint="put the problems back, or give the study another name",
            )
        self._ledger.write(number, {"evaluation": dump_record(evaluation)})
        if before is None:
            self._store.write("problem_set", evaluation.problem_set)

    def record_attributes(self, number: int, attributes: Mapping[str, object]) -> None:
        """Store anything else with an open trial; values are JSON."""
        self._ledger.write(number, {f"{EXTRA_PREFIX}{name}": value for name, value in attributes.items()})

    def complete(self, number: int) -> TrialRecord:
        """End a trial whose stages were all measured: COMPLETE, or INFEASIBLE when it misses a constraint.

        Objectives and constraints are computed here from the stored cells, evaluation and the baseline. A boot of a
        confirmation misses none: all of them together are judged.

        Raises:
            ImpossibleMetric: an objective is unknown or not finite; the trial stays open: call :meth:`fail`.
        """
        trial = self.trial(number)
        is_judged_alone = trial.kind not in (TrialKind.BASELINE, TrialKind.CONFIRMATION)
        judgement = judge(trial, self.baseline() if is_judged_alone else None, self.settings)
        known = judgement.objectives
        is_evaluated = self.settings.evaluation.enabled and trial.kind is not TrialKind.CONFIRMATION
        for name in OBJECTIVE_NAMES if is_evaluated else OBJECTIVE_NAMES[:2]:
            if getattr(known, name) is None:
                raise ImpossibleMetric(
                    f"{name} is unknown although the trial ended", where=f"trial {number}", hint="a stage was left out"
                )
        check_objectives(known, f"trial {number}")
        state = TrialState.COMPLETE if judgement.violation is None else TrialState.INFEASIBLE
        return self._end(number, state, judgement.violation)

    def complete_profile(self, number: int) -> TrialRecord:
        """End a profile whose accept lengths are stored; it has no objectives."""
        return self._end(number, TrialState.COMPLETE, None)

    def complete_soak(self, number: int, reason: str) -> TrialRecord:
        """End a soak that was survived; it has no objectives."""
        return self._end(number, TrialState.COMPLETE, reason)

    def prune(self, number: int, reason: str) -> TrialRecord:
        """End a trial that cannot reach the front any more; its cells are kept."""
        return self._end(number, TrialState.PRUNED, reason)

    def mark_infeasible(self, number: int, reason: str) -> TrialRecord:
        """End a trial whose configuration cannot work; it is never booted again."""
        return self._end(number, TrialState.INFEASIBLE, reason)

    def fail(self, number: int, reason: str) -> TrialRecord:
        """End a trial that says nothing about its configuration."""
        return self._end(number, TrialState.FAILED, reason)

    def interrupt(self, number: int, reason: str) -> TrialRecord:
        """End a trial that was stopped from outside; its configuration comes first next time."""
        return self._end(number, TrialState.INTERRUPTED, reason)

    def _end(
        self, number: int, state: TrialState, reason: str | None, extra: Mapping[str, object] | None = None
    ) -> TrialRecord:
        """Write the end of a trial, its state last, and tell Optuna."""
        open_trial = self.trial(number)
        objectives = score(open_trial.cells, open_trial.evaluation, self.settings)
        started = self._started.pop(number, None)
        attributes: dict[str, object] = {
            "objectives": dump_record(objectives),
            "reason": reason,
            "ended_at": self._clock.now().isoformat(timespec="seconds"),
            "duration_s": None if started is None else round(self._clock.monotonic() - started, 3),
            **(extra or {}),
        }
        known = {name: value for name, value in attributes.items() if value is not None}
        self._ledger.write(number, {**known, "state": state.value})
        trial = self.trial(number)
        self._tell(trial)
        self._store_reference()
        return trial

    def _tell(self, trial: TrialRecord) -> None:
        """Tell Optuna the end of a trial whose own state is final."""
        baseline = None if trial.kind is TrialKind.BASELINE else self.baseline()
        constraints: dict[str, float] | None = None
        values: list[float] | None = None
        if (
            trial.state in (TrialState.COMPLETE, TrialState.INFEASIBLE)
            and trial.kind is not TrialKind.PROFILE
            and not trial.is_soak
        ):
            judgement = judge(trial, baseline, self.settings)
            # Not known is neither met nor missed: 0 is the border and counts as met.
            constraints = {name: judgement.constraints[name] or 0.0 for name in CONSTRAINT_NAMES}
            if trial.state is TrialState.INFEASIBLE and judgement.violation is None:
                constraints["launch"] = 1.0
            values = told_values(trial, baseline, self.settings)
        self._ledger.finish(trial.number, trial.state, values, constraints)

    def _store_reference(self) -> None:
        """Fix the reference of the hypervolume once the first arms are measured; it never moves again."""
        if self._store.read("reference") is not None:
            return
        reference = study_reference(self.trials(), self.settings, self.space)
        if reference is not None:
            self._store.write("reference", list(reference))


def _as_pairs(configuration: Configuration) -> list[list[object]]:
    """Write a configuration as a list of pairs, which keeps its order everywhere."""
    return [[name, value] for name, value in configuration.items()]


def _lock_folder(directory: Path) -> StudyLock:
    """Make the study's folder, closed to others because commands and logs of a server may hold secrets, and lock it.

    Raises:
        HostBusyError: another process holds it.
        UserError: the folder cannot be made or written.
    """
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        database = directory / DATABASE_NAME
        if database.exists() and not os.access(database, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(database))
        return StudyLock(directory)
    except OSError as error:
        raise UserError(
            f"the study's folder cannot be used: {error.strerror or error}",
            where=str(error.filename or directory),
            hint="name a folder that can be written with --study-directory",
        ) from error


def _open_store(settings: StudySettings, directory: Path, *, create: bool) -> TrialStore:
    """Open the study's storage, by default the SQLite file of its folder."""
    names = OBJECTIVE_NAMES if settings.evaluation.enabled else OBJECTIVE_NAMES[:2]
    url = settings.storage or sqlite_url(directory / DATABASE_NAME)
    try:
        store = TrialStore.open(
            url,
            settings.name,
            objectives=names if create else None,
            alone_in=directory if settings.storage is None else None,
        )
    except SettingsError as error:
        if settings.storage is not None:
            raise
        raise UserError(
            error.message,
            where=str(directory / DATABASE_NAME),
            hint="name a folder that can be written with --study-directory",
        ) from error
    if store is None:
        raise missing_study(directory)
    return store
