"""An imaginary machine as the trial loop sees it: what runs there, start this, stop it, put the baseline back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from autotune.deployment.base import Deployment, Observation, Occupant
from autotune.errors import HostError
from autotune.servers.base import LaunchSpec
from autotune.simulation.dialect import SimulatedDialect
from autotune.simulation.host import SimulatedHost

URL: Final = "http://simulated"


class SimulatedDeployment(Deployment):
    """One machine on which the baseline serves before and after; no process, no file.

    Args:
        host: the machine.
        dialect: what launches mean.
        baseline: what serves before and after.
    """

    def __init__(self, host: SimulatedHost, dialect: SimulatedDialect, baseline: LaunchSpec) -> None:
        self.url = URL
        self._host = host
        self._dialect = dialect
        self._baseline = baseline
        self._launch: LaunchSpec | None = baseline
        self._occupant = Occupant.BASELINE

    def __enter__(self) -> Self:
        """Take the machine; what a command that was killed has left is put back first."""
        if self._host.configuration != self._dialect.configuration_of(self._baseline) or not self._host.is_ready:
            self._occupant = Occupant.OURS
            self.restore()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Put the baseline back."""
        self.restore()

    @property
    def was_serving(self) -> bool:
        """The baseline ran before."""
        return True

    def observe(self) -> Observation:
        """Look at the machine."""
        pid = self._host.pid
        if pid is None:
            return Observation(Occupant.NOBODY)
        command = () if self._launch is None else self._launch.command
        return Observation(self._occupant, pid, command, self._launch, is_listening=self._host.is_ready)

    def start(self, launch: LaunchSpec, log_path: Path) -> int:  # noqa: ARG002  # the log is kept in memory
        """Start a server.

        Raises:
            HostError: one runs already.
        """
        if self._host.pid is not None:
            raise HostError("a server runs already", where=self.url)
        self._launch, self._occupant = launch, Occupant.OURS
        return self._host.start(self._dialect.configuration_of(launch))

    def stop(self) -> None:
        """Stop the server."""
        self._host.stop()
        self._launch, self._occupant = None, Occupant.NOBODY

    def poll(self) -> int | None:
        """Return the exit code of the server, or ``None`` while it lives.

        Raises:
            ConnectionLostError: the machine cannot be reached.
        """
        self._host.check_connection()
        return self._host.exit_code

    def read_log(self) -> tuple[str, ...]:
        """Return the lines of this boot; empty for the baseline that was found or put back."""
        return self._host.log if self._occupant is Occupant.OURS else ()

    def read_environment(self) -> Mapping[str, str]:
        """Return nothing: all parameters are flags."""
        return {}

    def verify(self, launch: LaunchSpec) -> tuple[str, ...]:
        """Say so when something else runs."""
        return () if self._launch == launch else ("another command runs",)

    def restore(self, check: Callable[[], None] | None = None) -> None:
        """Let the baseline serve again."""
        if self._occupant is Occupant.BASELINE:
            return
        self.stop()
        self._host.start_baseline()
        self._launch, self._occupant = self._baseline, Occupant.BASELINE
        if check is not None:
            check()
