"""What do all kinds of trials share once the study has begun them: what they work with, and what is done when something fails?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from autotune.clock import Clock
from autotune.deployment.base import Deployment
from autotune.errors import AutotuneError, HostError, MeasurementError, ServerError
from autotune.events import Activity
from autotune.export.provenance import hide_secrets_in
from autotune.servers.base import ServerDialect
from autotune.study import Study, Suggestion
from autotune.trial import Cell, CellMeasurement
from autotune.tuner.boot import Booter
from autotune.tuner.interruption import Interruption
from autotune.tuner.meters import Meters

_REASON_LENGTH = 500


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


@dataclass(frozen=True, slots=True)
class Rig:
    """What every trial of a night works with.

    Attributes:
        study: where everything is recorded.
        booter: brings a server up.
        deployment: the host.
        dialect: the server's family.
        meters: who measures.
        watch: sees everything.
        interruption: lets signals end a measurement.
        clock: where times come from.
    """

    study: Study
    booter: Booter
    deployment: Deployment
    dialect: ServerDialect
    meters: Meters
    watch: Watch
    interruption: Interruption
    clock: Clock


class BegunTrial:
    """A trial that the study has begun, of whatever kind.

    Args:
        rig: what it works with.
        number: the trial.
        suggestion: what to boot.
    """

    def __init__(self, rig: Rig, number: int, suggestion: Suggestion) -> None:
        self._rig = rig
        self._study = rig.study
        self._number = number
        self._suggestion = suggestion
        self._configuration = suggestion.configuration
        self._booter = rig.booter
        self._meters = rig.meters
        self._watch = rig.watch
        self._interruption = rig.interruption
        self._folder = rig.study.directory / "trials" / f"{number:04d}"

    @contextmanager
    def blaming_the_disk(self) -> Iterator[None]:
        """Turn what goes wrong with this machine's files into an error of the machine.

        Raises:
            HostError: something did.
        """
        try:
            yield
        except OSError as error:
            raise HostError(
                f"{error.strerror or error}",
                where=str(error.filename or self._folder),
                hint="see to the disk and permissions, then run the same command again",
            ) from error

    def check_alive(self, symptom: MeasurementError | None = None) -> None:
        """See whether the server still runs.

        Raises:
            ServerError: it ended, as its log says; that is the cause of whatever was seen before.
        """
        exit_code = self._rig.deployment.poll()
        if exit_code is not None:
            raise self._rig.dialect.classify_failure(self._rig.deployment.read_log(), exit_code) from symptom

    def explain_silence(self, error: AutotuneError) -> None:
        """Say why a server that failed had no last words, where its log is not to be had."""
        gap = self._rig.deployment.log_gap
        if isinstance(error, ServerError) and not error.log_lines and gap is not None:
            error.message += f"; its log could not be read: {gap}"

    def record_log(self, error: AutotuneError) -> None:
        """Keep the log lines that say why, with the trial."""
        lines = getattr(error, "log_lines", ())
        if lines:
            self._study.record_attributes(self._number, {"log_lines": [hide_secrets_in(line) for line in lines]})


def say_briefly(error: AutotuneError) -> str:
    """Return the message of an error, cut where a server's own words go on and on."""
    text = " ".join(f"{type(error).__name__}: {error.message}".split())
    return text if len(text) <= _REASON_LENGTH else f"{text[: _REASON_LENGTH - 1]}…"
