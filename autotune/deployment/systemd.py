"""The server as a systemd service: exchanged by one drop-in below ``/run``, watched, and put back as it was found.

Every change goes through a lease on the service's host. The order of the steps, and why a crash between any two of them
leaves something that both the host and the next command put back, is argued in ``docs/decisions/0042-lease-on-the-host.md``.
Long, because all steps share one record and one lease; what needs neither is in modules of its own, restoring should be.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from autotune.clock import Clock, SystemClock
from autotune.deployment.base import Deployment, Observation, Occupant, explain_foreign
from autotune.deployment.data_path import DataPath, open_data_path, render_url
from autotune.deployment.dependants import find_dependants, find_missing, start_dependants
from autotune.deployment.gpu_activity import GpuSample, GpuTool
from autotune.deployment.host import Host
from autotune.deployment.host_files import read_file, write_file
from autotune.deployment.host_record import RECORD_NAME, delete_record
from autotune.deployment.journal import InvocationJournal
from autotune.deployment.lease import Lease
from autotune.deployment.lease_holder import LeaseHolder, is_restoring, read_holder
from autotune.deployment.leftovers import Interruptible, clear_way, read_own_restore
from autotune.deployment.placed_hook import PlacedHook, find_place
from autotune.deployment.port_owner import PortOwner
from autotune.deployment.service_log import read_log_gap
from autotune.deployment.stopping import Stopper
from autotune.deployment.sudo_rights import check_rights
from autotune.deployment.systemd_unit import (
    render_launch,
    render_trial_drop_in,
    trial_drop_in_path,
    validate_unit_name,
)
from autotune.deployment.trial_drop_in import Removal, TrialDropIn
from autotune.deployment.unit import LaunchKind, ProcessFacts, Unit, UnitState
from autotune.deployment.unit_checks import (
    check_address,
    check_exchange,
    check_loaded,
    check_process,
    check_unit,
    explain_process,
)
from autotune.deployment.unit_hazards import find_hazards
from autotune.deployment.unit_process import list_cgroup_pids, read_process
from autotune.deployment.unit_reader import read_state, read_unit
from autotune.deployment.unit_record import UnitRecord, load_record, render_record, save_record
from autotune.draft_hook import LIMIT_VARIABLE
from autotune.errors import (
    HostBusyError,
    HostError,
    LeaseLostError,
    RestoreError,
    ServerDisturbed,
    SshError,
    UnitStateError,
)
from autotune.servers.base import DraftLogPlace, LaunchSpec, load_hook
from autotune.settings import StudySettings

_LOOK_AGAIN_S: Final = 0.2
_START_PATIENCE_S: Final = 60.0
_START_MARGIN_S: Final = 120.0
_RETRY_S: Final = 5.0
_OWN_RESTORE_PATIENCE_S: Final = 900.0
_EXEC_FAILURES: Final = range(200, 244)
"""Exit codes by which systemd says that it could not even execute the command."""


class SystemdDeployment(Deployment):
    """One service on one host.

    Args:
        host: not connected yet.
        settings: the study.
        baseline: how the study's baseline is launched; booting it means the unit's own command.
        tuned_flags: every flag that a configuration may set, and whether it has a value of its own word.
        folder: folder of the study; holds ``host.json`` while something is left to restore.
        clock: what is waited by.
        check: told host and service before the first change; raises when something else is under way there.
        only_restores: take nothing where nothing is left to put back, whatever the unit has become since.
        interruptible: lets a signal end a wait for a host that restores itself.
    """

    def __init__(
        self,
        host: Host,
        *,
        settings: StudySettings,
        baseline: LaunchSpec,
        tuned_flags: Mapping[str, bool],
        folder: Path,
        clock: Clock | None = None,
        check: Callable[[Host, str], None] = lambda _host, _unit: None,
        only_restores: bool = False,
        interruptible: Interruptible = contextlib.nullcontext,
    ) -> None:
        self._check = check
        self._only_restores = only_restores
        self._interruptible = interruptible
        self._host = host
        self._settings = settings
        self._baseline = baseline
        self._tuned_flags = tuned_flags
        self._folder = folder.absolute()
        self._record_path = self._folder / RECORD_NAME
        self._clock = clock or SystemClock()
        self._name = validate_unit_name(settings.deployment.unit or "")
        self._findings: list[str] = []
        self._opened = contextlib.ExitStack()
        self._path: DataPath | None = None
        self._lease = self._new_lease()
        self._gpus = GpuTool(host)
        self._record: UnitRecord | None = None
        self._was_up = False
        self._unit: Unit | None = None
        self._watched: UnitState | None = None
        self._journal: InvocationJournal | None = None
        self._log: list[str] = []
        self._log_gap: str | None = None
        self._log_path: Path | None = None
        self._has_ended = False
        self._is_log_final = False
        self._is_restore_tried = False
        self._is_lease_over = False
        self.url = render_url(settings.server.host, settings.server.port)

    # Taking the host and giving it back.

    def __enter__(self) -> Self:
        """Take the host; see the base class."""
        with contextlib.ExitStack() as opened:
            opened.enter_context(self._host)
            server = self._settings.server
            self._path = opened.enter_context(open_data_path(self._settings.deployment, server.host, server.port))
            self.url = self._path.url
            self._record = self._load_record()
            self._take()
            opened.callback(self._lease.stop_renewing)
            self._opened = opened.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Restore the service if that was not done yet, and give the host back; see the base class."""
        with self._opened:
            if self._record is not None and not self._is_restore_tried:
                self.restore()
            if self._record is None or not self._record.drop_in:  # else the host's timer stays armed
                with contextlib.suppress(SshError):  # a timer that is left finds nothing to put back
                    self._lease.release()

    @property
    def findings(self) -> tuple[str, ...]:
        """What was found and done, one sentence each."""
        return tuple(self._findings)

    @property
    def was_serving(self) -> bool:
        """True when the service was up before us."""
        return self._was_up

    def _take(self) -> None:
        """See that the service can be tuned and put back, take the lease, and learn what earlier tuners left."""
        is_done = self._only_restores and self._record is None
        if not is_done:
            check_rights(self._host, self._name)
        token = None if self._record is None else self._record.token
        dead = clear_way(self._host, self._name, token, self._clock, self._findings, self._interruptible)
        if self._record is None:
            self._check(self._host, self._name)
        if is_done:
            return
        if self._record is None:  # else the unit may be half changed, and is read when it has been put back
            self._accept_unit(read_unit(self._host, self._name))
        first = self._record or self._describe(read_state(self._host, self._name))
        self._lease = self._new_lease()
        self._is_lease_over = False
        self._lease.acquire(replace(first, token=self._lease.token).facts(), instead_of=dead)
        try:
            self._learn(dead)
        except BaseException:
            self._lease.stop_renewing()
            if self._record is None:  # else the host's timer stays armed
                self._lease.release()
            raise

    def _learn(self, dead: LeaseHolder | None) -> None:
        """Find out under our lease how the service stands, and what a record of an earlier command means now."""
        record = self._record
        try:
            state = read_state(self._host, self._name)
        except UnitStateError as error:
            if record is None:
                raise
            raise self._clear_after(error) from error
        if record is None:
            self._was_up = state.is_up
            self._stopper.check_gpus(state)
            facts = None if state.main_pid is None else read_process(self._host, state.main_pid)
            if self._unit is not None and state.main_pid is not None and facts is not None:
                check_process(self._unit, state.main_pid, facts, self._tuned_flags, self._where)
                self._check_address(facts.command)
            return
        if dead is None:
            self._findings.append(self._explain_record(record))
            is_clean = read_file(self._host, trial_drop_in_path(self._name)) is None
            if is_clean and state.is_up and state.invocation_id != record.invocation:
                is_started_since = state.invocation_id not in record.baselines
                is_meant_to_run = record.was_up or is_started_since
                record = replace(self._with_baseline(record, state), was_up=is_meant_to_run)
            record = replace(record, machine=self._read_machine(), is_stopped=True)
        self._was_up = record.was_up
        self._remember(replace(record, token=self._lease.token))

    def _explain_record(self, record: UnitRecord) -> str:
        """Say what has become of a service that an earlier command did not put back."""
        if record.machine != self._read_machine():
            return "the host was started anew since an earlier command of this study was cut off, so its trial is gone"
        return read_own_restore(self._host, self._name, record.token) or (
            "an earlier command of this study was cut off; since then somebody else has put the service back"
        )

    def _accept_unit(self, unit: Unit) -> None:
        """Take a unit for what the baseline starts, if it can be tuned and put back."""
        check_unit(unit, self._where)
        variable = self._settings.deployment.arguments_variable
        render_launch(unit, self._baseline, self._tuned_flags, variable)  # refused now, not when the service is down
        check_exchange(unit, self._baseline, self._tuned_flags, self._where)
        if unit.launch_kind is LaunchKind.DIRECT:
            self._check_address(unit.argv)
        self._findings += find_hazards(unit)
        self._log_gap = read_log_gap(self._host, self._name)
        if self._log_gap is not None:
            self._findings.append(
                f"{self._log_gap}: why a boot fails will not be known; StandardOutput=journal keeps it"
            )
        self._unit = unit

    def _check_address(self, command: Sequence[str]) -> None:
        check_address(command, self._settings.server.host, self._settings.server.port, self._where)

    @property
    def _where(self) -> str:
        return f"{self._name} on {self._host.name}"

    # Looking.

    def observe(self) -> Observation:
        """Look at the host without changing anything."""
        state = read_state(self._host, self._name)
        owner = self._stopper.find_owner()
        if owner is not None and not self._is_of_unit(owner, state):
            pid = owner.pids[0] if owner.pids else None
            facts = None if pid is None else read_process(self._host, pid)
            why = f"it does not belong to {self._name}"
            group = "" if owner.control_group is None else f", it runs in {owner.control_group}"
            command = () if facts is None else facts.command
            return Observation(Occupant.FOREIGN, pid, command, is_listening=True, differences=(f"{why}{group}",))
        if not state.is_up and state.active_state != "deactivating":
            return Observation(Occupant.NOBODY)
        facts = None if state.main_pid is None else read_process(self._host, state.main_pid)
        launch = self._find_launch(state)
        is_ours = self._record is not None and self._record.launch is not None and launch is self._record.launch
        return Observation(
            Occupant.OURS if is_ours or launch is None else Occupant.BASELINE,
            state.main_pid,
            () if facts is None else facts.command,
            launch if state.is_up else None,
            is_listening=owner is not None,
        )

    def _find_launch(self, state: UnitState) -> LaunchSpec | None:
        """Return what the unit's process was started with; ``None`` when somebody else has started it meanwhile."""
        record = self._record
        if record is None or not record.drop_in:
            return self._baseline
        is_last = state.invocation_id == record.invocation or (
            not record.invocation and state.invocation_id != record.before
        )
        if record.launch is not None and is_last:
            return record.launch
        return self._baseline if state.invocation_id in record.baselines else None

    def _is_of_unit(self, owner: PortOwner, state: UnitState) -> bool:
        pids = list_cgroup_pids(self._host, state.control_group)
        return owner.belongs_to(state.control_group, pids)

    def poll(self) -> int | None:
        """Return the exit code of the server in use, or ``None`` while it lives.

        Raises:
            LeaseLostError: the host is not ours any more.
            SshError: the host cannot be asked; that says nothing about the server.
            ServerDisturbed: somebody else has restarted or stopped the service.
        """
        if not (self._is_lease_over and self._record is not None):  # else only the check of what the host has put back
            self._lease.check()
        if self._path is not None:
            self._path.ensure()
        state = read_state(self._host, self._name)
        if self._watched is None:
            if not state.is_up or state.sub_state == "auto-restart":
                return -1
            self._watched = state
        watched = self._watched
        is_same = (state.invocation_id, state.restarts) == (watched.invocation_id, watched.restarts)
        is_same_process = watched.main_pid is None or state.main_pid == watched.main_pid
        if is_same and is_same_process and state.is_up and state.sub_state != "auto-restart":
            self._watched = state
            return None
        if is_same and state.active_state == "deactivating":
            return None
        self._has_ended = True
        if self._record is not None and self._record.drop_in and state.invocation_id not in ("", watched.invocation_id):
            raise ServerDisturbed(  # it was not systemd itself: our drop-in says Restart=no
                "somebody else has restarted the service meanwhile",
                where=self._where,
                hint=f"see who: journalctl -u {self._name}; a health check that restarts it has to rest during the study",
            )
        is_clean = is_same and state.result == "success"
        if is_clean and self._journal is not None and self._journal.was_asked_to_stop(self._name):
            raise ServerDisturbed(
                "somebody else has stopped the service meanwhile",
                where=self._where,
                hint=f"see who: journalctl -u {self._name}",
            )
        return -1 if state.exit_code is None else state.exit_code

    def read_log(self) -> tuple[str, ...]:
        """Return the log lines of this boot so far.

        Raises:
            SshError: the host cannot be asked; that says nothing about the server.
        """
        if self._journal is None or self._is_log_final:
            return tuple(self._log)
        if self._has_ended:
            self._journal.sync()
        lines = self._journal.read_new()
        self._is_log_final = self._has_ended
        self._log += lines
        if lines and self._log_path is not None:
            with self._log_path.open("a", encoding="utf-8", errors="backslashreplace") as file:
                file.writelines(f"{line}\n" for line in lines)
        return tuple(self._log)

    @property
    def log_gap(self) -> str | None:
        """Why the journal lacks the server's log; see the base class."""
        return self._log_gap

    def read_environment(self) -> Mapping[str, str]:
        """Return the variables that the server in use was started with."""
        facts = next(iter(self._list_processes()), None)
        return (facts.environment if facts is not None else None) or {}

    def sample_gpus(self) -> tuple[GpuSample, ...]:
        """Look at the GPUs of the host; see the base class."""
        return self._gpus.sample()

    def find_draft_log(self, path: Path) -> DraftLogPlace:  # noqa: ARG002  # it is fetched there
        """Return where the service can log its drafts; see the base class."""
        unit = self._unit or read_unit(self._host, self._name)
        state = read_state(self._host, self._name)
        process = None if state.main_pid is None else read_process(self._host, state.main_pid)
        place = find_place(self._host, unit, process)
        variable = self._settings.deployment.arguments_variable
        render_launch(unit, load_hook(self._baseline, place, 1), self._tuned_flags, variable)
        return place

    def fetch_draft_log(self, path: Path) -> int:
        """Bring what the service has logged since; see the base class."""
        launch = self._need_record().launch
        limit = None if launch is None else launch.environment.get(LIMIT_VARIABLE)
        if limit is not None:
            self._hook.fetch(path, int(limit))
        return super().fetch_draft_log(path)

    def verify(self, launch: LaunchSpec) -> tuple[str, ...]:
        """Compare the processes of the service with a launch; the baseline's is the unit's own command.

        Raises:
            UnitStateError: a trial's process differs because somebody has changed the unit.
        """
        processes = self._list_processes()
        if not processes:
            return ("it has no process that can be found",)
        unit = self._unit or read_unit(self._host, self._name)
        wanted = None if launch == self._baseline else launch
        found = [explain_process(unit, wanted, facts, self._tuned_flags) for facts in processes]
        if () in found:
            return ()
        if wanted is not None:  # is it the trial's fault, or has somebody changed the unit since?
            loaded = read_unit(self._host, self._name)
            record = self._need_record()
            check_loaded(loaded, unit, record.launch, record.drop_in, self._tuned_flags, self._where)
        return found[0]

    def _list_processes(self) -> tuple[ProcessFacts, ...]:
        """Return the processes that may be the server: the main one, and with a script in front also its children."""
        state = read_state(self._host, self._name)
        pids = [] if state.main_pid is None else [state.main_pid]
        if self._unit is None or self._unit.launch_kind is LaunchKind.SCRIPT:
            owner = self._stopper.find_owner()
            group = list_cgroup_pids(self._host, state.control_group)
            pids = [*(pid for pid in (owner.pids if owner else ()) if pid in group), *pids, *group]
        facts = (read_process(self._host, pid) for pid in dict.fromkeys(pids))
        return tuple(item for item in facts if item is not None)

    # Changing.

    def start(self, launch: LaunchSpec, log_path: Path) -> int:
        """Start the service with a launch and return its process id; see the base class."""
        self._lease.check()
        observation = self.observe()
        if observation.occupant is Occupant.FOREIGN:
            raise explain_foreign(observation, self.url)
        if observation.occupant is not Occupant.NOBODY:
            raise HostError(
                f"the service already runs as process {observation.pid}", where=self.url, hint="stop it before a start"
            )
        self._is_restore_tried = False
        record = self._record or self._describe(read_state(self._host, self._name))
        if (
            self._unit is None
        ):  # after an earlier tuner of this study: its trial is stopped, now see the unit without it
            self._put_drop_in_away(record)
            self._accept_unit(read_unit(self._host, self._name))
        wanted = None if launch == self._baseline else launch
        self._write_drop_in(self._exchange_hook(record, wanted), wanted)
        self._check_loaded(wanted)
        return self._start(launch, log_path)

    def _exchange_hook(self, record: UnitRecord, launch: LaunchSpec | None) -> UnitRecord:
        """Take the hook of an earlier launch away, put that of this one there; return the record, not written yet."""
        loads_hook = launch is not None and launch.loads_hook
        if not (loads_hook or record.has_hook):
            return record
        record = replace(record, token=self._lease.token, has_hook=True)
        self._remember(record)
        self._hook.remove()
        if launch is not None and loads_hook and self._unit is not None:
            self._hook.place(launch, self._unit.user)
        return replace(record, has_hook=loads_hook)

    def _check_loaded(self, launch: LaunchSpec | None) -> None:
        """See that systemd has loaded what was written, before anything is started with it."""
        loaded = read_unit(self._host, self._name)
        text = self._need_record().drop_in
        check_loaded(loaded, self._unit or loaded, launch, text, self._tuned_flags, self._where)

    def _start(self, launch: LaunchSpec | None, log_path: Path | None) -> int:
        """Start the service as it is loaded now."""
        before = read_state(self._host, self._name)
        record = replace(
            self._need_record(), launch=launch, invocation="", before=before.invocation_id, is_stopped=True
        )
        self._remember(record)
        self._lease.run_as_root(("systemctl", "reset-failed", "--", self._name), is_idempotent=True)
        command = ("systemctl", "start", "--no-block", "--no-ask-password", "--", self._name)
        self._host.expect(command, self._lease.run_as_root(command, is_idempotent=True))
        state = self._wait_until_begun(before)
        self._watch(state, log_path)
        record = replace(record, invocation=state.invocation_id)
        if launch is None or launch == self._baseline:
            record = self._with_baseline(record, state)
        self._remember(record)
        return state.main_pid or self._read_last_pid()

    def _wait_until_begun(self, before: UnitState) -> UnitState:
        """Wait for the new invocation and its process, which may be gone again by then."""
        deadline = self._clock.monotonic() + _START_PATIENCE_S
        while True:
            state = read_state(self._host, self._name)
            has_begun = state.invocation_id not in ("", before.invocation_id)
            has_ended = state.active_state in {"failed", "inactive"}
            if state.result == "start-limit-hit":
                raise UnitStateError(
                    "systemd refuses to start it, because it was started too often (start-limit-hit)",
                    where=self._where,
                    hint=f"run systemctl reset-failed {self._name}, or raise StartLimitBurst= of the unit",
                )
            if has_begun and has_ended and state.exit_code in _EXEC_FAILURES:
                raise HostError(
                    f"systemd could not execute the service's command (status {state.exit_code})",
                    where=self._where,
                    hint=f"see journalctl -u {self._name}",
                )
            if has_begun and (has_ended or state.main_pid is not None):
                return state
            if self._clock.monotonic() > deadline:
                if has_begun:
                    return state  # ExecStartPre= takes its time
                raise UnitStateError(
                    f"systemd has not started it within {_START_PATIENCE_S:.0f} s; it is {state.active_state}",
                    where=self._where,
                    hint=f"look at it with systemctl status {self._name}, and at systemctl list-jobs",
                )
            self._clock.sleep(_LOOK_AGAIN_S)

    def _watch(self, state: UnitState, log_path: Path | None) -> None:
        """Follow one start of the service."""
        self._watched = state
        self._journal = InvocationJournal(self._host, state.invocation_id)
        self._log = []
        self._log_path = log_path
        self._has_ended = False
        self._is_log_final = False
        if log_path is not None:
            log_path.parent.mkdir(parents=True, exist_ok=True)

    def stop(self) -> None:
        """Stop the service, whatever it runs; see the base class."""
        self._lease.check()
        self._is_restore_tried = False
        observation = self.observe()
        if observation.occupant is Occupant.FOREIGN:
            raise explain_foreign(observation, self.url)
        state = read_state(self._host, self._name)
        if state.active_state not in {"inactive", "failed"}:
            record = self._record or self._describe(state)
            if not record.drop_in:
                self._write_drop_in(record, None)  # without Restart=, and with our patience
            record = replace(self._need_record(), is_stopped=True)
            self._remember(record)
        self._stopper.stop()
        self._watched = None
        self._journal = None

    def restore(self, check: Callable[[], None] | None = None) -> None:
        """Put the service back as it was found; see the base class."""
        self._is_restore_tried = True
        if self._record is None:
            return
        self._insist(self._put_back_or_learn)
        record = self._need_record()
        if record.was_up and record.is_stopped and check is not None:
            self._insist(check)
        try:
            self._tell_changes()
        except SshError as error:
            self._findings.append(f"whether anything else has changed there is unknown: {error.message}")
        delete_record(self._record_path)
        self._record = None

    def _insist(self, step: Callable[[], None]) -> None:
        """Take a step of restoring, again and again while the host cannot be reached, for as long as a lease lasts."""
        deadline = self._clock.monotonic() + self._settings.deployment.lease_s
        while True:
            try:
                step()
            except SshError as error:
                left_s = self._lease.left_s if self._need_record().drop_in else 0.0
                if (left_s or deadline - self._clock.monotonic()) <= _RETRY_S:  # 0: the host has done its part
                    raise self._explain_unreachable(error) from error
                self._clock.sleep(_RETRY_S)
            else:
                return

    def _put_back_or_learn(self) -> None:
        """Put the service back, or see what has become of it since the lease was lost."""
        while True:
            try:
                self._put_back()
            except LeaseLostError as error:
                if self._take_again():
                    continue
                self._learn_from_host(error)
            except UnitStateError as error:
                if not self._is_unit_gone():
                    raise
                raise self._clear_after(error) from error
            return

    def _tell_changes(self) -> None:
        """Say what is not as it was found: the baseline's command, when files were changed meanwhile, or other units."""
        for name in find_missing(self._host, self._need_record().dependants):
            self._findings.append(
                f"{name}, which stops whenever {self._name} does, ran before and does not run now: see systemctl status {name}"
            )
        pid = read_state(self._host, self._name).main_pid
        facts = None if pid is None else read_process(self._host, pid)
        if self._unit is None or facts is None:
            return
        differences = explain_process(self._unit, None, facts, self._tuned_flags)
        if differences:
            self._findings.append(
                f"somebody has changed {self._name} meanwhile, so process {pid} is not quite the baseline that was found: "
                f"{'; '.join(differences)}"
            )

    def _put_back(self) -> None:
        """Make the service what it was, from any state; every step finds out whether it is done."""
        record = self._need_record()
        state = read_state(self._host, self._name)
        trouble: HostError | None = None
        is_wanted = record.was_up and state.invocation_id in record.baselines
        is_other = state.active_state not in {"inactive", "failed"} and not is_wanted
        if record.drop_in and is_other:
            try:
                self._remember(replace(record, is_stopped=True))
                self._stopper.stop()
            except (SshError, LeaseLostError):
                raise
            except HostError as error:
                trouble = error  # the baseline may come up all the same, and then serves while somebody looks at this
        if self._put_drop_in_away(self._need_record()) is Removal.LEFT:
            self._start_baseline()
            self._start_dependants()
            raise self._explain_left_drop_in(f" and systemctl restart {self._name}")
        self._start_baseline()
        self._start_dependants()
        self._drop_in.forget()
        self._remember(replace(self._need_record(), drop_in="", has_hook=False))
        if trouble is not None and not read_state(self._host, self._name).is_up:
            raise RestoreError(trouble.message, where=trouble.where, hint=trouble.hint) from trouble

    def _put_drop_in_away(self, record: UnitRecord) -> Removal:
        removal = self._drop_in.remove((record.drop_in,), made_folder=record.made_folder)
        if record.has_hook:
            self._hook.remove()
        return removal

    def _explain_left_drop_in(self, then: str) -> RestoreError:
        return RestoreError(
            f"{trial_drop_in_path(self._name)} was changed by somebody else, so it was left as it is",
            where=self._host.name,
            hint=f"remove it if nobody needs it, then systemctl daemon-reload{then}",
        )

    def _is_unit_gone(self) -> bool:
        try:
            read_state(self._host, self._name)
        except UnitStateError:
            return True
        return False

    def _clear_after(self, gone: UnitStateError) -> RestoreError:
        """Take away what is left of ours where somebody has removed the service itself; return what to say of it.

        Raises:
            RestoreError: our drop-in was changed by somebody else; the record stays until it is removed.
        """
        record = self._need_record()
        if self._put_drop_in_away(record) is Removal.LEFT:
            raise self._explain_left_drop_in(", and run autotune restore") from gone
        self._drop_in.forget()
        delete_record(self._record_path)
        self._record = None
        ran = "ran" if record.was_up else "was there"
        return RestoreError(
            f"{self._name}, which {ran} before, was removed by somebody: {gone.message}; our drop-in was taken away, "
            "and nothing else of this study is left there",
            where=self._host.name,
            hint="install the service again and start it as it should run, if it is needed",
        )

    def _start_baseline(self) -> None:
        """Start the unit as its own files say, if it ran before and does not run so now."""
        record = self._need_record()
        state = read_state(self._host, self._name)
        if not record.was_up:
            self._lease.run_as_root(("systemctl", "reset-failed", "--", self._name), is_idempotent=True)
            return
        if not (state.is_up and state.invocation_id in record.baselines):
            self._start(None, None)

    def _start_dependants(self) -> None:
        """Start what every stop of the service has stopped too."""
        record = self._need_record()
        start_dependants(self._host, self._lease.run_as_root, record.dependants, is_service_up=record.was_up)

    def _take_again(self) -> bool:
        """Take a new lease where somebody has removed ours and nobody put the host back; say whether that was so.

        Our drop-in in its place tells: neither the host's own restore nor another tuner would have left it.
        """
        record = self._need_record()
        holder = read_holder(self._host, self._lease.folder)
        is_taken = holder is not None and not holder.is_this_process
        if not self._is_drop_in_in_place() or is_restoring(self._host, self._lease.timer) or is_taken:
            return False
        self._lease.stop_renewing()
        self._lease = self._new_lease()
        self._record = replace(record, token=self._lease.token)
        try:
            self._lease.acquire(self._record.facts(), instead_of=holder)
        except HostBusyError:
            return False
        self._opened.callback(self._lease.stop_renewing)
        done = "removed from" if holder is None else "changed on"
        self._findings.append(f"our lease had been {done} the host, so a new one was taken to put it back")
        return True

    def _is_drop_in_in_place(self) -> bool:
        """Whether the drop-in that we wrote last lies there as we wrote it."""
        return read_file(self._host, self._drop_in.path) == self._need_record().drop_in.encode()

    def _learn_from_host(self, error: LeaseLostError) -> None:
        """See what the host, or another tuner, has done since our lease was over."""
        record = self._need_record()
        started = self._clock.monotonic()
        while is_restoring(self._host, self._lease.timer):
            if self._clock.monotonic() - started > _OWN_RESTORE_PATIENCE_S:
                raise self._explain_restoring() from error
            try:
                with self._interruptible():
                    self._clock.sleep(1.0)
            except KeyboardInterrupt as interrupt:
                raise self._explain_restoring() from interrupt
        sentence = read_own_restore(self._host, self._name, record.token)
        holder = read_holder(self._host, self._lease.folder)
        state = read_state(self._host, self._name)
        if sentence is None and holder is None:
            raise RestoreError(error.message, where=error.where, hint="run autotune restore to look again") from error
        if sentence is None and holder is not None and (self._is_drop_in_in_place() or self._runs_trial(state)):
            raise RestoreError(
                f"the lease on the host is not ours any more, but the trial that we wrote is still in place: "
                f"{holder.holder} holds it, says {self._lease.folder}/lease",
                where=self._host.name,
                hint=f"if no other tuner works there, remove {self._lease.folder} as root and run autotune restore",
            ) from error
        if sentence is not None and record.was_up and not state.is_up:
            raise RestoreError(sentence, where=self._host.name, hint="run autotune restore; it tries again") from error
        self._is_lease_over = True
        self._findings.append(sentence or f"another tuner has taken over and put the service back: {error.message}")
        is_ours_to_check = sentence is not None and holder is None
        self._record = replace(record, drop_in="", is_stopped=is_ours_to_check)
        if state.is_up:
            self._watch(state, None)

    def _runs_trial(self, state: UnitState) -> bool:
        """Whether the service runs what we started last, and that was no baseline."""
        record = self._need_record()
        return state.is_up and state.invocation_id in {record.invocation} - {"", *record.baselines}

    def _explain_restoring(self) -> RestoreError:
        return RestoreError(
            "the host is still putting the service back",
            where=self._host.name,
            hint=f"see journalctl -u {self._lease.timer.removesuffix('.timer')} there; autotune restore looks again",
        )

    def _explain_unreachable(self, error: SshError) -> RestoreError:
        when = self._clock.now() + timedelta(seconds=self._lease.left_s)
        if not self._need_record().drop_in:
            what = f"{self._name} was put back, but nobody could see whether it serves"
        elif self._lease.left_s > 0:
            what = f"it puts {self._name} back by itself at {when.astimezone():%H:%M:%S}, when the lease is over"
        else:
            what = f"the lease there is over, so it has put {self._name} back by itself, or another tuner works there"
        return RestoreError(
            f"the host cannot be reached ({error.message}); {what}",
            where=self._host.name,
            hint=f"when it can be reached again: autotune restore {self._settings.name}",
        )

    # Writing.

    def _write_drop_in(self, record: UnitRecord, launch: LaunchSpec | None) -> None:
        """Record what is about to be written, then write it."""
        if self._unit is None:
            raise HostError("the unit was not read", where=self._name)
        text = render_trial_drop_in(
            self._unit,
            launch,
            self._tuned_flags,
            stop_timeout_s=self._settings.server.stop_timeout_s,
            start_timeout_s=self._settings.server.ready_timeout_s + _START_MARGIN_S,
            arguments_variable=self._settings.deployment.arguments_variable,
            header=(
                f"Written by autotune for the study {self._settings.name}, which removes it when it ends.",
                f"When the tuner is gone, {self._lease.timer} removes it. By hand, as root:",
                f"  sh {self._lease.folder}/restore.sh {self._lease.folder}",
            ),
        )
        if record.token != self._lease.token:
            record = replace(record, token=self._lease.token)
        self._remember(replace(record, drop_in=text))
        self._drop_in.write(text)

    def _remember(self, record: UnitRecord) -> None:
        """Write the record: with the study first, then on the host, then for the host's own restore.

        A full disk under the study must not keep a service from being put back: the record that lies there already
        asks for no less.
        """
        try:
            save_record(self._record_path, record)
        except OSError:
            if not self._is_restore_tried:
                raise
        self._record = record
        write_file(self._lease.run_as_root, f"{self._lease.folder}/record.json", render_record(record), 0o600)
        write_file(self._lease.run_as_root, self._lease.facts_path, record.facts(), 0o600)

    def _describe(self, state: UnitState) -> UnitRecord:
        """Describe the service as it stands, before a change."""
        return UnitRecord(
            host=self._host.name,
            machine=self._read_machine(),
            unit=self._name,
            study=str(self._folder),
            token=self._lease.token,
            was_up=self._was_up,
            made_folder=not self._drop_in.has_folder(),
            baselines=(state.invocation_id,) if state.is_up else (),
            host_id=self._read_host_id(),
            dependants=find_dependants(self._host, self._name),
        )

    def _with_baseline(self, record: UnitRecord, state: UnitState) -> UnitRecord:
        return replace(record, baselines=tuple(dict.fromkeys((*record.baselines, state.invocation_id))))

    def _need_record(self) -> UnitRecord:
        if self._record is None:
            raise HostError("nothing was changed on the host yet", where=self._name)
        return self._record

    def _load_record(self) -> UnitRecord | None:
        record = load_record(self._record_path)
        if record is not None and record.unit != self._name:
            raise HostError(
                f"an earlier command of this study left {record.unit} on {record.host} to be put back",
                where=str(self._record_path),
                hint="put deployment.unit and deployment.host back into the study file and run autotune restore first",
            )
        if record is not None and record.machine != self._read_machine() and self._is_of_another_host(record):
            raise HostError(
                f"an earlier command of this study left {record.unit} to be put back on another machine, "
                f"{record.host}, not on {self._host.name}",
                where=str(self._record_path),
                hint="run autotune restore against that machine first; if it is this one, installed anew, or is gone "
                "for good, delete this file",
            )
        return record

    def _new_lease(self) -> Lease:
        lease = Lease(self._host, self._name, lease_s=self._settings.deployment.lease_s, study=str(self._folder))
        self._drop_in = TrialDropIn(self._host, lease, self._name)
        self._hook = PlacedHook(self._host, lease, self._name)
        self._stopper = Stopper(
            self._host,
            lease,
            self._name,
            address=self._settings.server.host,
            port=self._settings.server.port,
            gpu_idle_mb=self._settings.deployment.gpu_idle_mb,
            stop_timeout_s=self._settings.server.stop_timeout_s,
            clock=self._clock,
            on_finding=self._findings.append,
        )
        return lease

    def _read_machine(self) -> str:
        command = ("cat", "/proc/sys/kernel/random/boot_id")
        return self._host.expect(command, self._host.run(command, is_idempotent=True)).text.strip()

    def _is_of_another_host(self, record: UnitRecord) -> bool:
        """Whether a record was made on another machine, and not before this one was started anew."""
        return record.host_id not in ("", self._read_host_id())

    def _read_host_id(self) -> str:
        return self._host.run(("cat", "/etc/machine-id"), is_idempotent=True).text.strip()

    def _read_last_pid(self) -> int:
        command = ("systemctl", "show", "--property=ExecMainPID", "--value", "--", self._name)
        return int(self._host.expect(command, self._host.run(command, is_idempotent=True)).text)
