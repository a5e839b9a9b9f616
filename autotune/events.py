"""What the trial loop tells whoever watches it: frozen records in the order in which things happen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from autotune.trial import Cell, CellMeasurement, Configuration, TrialKind, TrialRecord


class Activity(Enum):
    """What the loop is doing; each value is the word that a display shows."""

    OBSERVING = "looking at the host"
    """Nothing is changed."""
    ASKING = "choosing a configuration"
    """The sampler is at work."""
    STOPPING = "stopping the server"
    """SIGTERM was sent, or the port is being waited for."""
    STARTING = "starting the server"
    """The process is being created."""
    LOADING = "waiting for the server"
    """The process lives; no checked generation yet."""
    VERIFYING = "reading the effective flags"
    """The server is ready; what it runs is compared with what was asked."""
    MEASURING = "measuring"
    """A cell is being measured."""
    PROFILING = "logging drafts"
    """Answers are generated for the log of their drafts; nothing is timed."""
    SOAKING = "loading it for long"
    """A confirmed leader has to survive many steps."""
    EVALUATING = "answering coding problems"
    """The coding evaluation runs."""
    RESTORING = "restoring the host"
    """What was found is being put back."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the study is and how long it will take; ``None`` is "cannot tell yet".

    Attributes:
        counted: trials of the study that used up one of ``--trials``, those of earlier commands too.
        limit: ``--trials``; ``None`` when only time limits the command.
        elapsed_s: since the command started.
        trial_left_s: until the current trial ends, learned from earlier trials.
        study_left_s: until the host is restored, learned from earlier trials.
    """

    counted: int
    limit: int | None
    elapsed_s: float
    trial_left_s: float | None = None
    study_left_s: float | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """Something happened.

    Attributes:
        progress: where the study stands at this moment.
    """

    progress: Progress


@dataclass(frozen=True, slots=True)
class StudyStarted(Event):
    """The study is open and the host was looked at.

    Attributes:
        study: its name.
        folder: where its files are.
        url: the server to tune.
        baseline: the configuration that serves before and after.
        found: one sentence about what was found on the host.
        earlier: trials that the study already had.
    """

    study: str
    folder: str
    url: str
    baseline: Configuration
    found: str
    earlier: int


@dataclass(frozen=True, slots=True)
class TrialStarted(Event):
    """A trial begins; it ends with exactly one :class:`TrialEnded`.

    Attributes:
        number: the trial's number.
        kind: why it is booted.
        configuration: in canonical form.
    """

    number: int
    kind: TrialKind
    configuration: Configuration


@dataclass(frozen=True, slots=True)
class PhaseChanged(Event):
    """The loop does something else now.

    Attributes:
        activity: what.
        number: the trial it belongs to; ``None`` outside trials.
        stage: name of the stage while measuring.
        cell: the cell while measuring.
    """

    activity: Activity
    number: int | None = None
    stage: str | None = None
    cell: Cell | None = None


@dataclass(frozen=True, slots=True)
class Waiting(Event):
    """Still waiting in the same activity.

    Attributes:
        number: the trial it belongs to; ``None`` outside trials.
        answer: what the server said last; untrusted text.
        waited_s: since the wait began.
    """

    number: int | None
    answer: str
    waited_s: float


@dataclass(frozen=True, slots=True)
class Counted(Event):
    """One more of something that is counted in the same activity.

    Attributes:
        number: the trial it belongs to; ``None`` outside trials.
        what: what is counted, in the plural.
        done: how many there are.
        of: how many there will be.
    """

    number: int | None
    what: str
    done: int
    of: int


@dataclass(frozen=True, slots=True)
class CellMeasured(Event):
    """A cell is finished and on disk.

    Attributes:
        number: the trial.
        stage: name of its stage.
        measurement: what was measured.
    """

    number: int
    stage: str
    measurement: CellMeasurement


@dataclass(frozen=True, slots=True)
class TrialEnded(Event):
    """A trial reached a final state, also one answered from history without a boot.

    Attributes:
        trial: the whole record, with its state and reason.
    """

    trial: TrialRecord


@dataclass(frozen=True, slots=True)
class FrontChanged(Event):
    """The Pareto front is another one now.

    Attributes:
        front: its trials, fastest at C=1 first.
    """

    front: tuple[TrialRecord, ...]


@dataclass(frozen=True, slots=True)
class Noted(Event):
    """Something the user should know that changes no state: a retry, a drift, a limit that was reached.

    Attributes:
        sentence: what.
        number: the trial it belongs to; ``None`` outside trials.
    """

    sentence: str
    number: int | None = None


@dataclass(frozen=True, slots=True)
class StudyEnded(Event):
    """The command is over and the host was restored, or could not be.

    Attributes:
        reason: one sentence: why it ended.
        front: the Pareto front, fastest at C=1 first.
        restored: one sentence about the host as it was left.
    """

    reason: str
    front: tuple[TrialRecord, ...]
    restored: str


Observer = Callable[[Event], None]
"""Receives every event on the loop's own thread; must return quickly and must not raise."""
