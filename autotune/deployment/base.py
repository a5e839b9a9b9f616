"""What the tuner asks of a host: what runs there, start this, stop it, is it alive, put everything back."""

from __future__ import annotations

import os
import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Self

from autotune.deployment.gpu_activity import GpuSample
from autotune.draft_hook import FOLDER, LIMIT_BYTES, PATH_VARIABLE
from autotune.errors import PortTakenError
from autotune.servers.base import DraftLogPlace, LaunchSpec


class Occupant(Enum):
    """Who has the server's port."""

    NOBODY = "nobody"
    """The port is free."""
    OURS = "ours"
    """A server that this study started."""
    BASELINE = "baseline"
    """The server that the study names as its baseline, running before we came."""
    FOREIGN = "foreign"
    """Somebody else; never stopped."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What was found on the host.

    Attributes:
        occupant: who has the port.
        pid: the process that listens, or the one that is still loading; ``None`` when there is none.
        command: its argument vector; empty when unknown.
        launch: what it was started with, where that is known; lets a wanted configuration be used as it runs.
        is_listening: False while the server is still loading.
        differences: why a foreign process is not the baseline, one sentence each.
    """

    occupant: Occupant
    pid: int | None = None
    command: tuple[str, ...] = ()
    launch: LaunchSpec | None = None
    is_listening: bool = False
    differences: tuple[str, ...] = ()


def explain_foreign(observation: Observation, url: str) -> PortTakenError:
    """Say who has the port and why it is left alone."""
    who = "a process" if observation.pid is None else f"process {observation.pid}"
    command = f" ({shlex.join(observation.command)})" if observation.command else ""
    why = "; ".join(observation.differences) or "it is not the study's server"
    return PortTakenError(
        f"{who}{command} listens there and is left alone: {why}",
        where=url,
        hint="stop it yourself, choose another server.port, or make [baseline] and server.command describe it",
    )


class Deployment(ABC):
    """One host with one server on it, driven strictly sequentially by one tuner.

    Use as a context manager: entering takes the host for this tuner and ends what a dead tuner left running, leaving
    restores the host, whatever happened inside.
    """

    url: str
    """Base URL of the server, for example ``http://127.0.0.1:30110``."""

    @abstractmethod
    def __enter__(self) -> Self:
        """Take the host.

        Raises:
            HostBusyError: another tuner has it.
            HostError: what an earlier tuner left behind cannot be read or ended.
        """

    @abstractmethod
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Restore the host if that was not done yet, and give it back.

        Raises:
            RestoreError: as :meth:`restore`.
        """

    @property
    def findings(self) -> tuple[str, ...]:
        """What entering found and did about it, one sentence each: a tuner that died, a host that started anew."""
        return ()

    @property
    @abstractmethod
    def was_serving(self) -> bool:
        """True when a server ran before us, so that it must run again afterwards."""

    @abstractmethod
    def observe(self) -> Observation:
        """Look at the host without changing anything."""

    @abstractmethod
    def start(self, launch: LaunchSpec, log_path: Path) -> int:
        """Start the server and return its process id at once; readiness is somebody else's question.

        Args:
            launch: what to start.
            log_path: file of this boot that receives the server's output.

        Raises:
            PortTakenError: a foreign process has the port.
            HostError: the process could not be started at all.
        """

    @abstractmethod
    def stop(self) -> None:
        """Stop the server we started, or the baseline found; returns when it is gone and the port is free.

        Raises:
            PortTakenError: the port belongs to a foreign process.
            HostError: it could not be stopped.
        """

    @abstractmethod
    def poll(self) -> int | None:
        """Return the exit code of the server in use, or ``None`` while it lives.

        The code is -1 when it cannot be known, because the server was not started by this object.

        Raises:
            ServerDisturbed: another server runs in its place, which neither it nor we have started.
        """

    @abstractmethod
    def read_log(self) -> tuple[str, ...]:
        """Return all log lines of this boot so far, oldest first; undecodable bytes are replaced.

        Empty for a server that was found running: its earlier lines belong to no boot of ours.
        """

    @abstractmethod
    def read_environment(self) -> Mapping[str, str]:
        """Return the variables that the server in use was started with; empty when there is none."""

    @property
    def log_gap(self) -> str | None:
        """Why the server's log cannot be read, or not all of it; ``None`` when it can."""
        return None

    def sample_gpus(self) -> tuple[GpuSample, ...]:
        """Look at the GPUs of the host now; empty where there is none, or no tool to ask. From any thread.

        Raises:
            HostError: the host cannot be asked.
        """
        return ()

    def find_draft_log(self, path: Path) -> DraftLogPlace:
        """Return where the server can log its drafts; nothing is changed by looking.

        Args:
            path: file on this machine that is to have the log in the end.

        Raises:
            UnitUnsupportedError: it cannot; the message says why, in a sentence.
            HostError: the host cannot be asked.
        """
        return DraftLogPlace(str(path), str(FOLDER), os.environ.get(PATH_VARIABLE, ""), LIMIT_BYTES)

    def fetch_draft_log(self, path: Path) -> int:
        """Bring to this machine what the server in use has logged since; a server of this machine writes there itself.

        Args:
            path: as it was given to :meth:`find_draft_log`; what is new is appended.

        Returns:
            Bytes that lie there now.

        Raises:
            MeasurementError: the log cannot be had.
            HostError: the host cannot be asked.
        """
        return path.stat().st_size if path.exists() else 0

    @abstractmethod
    def verify(self, launch: LaunchSpec) -> tuple[str, ...]:
        """Say in which respects the process in use is not what a launch starts; empty when it is.

        Asked when the server is ready: the process measured has to be the process started.
        """

    @abstractmethod
    def restore(self, check: Callable[[], None] | None = None) -> None:
        """Put the host back as it was found; does nothing when it already is.

        Args:
            check: called when a server was started again, and raises when it does not serve; until it has returned,
                the host counts as not restored and a later call tries again.

        Raises:
            RestoreError: something is left to do by hand; the message says what.
        """
