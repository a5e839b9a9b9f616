"""A service that is restarted on purpose: does it come up, does it serve, and is it what was meant to run?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Final

from autotune.apply.wanted import tuned_values
from autotune.clock import Clock
from autotune.deployment.base import Observation, Occupant
from autotune.deployment.data_path import DataPath
from autotune.deployment.dependants import find_dependants, start_dependants
from autotune.deployment.host import Host
from autotune.deployment.host_files import Runner
from autotune.deployment.journal import InvocationJournal
from autotune.deployment.readiness import wait_until_ready
from autotune.deployment.unit import UnitState
from autotune.deployment.unit_process import list_cgroup_pids, read_process
from autotune.deployment.unit_reader import read_state
from autotune.errors import FlagsMismatch, HostError, LiveTrafficError, MeasurementError, SystemdError
from autotune.search_space import Rendering
from autotune.servers.base import Phase, ServerDialect
from autotune.settings import ServerSettings
from autotune.trial import Configuration, ParameterValue

_STOP_MARGIN_S: Final = 30.0
_LOOK_AGAIN_S: Final = 0.3
_LIVE_STATES: Final = frozenset({"active", "activating", "reloading"})


@dataclass
class Service:
    """One unit on one host, restarted and watched.

    Attributes:
        host: where it is.
        run_as_root: who runs the commands that change something.
        unit: its name.
        way: leads to its server.
        dialect: how its server is asked.
        settings: time limits of the server's phases.
        clock: what is waited by.
        interruptible: lets a signal end a wait at once.
        on_wait: told the server's last answer and the seconds waited.
        timeout_stop_s: the unit's own limit for stopping; ``None`` when it has none.
    """

    host: Host
    run_as_root: Runner
    unit: str
    way: DataPath
    dialect: ServerDialect
    settings: ServerSettings
    clock: Clock
    interruptible: Callable[[], AbstractContextManager[None]]
    on_wait: Callable[[str, float], None] = lambda _answer, _waited_s: None
    timeout_stop_s: float | None = None
    _invocation_id: str = field(default="", init=False)
    _journal: InvocationJournal | None = field(default=None, init=False)
    _log: list[str] = field(default_factory=list, init=False)

    @property
    def url(self) -> str:
        """Base URL of its server."""
        return self.way.url

    def read_state(self) -> UnitState:
        """Return how it stands right now."""
        return read_state(self.host, self.unit)

    def reload(self) -> None:
        """Let systemd read all unit files again."""
        self._systemctl("daemon-reload", timeout_s=120.0)

    def look_for_users(self, *, drain: bool) -> str | None:
        """See whether the server works for somebody before it is restarted; return what the user should know.

        Raises:
            LiveTrafficError: it does, and the user did not say that it may be restarted all the same.
        """
        count = self.dialect.count_requests(self.url)
        if count is None:
            return "the server does not say what it works on, so live users cannot be seen"
        if not count:
            return None
        requests = f"{count} {'request' if count == 1 else 'requests'} of others"
        if drain:
            return f"{requests} in flight: the server finishes them as far as its unit gives it time"
        raise LiveTrafficError(
            f"the server works on {requests}, so it is not restarted",
            where=self.url,
            hint="wait until they are answered, or say --drain",
        )

    def restart(self) -> None:
        """Restart it and return when the new start has begun.

        One command for both halves, so that nothing that happens to us can leave the service stopped.

        Raises:
            SystemdError: no new start comes.
        """
        before = self.read_state().invocation_id
        self.run_as_root(("systemctl", "reset-failed", "--", self.unit), is_idempotent=True)  # its start limit
        self._systemctl("restart", "--no-block", "--", self.unit)
        self._wait_for_start(before)

    def start(self) -> None:
        """Start it and return when the start has begun; see :meth:`restart`."""
        before = self.read_state().invocation_id
        self.run_as_root(("systemctl", "reset-failed", "--", self.unit), is_idempotent=True)
        self._systemctl("start", "--no-block", "--", self.unit)
        self._wait_for_start(before)

    def replace(self) -> None:
        """Stop whatever runs, also one that systemd restarts over and over, then start it; as :meth:`restart`."""
        self.stop()
        self.start()

    def find_dependants(self) -> tuple[str, ...]:
        """Return the units that run and go down with the service."""
        return find_dependants(self.host, self.unit)

    def start_dependants(self, names: tuple[str, ...]) -> None:
        """Start those of the units that ran before and went down with the service."""
        start_dependants(self.host, self.run_as_root, names, is_service_up=self.read_state().is_up)

    def stop(self) -> None:
        """Stop it and return when nothing of it runs.

        Raises:
            SystemdError: it does not stop.
        """
        self._systemctl("stop", "--no-block", "--", self.unit)
        self._wait_for(lambda state: state.active_state in {"inactive", "failed"}, "did not stop")

    def _wait_for_start(self, before: str) -> None:
        state = self._wait_for(lambda state: state.invocation_id not in {before, ""}, "was not started again")
        self._invocation_id = state.invocation_id
        self._journal = InvocationJournal(self.host, state.invocation_id)
        self._log = []

    def _wait_for(self, is_reached: Callable[[UnitState], bool], complaint: str) -> UnitState:
        """Wait for a state that depends on how long the old process takes to end."""
        patience_s = max(self.timeout_stop_s or 0.0, self.settings.stop_timeout_s) + _STOP_MARGIN_S
        deadline = self.clock.monotonic() + patience_s
        while not is_reached(state := self.read_state()):
            if self.clock.monotonic() > deadline:
                raise SystemdError(
                    f"{self.unit} is {state.active_state} ({state.sub_state}) and {complaint} within {patience_s:.0f} s",
                    where=self.host.name,
                    hint=f"see `systemctl status {self.unit}` and `systemctl list-jobs` there",
                )
            with self.interruptible():
                self.clock.sleep(_LOOK_AGAIN_S)
        return state

    def wait_until_serving(self) -> float:
        """Wait for a checked generation of the start that is watched; return the seconds this took.

        Raises:
            ServerError: it ended, restarts over and over, or did not become ready in time.
            PortTakenError: another process answered in its place.
        """
        self.way.ensure()
        with self.interruptible():
            return wait_until_ready(
                self.dialect,
                self,
                ready_timeout_s=self.settings.ready_timeout_s,
                stall_timeout_s=self.settings.stall_timeout_s,
                clock=self.clock,
                on_wait=self.on_wait,
            )

    def is_serving(self) -> bool:
        """Whether it generates right now; asked once."""
        return self.dialect.probe(self.url).phase is Phase.READY

    def poll(self) -> int | None:
        """Return the exit code of the start that is watched, -1 when unknown, or ``None`` while it lives.

        A restart by systemd itself is an end, however live the unit looks (``is-active`` says active in a crash loop).
        """
        state = self.read_state()
        lives = (
            state.active_state in _LIVE_STATES
            and state.sub_state != "auto-restart"
            and state.restarts == 0
            and state.invocation_id == self._invocation_id
        )
        if lives:
            return None
        if self._journal is not None:
            self._journal.sync()
        # The code is that of the last end, so it is the one of our start unless another has ended since.
        is_ours = state.invocation_id == self._invocation_id and state.exit_code is not None
        return state.exit_code if is_ours else -1

    def read_log(self) -> tuple[str, ...]:
        """Return all log lines of the start that is watched, of all its processes; empty when none is."""
        if self._journal is not None:
            self._log += self._journal.read_new()
        return tuple(self._log)

    def observe(self) -> Observation:
        """Return who serves: the unit's main process, as far as systemd knows it."""
        pid = self.read_state().main_pid
        return Observation(Occupant.NOBODY if pid is None else Occupant.OURS, pid)

    def fetch_reported(self) -> Mapping[str, ParameterValue]:
        """Return the effective flags of the server that runs."""
        pid = self.read_state().main_pid
        return self.dialect.fetch_effective_flags(self.url, {} if pid is None else self._read_environment(pid))

    def find_differences(
        self, configuration: Configuration, rendering: Rendering, tuned: Mapping[str, bool]
    ) -> tuple[str, ...]:
        """Say in which respects the process that serves is not the configuration; empty when it is.

        Its own report, its command line and its variables are all asked.

        Raises:
            HostError: it has no process.
        """
        state = self.read_state()
        pid = state.main_pid
        if pid is None:
            raise HostError(f"{self.unit} has no main process", where=self.host.name, hint="see `systemctl status`")
        environment = self._read_environment(pid)
        found = list(
            self.dialect.find_mismatches(configuration, self.dialect.fetch_effective_flags(self.url, environment))
        )
        wanted = tuned_values(rendering.arguments, tuned)
        commands = [self._read_command(number) for number in (pid, *list_cgroup_pids(self.host, state.control_group))]
        if all(tuned_values(command, tuned) != wanted for command in commands[: None if wanted else 1]):
            found.append(f"no process of {self.unit} has the wanted flags on its command line")
        found += [
            f"variable {name} of process {pid} is {'set' if value is None else 'not as wanted'}"
            for name, value in rendering.environment.items()
            if environment.get(name) != value
        ]
        return tuple(found)

    def check_configuration(
        self, configuration: Configuration, rendering: Rendering, tuned: Mapping[str, bool]
    ) -> None:
        """Refuse a server that runs something else.

        Raises:
            FlagsMismatch: it does.
        """
        if found := self.find_differences(configuration, rendering, tuned):
            raise FlagsMismatch(
                f"the server runs something else: {'; '.join(found)}",
                where=self.url,
                hint="see whether a script, an environment file or the server itself overrides the flags",
                log_lines=self.read_log()[-20:],
            )

    def try_fetch_reported(self) -> Mapping[str, ParameterValue]:
        """Return the effective flags, or nothing when the server does not answer now or is none of this dialect."""
        try:
            return self.fetch_reported()
        except (MeasurementError, HostError):
            return {}

    def _read_environment(self, pid: int) -> Mapping[str, str]:
        process = read_process(self.host, pid)
        if process is None or process.environment is None:
            raise HostError(f"the variables of process {pid} cannot be read", where=self.host.name)
        return process.environment

    def _read_command(self, pid: int) -> tuple[str, ...]:
        process = read_process(self.host, pid)
        return () if process is None else process.command

    def _systemctl(self, *words: str, timeout_s: float = 60.0) -> None:
        command = ("systemctl", *words)
        output = self.run_as_root(command, timeout_s=timeout_s, is_idempotent=True)
        if output.exit_code != 0:
            raise SystemdError(
                f"`{' '.join(command)}` failed: {output.complaint}",
                where=self.host.name,
                hint=f"see `systemctl status {self.unit}` there",
            )
