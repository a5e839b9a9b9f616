"""What the tuner asks of a host: what runs there, start this, stop it, is it alive, put everything back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum

from autotune.servers.base import LaunchSpec


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
    """

    occupant: Occupant
    pid: int | None = None
    command: tuple[str, ...] = ()
    launch: LaunchSpec | None = None


class Deployment(ABC):
    """One host with one server on it, driven strictly sequentially by one tuner.

    Use as a context manager: leaving it restores the host, whatever happened inside.
    """

    url: str
    """Base URL of the server, for example ``http://127.0.0.1:30110``."""

    @abstractmethod
    def observe(self) -> Observation:
        """Look at the host without changing anything."""

    @abstractmethod
    def start(self, launch: LaunchSpec) -> int:
        """Start the server and return its process id at once; readiness is somebody else's question.

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
        """Return the exit code of the server we started, or ``None`` while it lives."""

    @abstractmethod
    def read_log(self) -> tuple[str, ...]:
        """Return all log lines of this boot so far, oldest first; undecodable bytes are replaced."""

    @abstractmethod
    def restore(self) -> None:
        """Put the host back as it was found; does nothing when it already is.

        Raises:
            RestoreError: something is left to do by hand; the message says what.
        """
