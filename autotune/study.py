"""What has this study tried, and what comes next? The only module that moves a trial from one state to another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from autotune.search_space import SearchSpace
from autotune.settings import StudySettings
from autotune.trial import (
    BootRecord,
    CellMeasurement,
    Configuration,
    EvaluationMeasurement,
    TrialKind,
    TrialRecord,
    TrialState,
)


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A configuration to boot next.

    Attributes:
        configuration: canonical form.
        kind: who asked for it.
        retries: number of the interrupted trial that this one takes up; ``None`` for a first attempt.
        cells: finished cells of that interrupted trial, measured in its boot.
    """

    configuration: Configuration
    kind: TrialKind
    retries: int | None = None
    cells: tuple[CellMeasurement, ...] = ()


@dataclass(frozen=True, slots=True)
class StudyView:
    """A study as another process reads it: no lock, no writing.

    Attributes:
        settings: as stored when the study was made; ``storage`` is never stored.
        space: its search space.
        trials: by number.
    """

    settings: StudySettings
    space: SearchSpace
    trials: tuple[TrialRecord, ...]

    @property
    def baseline(self) -> TrialRecord | None: ...

    @property
    def counted(self) -> int: ...


def load_study(directory: Path, *, storage: str | None = None, name: str | None = None) -> StudyView:
    """Read a study without a lock; safe while its tuner runs.

    Raises:
        StudyMismatchError: there is no study here.
    """
    raise NotImplementedError


class Study:
    """One study on disk, held by one process. Use as a context manager: leaving it releases the lock.

    Attributes:
        settings: what decides what is measured.
        space: the search space.
        directory: where the database and everything else the study makes lives.
    """

    settings: StudySettings
    space: SearchSpace
    directory: Path

    @classmethod
    def open(cls, settings: StudySettings, directory: Path, *, create: bool = True) -> Self:
        """Open or make the study; open trials of a killed run become INTERRUPTED.

        ``settings.try_`` and purely operational settings may differ from the stored ones.

        Raises:
            HostBusyError: another process holds this study.
            StudyMismatchError: the stored study differs, or there is none and ``create`` is false.
            SearchSpaceError: the search space, the baseline or a listed configuration is wrong.
        """
        raise NotImplementedError

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def close(self) -> None:
        """Release the lock; open trials stay open and become INTERRUPTED at the next :meth:`open`."""

    def trials(self) -> tuple[TrialRecord, ...]:
        """All trials by number, duplicates and interrupted ones included."""
        raise NotImplementedError

    def trial(self, number: int) -> TrialRecord:
        """One trial."""
        raise NotImplementedError

    def baseline(self) -> TrialRecord | None:
        """The baseline, all its complete boots pooled cell by cell; ``None`` until one is complete."""
        raise NotImplementedError

    def counted(self) -> int:
        """Trials that used up one of ``--trials``."""
        raise NotImplementedError

    def suggest_baseline(self) -> Suggestion:
        """The configuration found on the host, as a trial that is never counted."""
        raise NotImplementedError

    def next_suggestion(self, *, listed_only: bool = False) -> Suggestion | None:
        """What to boot next: interrupted again, then listed, then proposed by the sampler.

        Proposals that were measured before are recorded as DUPLICATE on the way.

        Args:
            listed_only: never ask the sampler (``--trials 0``).

        Returns:
            ``None`` when nothing is left: every configuration was measured, or no listed one is left.
        """
        raise NotImplementedError

    def begin(self, suggestion: Suggestion, attributes: Mapping[str, object] | None = None) -> int:
        """Store the trial as SUGGESTED and return its number; sampling, seeds and versions are stored with it."""
        raise NotImplementedError

    def set_state(self, number: int, state: TrialState) -> None:
        """Move an open trial to DEPLOYING or MEASURING."""
        raise NotImplementedError

    def record_boot(self, number: int, boot: BootRecord) -> None:
        """Store the proof of what is running."""
        raise NotImplementedError

    def record_cell(self, number: int, cell: CellMeasurement) -> None:
        """Store one finished cell, at once.

        Raises:
            ImpossibleMetric: a figure is infinite, not a number or negative; nothing is stored.
        """
        raise NotImplementedError

    def record_evaluation(self, number: int, evaluation: EvaluationMeasurement) -> None:
        """Store the coding evaluation, at once.

        Raises:
            ImpossibleMetric: as :meth:`record_cell`.
            ProblemSetChanged: earlier trials answered other problems.
        """
        raise NotImplementedError

    def record_attributes(self, number: int, attributes: Mapping[str, object]) -> None:
        """Store anything else with an open trial."""
        raise NotImplementedError

    def complete(self, number: int) -> TrialRecord:
        """End a trial whose stages were all measured: COMPLETE, or INFEASIBLE when it misses a constraint.

        Objectives and constraints are computed here from the stored cells, evaluation and the baseline.

        Raises:
            ImpossibleMetric: an objective is unknown or impossible; the trial stays open: call :meth:`fail`.
        """
        raise NotImplementedError

    def prune(self, number: int, reason: str) -> TrialRecord:
        """End a trial that cannot reach the front any more; its cells are kept."""
        raise NotImplementedError

    def mark_infeasible(self, number: int, reason: str) -> TrialRecord:
        """End a trial whose configuration cannot work; it is never booted again."""
        raise NotImplementedError

    def fail(self, number: int, reason: str) -> TrialRecord:
        """End a trial that says nothing about its configuration."""
        raise NotImplementedError

    def interrupt(self, number: int, reason: str) -> TrialRecord:
        """End a trial that was stopped from outside; its configuration comes first next time."""
        raise NotImplementedError
