"""When is a starting server ready? At its first checked generation; what ends the wait earlier is decided here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from autotune.clock import Clock
from autotune.deployment.base import Observation, Occupant
from autotune.errors import PortTakenError, ServerNeverReady
from autotune.servers.base import Phase, ServerDialect

TAIL_LINES = 20
_SHORTEST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 5.0
_PAUSE_SHARE = 0.05


class StartingServer(Protocol):
    """What is watched while it starts: a deployment, or a service that is restarted for good."""

    @property
    def url(self) -> str:
        """Its base URL."""

    def poll(self) -> int | None:
        """As :meth:`autotune.deployment.base.Deployment.poll`."""

    def read_log(self) -> tuple[str, ...]:
        """As :meth:`autotune.deployment.base.Deployment.read_log`."""

    def observe(self) -> Observation:
        """As :meth:`autotune.deployment.base.Deployment.observe`."""


def wait_until_ready(
    dialect: ServerDialect,
    deployment: StartingServer,
    *,
    ready_timeout_s: float,
    stall_timeout_s: float,
    clock: Clock,
    on_wait: Callable[[str, float], None] = lambda _answer, _waited_s: None,
) -> float:
    """Wait until the server has made a checked generation; return the seconds this took.

    Nobody listening, 503 and time-outs are all "not yet". Probes come at a bounded interval that grows with the time
    waited (a twentieth of it, 0.1 s to 5 s), so that a slow server is not buried in probes and a fast one loses little.

    Args:
        dialect: how the server is asked.
        deployment: the server that was started or found.
        ready_timeout_s: longest wait.
        stall_timeout_s: longest wait without a new log line or another phase; a server whose log we do not have, because
            it was found loading, is not judged by it.
        clock: what is waited by.
        on_wait: told the last answer and the seconds waited before each pause.

    Raises:
        ServerError: the process ended or wrote a fatal line: at once, as the dialect classifies its log.
        ServerNeverReady: a deadline passed; with the last answer and the end of the log.
        PortTakenError: another process answered in the server's place.
    """
    started = clock.monotonic()
    progressed = started
    before: tuple[Phase, int] | None = None
    while True:
        exit_code = deployment.poll()
        log = deployment.read_log()
        if exit_code is not None or dialect.find_fatal_line(log) is not None:
            raise dialect.classify_failure(log, exit_code)
        probe = dialect.probe(deployment.url)
        now = clock.monotonic()
        waited_s = now - started
        if probe.phase is Phase.READY:
            _check_owner(deployment)
            return waited_s
        seen = (probe.phase, len(log))
        if seen != before:
            before, progressed = seen, now
        stalled_s = now - progressed if log else 0.0
        if waited_s >= ready_timeout_s or stalled_s >= stall_timeout_s:
            why = f"no progress for {stalled_s:.0f} s" if stalled_s >= stall_timeout_s else "the deadline passed"
            raise ServerNeverReady(
                f"not ready after {waited_s:.0f} s, {why}; the last answer was: {probe.answer}",
                where=deployment.url,
                hint="see the end of its log; raise server.ready_timeout_s or server.stall_timeout_s if it is only slow",
                log_lines=log[-TAIL_LINES:],
            )
        on_wait(probe.answer, waited_s)
        pause_s = min(max(_PAUSE_SHARE * waited_s, _SHORTEST_PAUSE_S), _LONGEST_PAUSE_S)
        clock.sleep(max(min(pause_s, ready_timeout_s - waited_s, stall_timeout_s - stalled_s), 0.01))


def _check_owner(deployment: StartingServer) -> None:
    """Refuse a generation that came from another process than the one in use."""
    observation = deployment.observe()
    if observation.occupant is Occupant.FOREIGN:
        raise PortTakenError(
            f"process {observation.pid} ({' '.join(observation.command)}) answered in place of the server",
            where=deployment.url,
            hint="stop it, or choose another server.port",
        )
