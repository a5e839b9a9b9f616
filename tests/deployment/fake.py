"""A host without processes: what the real one does on demand never happens there, a crash after N seconds say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from autotune.clock import Clock
from autotune.deployment.base import Deployment, Observation, Occupant
from autotune.errors import HostError, PortTakenError, RestoreError
from autotune.servers.base import LaunchSpec


@dataclass(slots=True)
class Fate:
    """What becomes of the next server that is started.

    Attributes:
        ends_after_s: it ends by itself so long after its start; ``None`` for never.
        exit_code: with this code.
        log: seconds after the start -> line written.
    """

    ends_after_s: float | None = None
    exit_code: int = 1
    log: dict[float, str] = field(default_factory=dict)


class FakeDeployment(Deployment):
    """One imaginary host.

    Attributes:
        fates: of the servers to come, in order; later ones live for ever.
        starts: what was started, in order.
    """

    def __init__(self, clock: Clock, baseline: LaunchSpec, *, found: Occupant = Occupant.NOBODY) -> None:
        self.url = "http://fake"
        self.clock = clock
        self.baseline = baseline
        self.found = found
        self.occupant = found
        self.fates: list[Fate] = []
        self.starts: list[LaunchSpec] = []
        self.stops = 0
        self.restores = 0
        self.launch: LaunchSpec | None = baseline if found is Occupant.BASELINE else None
        self.environment: Mapping[str, str] = {}
        self.found_out: tuple[str, ...] = ()
        self._fate = Fate()
        self._started_s = -1000.0
        self._pid = 100

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.restore()

    @property
    def was_serving(self) -> bool:
        return self.found is Occupant.BASELINE

    @property
    def alive_s(self) -> float:
        """Seconds since the server in use was started."""
        return self.clock.monotonic() - self._started_s

    def observe(self) -> Observation:
        if self.occupant is Occupant.OURS and self.poll() is not None:
            return Observation(Occupant.NOBODY)
        if self.occupant is Occupant.NOBODY:
            return Observation(Occupant.NOBODY)
        launch = self.launch if self.occupant is not Occupant.FOREIGN else None
        return Observation(self.occupant, self._pid, ("server",), launch, is_listening=True)

    def start(self, launch: LaunchSpec, log_path: Path) -> int:  # noqa: ARG002  # no processes, no logs
        if self.occupant is Occupant.FOREIGN:
            raise PortTakenError("taken")
        if self.observe().occupant is not Occupant.NOBODY:
            raise HostError("a server already runs")
        self.starts.append(launch)
        self.occupant, self.launch = Occupant.OURS, launch
        self._fate = self.fates.pop(0) if self.fates else Fate()
        self._started_s = self.clock.monotonic()
        self._pid += 1
        return self._pid

    def stop(self) -> None:
        if self.occupant is Occupant.FOREIGN:
            raise PortTakenError("taken")
        self.stops += self.occupant is not Occupant.NOBODY
        self.occupant, self.launch = Occupant.NOBODY, None

    def poll(self) -> int | None:
        if self.occupant is Occupant.NOBODY:
            return -1
        end = self._fate.ends_after_s
        return None if end is None or self.clock.monotonic() - self._started_s < end else self._fate.exit_code

    def read_log(self) -> tuple[str, ...]:
        since = self.clock.monotonic() - self._started_s
        return tuple(line for at, line in sorted(self._fate.log.items()) if at <= since)

    def read_environment(self) -> Mapping[str, str]:
        return self.environment

    @property
    def findings(self) -> tuple[str, ...]:
        return self.found_out

    def verify(self, launch: LaunchSpec) -> tuple[str, ...]:
        return () if self.launch == launch else ("another command runs",)

    def restore(self, check: Callable[[], None] | None = None) -> None:
        if self.occupant is Occupant.FOREIGN and self.found is not Occupant.FOREIGN:
            raise RestoreError("taken")
        if self.occupant is not self.found:
            self.restores += 1
            self._fate = Fate()
            self._started_s = self.clock.monotonic()
            self.occupant = self.found
            self.launch = self.baseline if self.found is Occupant.BASELINE else None
            if check is not None and self.found is Occupant.BASELINE:
                check()
