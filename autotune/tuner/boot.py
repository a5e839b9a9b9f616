"""Bring one configuration up and prove that it is what runs: reuse or stop and start, wait, read the flags back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from autotune.clock import Clock
from autotune.deployment.base import Deployment, Occupant, explain_foreign
from autotune.deployment.readiness import wait_until_ready
from autotune.errors import FlagsMismatch, HostError, LiveTrafficError
from autotune.events import Activity
from autotune.servers.base import LaunchSpec, ServerDialect
from autotune.settings import ServerSettings
from autotune.trial import BootRecord, Configuration
from autotune.tuner.interruption import Interruption

_QUIET_PATIENCE_S = 600.0
_QUIET_PAUSE_S = 2.0


@dataclass(frozen=True, slots=True)
class Booted:
    """What was brought up.

    Attributes:
        configuration: that the server runs, by the flags it reports; what was asked for, or what it made of that.
        record: the proof.
    """

    configuration: Configuration
    record: BootRecord


class Booter:
    """Boots configurations on one host.

    Args:
        deployment: the host.
        dialect: the server's family.
        settings: time limits of the server's phases.
        clock: what is waited by.
        interruption: lets signals end the wait, never a stop or a start.
        on_activity: told what is done next.
        on_wait: told the server's last answer and the seconds waited; may raise to give up.
        on_note: told what the user should know.
        drain: stop a server although requests of others are in flight; it finishes them first.
    """

    def __init__(
        self,
        deployment: Deployment,
        dialect: ServerDialect,
        settings: ServerSettings,
        clock: Clock,
        interruption: Interruption,
        on_activity: Callable[[Activity], None],
        on_wait: Callable[[str, float], None],
        on_note: Callable[[str], None],
        *,
        drain: bool = False,
    ) -> None:
        self._deployment = deployment
        self._dialect = dialect
        self._settings = settings
        self._clock = clock
        self._interruption = interruption
        self._on_activity = on_activity
        self._on_wait = on_wait
        self._on_note = on_note
        self._drain = drain
        self._is_blindness_told = False

    def bring_up(
        self,
        configuration: Configuration,
        log_path: Path,
        *,
        may_reuse: bool,
        may_differ: bool = False,
        launch: LaunchSpec | None = None,
    ) -> Booted:
        """Make the host serve a configuration and return the proof.

        Args:
            configuration: in canonical form.
            log_path: file of this boot for the server's output.
            may_reuse: use a live or loading server that has this configuration as it is.
            may_differ: take a server that was started as asked and has changed its flags to those of another
                configuration of the search space.
            launch: how the configuration is started, where that is not the usual way.

        Raises:
            ServerError: the configuration does not come up, or something else runs.
            HostError: the host is at fault.
        """
        launch = launch or self._dialect.render_launch(configuration)
        self._on_activity(Activity.OBSERVING)
        observation = self._deployment.observe()
        if observation.occupant is Occupant.FOREIGN:
            raise explain_foreign(observation, self._deployment.url)
        reused = may_reuse and observation.launch == launch and self._deployment.poll() is None
        stopped_after_s = None
        if not reused:
            if observation.occupant is not Occupant.NOBODY:
                self._on_activity(Activity.STOPPING)
                if observation.is_listening:
                    self._look_for_users()
                before = self._clock.monotonic()
                self._deployment.stop()
                stopped_after_s = self._clock.monotonic() - before
            else:
                self._deployment.stop()
            self._on_activity(Activity.STARTING)
            self._deployment.start(launch, log_path)
        self._on_activity(Activity.LOADING)
        with self._interruption.interruptible():
            ready_after_s = self.wait()
        self._on_activity(Activity.VERIFYING)
        differences = self._deployment.verify(launch)
        effective = self._dialect.fetch_effective_flags(self._deployment.url, self._deployment.read_environment())
        mismatches = (*differences, *self._dialect.find_mismatches(configuration, effective))
        found: Configuration | None = configuration
        if mismatches:
            found = self._dialect.find_configuration(effective) if may_differ and not differences else None
        if found is None:
            # A server that was exchanged meanwhile, by the host itself after a sleep of ours, says nothing of this trial.
            if (exit_code := self._deployment.poll()) is not None:
                raise self._dialect.classify_failure(self._deployment.read_log(), exit_code)
            raise FlagsMismatch(
                f"the server runs something else: {'; '.join(mismatches)}",
                where=self._deployment.url,
                hint="its figures would belong to no configuration of this study",
                log_lines=self._deployment.read_log()[-20:],
            )
        running = self._deployment.observe()
        if running.pid is None:
            if (exit_code := self._deployment.poll()) is not None:
                raise self._dialect.classify_failure(self._deployment.read_log(), exit_code)
            raise HostError("the server has no process that can be found", where=self._deployment.url)
        version = effective.get("version")
        record = BootRecord(
            pid=running.pid,
            command=running.command,
            environment={
                name: value
                for name, value in launch.environment.items()
                if value is not None and name not in self._settings.environment  # secrets may be among those
            },
            effective_flags=effective,
            ready_after_s=None if reused else ready_after_s,
            reused=reused,
            version=None if version is None else str(version),
            stopped_after_s=stopped_after_s,
            free_memory_gb=self._dialect.find_free_memory(self._deployment.read_log()),
        )
        return Booted(found, record)

    def wait_for_quiet(self) -> None:
        """Wait until the server works on no request of others, at most ten minutes; unknown counts as quiet."""
        started = self._clock.monotonic()
        while self._dialect.count_requests(self._deployment.url):
            waited_s = self._clock.monotonic() - started
            if waited_s >= _QUIET_PATIENCE_S:
                return
            self._on_wait("others use the server", waited_s)
            with self._interruption.interruptible():
                self._clock.sleep(_QUIET_PAUSE_S)

    def _look_for_users(self) -> None:
        """See whether a server that is to be stopped works for somebody.

        Raises:
            LiveTrafficError: it does, and the user did not say that it may be stopped all the same.
        """
        count = self._dialect.count_requests(self._deployment.url)
        if count is None and not self._is_blindness_told:
            self._is_blindness_told = True
            self._on_note("the server does not say what it works on (--enable-metrics), so live users cannot be seen")
        if count and not self._drain:
            raise LiveTrafficError(
                f"the server works on {count} {'request' if count == 1 else 'requests'} of others, so it is not stopped",
                where=self._deployment.url,
                hint="wait until they are done, or add --drain: they are finished first, new ones are refused meanwhile",
            )

    def wait(self) -> float:
        """Wait until the server in use is ready; return the seconds this took.

        Raises:
            ServerError: as :func:`wait_until_ready`.
        """
        return wait_until_ready(
            self._dialect,
            self._deployment,
            ready_timeout_s=self._settings.ready_timeout_s,
            stall_timeout_s=self._settings.stall_timeout_s,
            clock=self._clock,
            on_wait=self._on_wait,
        )
