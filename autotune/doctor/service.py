"""Is the unit one that can be tuned and put back? Judgements on what systemd says of it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from autotune.deployment.dependants import STOPPED_BY
from autotune.deployment.host import Host
from autotune.deployment.near_units import missing_unit
from autotune.deployment.placed_hook import find_place
from autotune.deployment.running_command import expected_command
from autotune.deployment.systemd_unit import (
    TRIAL_DROP_IN,
    find_conflicts,
    render_launch,
    render_trial_drop_in,
    validate_unit_name,
)
from autotune.deployment.unit import LaunchKind, ProcessFacts, Unit, UnitState
from autotune.deployment.unit_process import read_process
from autotune.deployment.unit_reader import read_state, read_unit
from autotune.doctor.catalogue import Area
from autotune.doctor.examination import Examination
from autotune.doctor.finding import Judgement, ok, problem, skipped, warning
from autotune.errors import SystemdError, UnitStateError, UnitUnsupportedError
from autotune.export.provenance import hide_secrets_in
from autotune.servers.base import DraftLogPlace, LaunchSpec, load_hook
from autotune.servers.sglang import wants_draft_hook
from autotune.settings import StudySettings

Properties = Mapping[str, str]

OLDEST_SYSTEMD: Final = 245

_TIMEOUT_S = 15.0
_PROPERTIES: Final = (
    "LoadState",
    "LoadError",
    "UnitFileState",
    "NeedDaemonReload",
    "RefuseManualStart",
    "RefuseManualStop",
    "Type",
    "Restart",
    "KillMode",
    "StartLimitAction",
    "FailureAction",
    "SuccessAction",
    "RuntimeMaxUSec",
    "WatchdogUSec",
    "TriggeredBy",
    "OnFailure",
    "OnSuccess",
    "UpheldBy",
    *STOPPED_BY,
    "StandardOutput",
    "StandardError",
    "LogNamespace",
    "LogLevelMax",
    "LogRateLimitIntervalUSec",
    "LogRateLimitBurst",
)
_ALWAYS_THERE: Final = frozenset({"multi-user.target", "default.target", "graphical.target"})


@dataclass(frozen=True, slots=True)
class ServiceFacts:
    """What the other areas need; ``None`` is unknown.

    Attributes:
        name: of the unit, with its suffix.
        properties: of ``systemctl show``.
        unit: with all its drop-ins.
        state: how it stands.
        process: its main process.
    """

    name: str
    properties: Properties | None
    unit: Unit | None
    state: UnitState | None
    process: ProcessFacts | None


@dataclass(frozen=True, slots=True)
class Launches:
    """What a night would start: some configurations of each arm, and every flag that any of them sets."""

    launches: tuple[LaunchSpec, ...]
    tuned_flags: Mapping[str, bool]

    @property
    def variables(self) -> frozenset[str]:
        """The variables that some launch sets or removes."""
        return frozenset(name for launch in self.launches for name in launch.environment)


def examine_service(exam: Examination, host: Host, settings: StudySettings, launches: Launches | None) -> ServiceFacts:
    """Look at the unit, its state and its process.

    Args:
        exam: where findings go.
        host: connected.
        settings: the study.
        launches: what a night would start; ``None`` when the search space is wrong.
    """
    name = settings.deployment.unit or ""
    version = exam.ask("systemd", lambda: read_systemd_version(host), judge_systemd_version)
    shown = None
    if version is not None:
        shown = exam.ask("unit", lambda: show_unit(host, name), judge_unit)
    if shown is None or shown["LoadState"] != "loaded":
        exam.skip_rest(Area.UNIT, "needs unit" if version is not None else "needs systemd")
        masked = shown is not None and shown["LoadState"] == "masked"  # may run all the same, and is then no stranger
        return ServiceFacts(name, shown, None, read_state(host, name) if masked else None, None)
    state = exam.ask("state", lambda: read_state(host, name), judge_state)
    for check, judge in _SHOWN.items():
        exam.judge(check, shown, judge, needs="unit")
    unit = _read_unit(exam, host, settings, shown, launches)
    exam.judge(
        "drop-ins",
        unit,
        lambda known: judge_drop_ins(
            known, find_conflicts(known, TRIAL_DROP_IN, None if launches is None else launches.variables)
        ),
        needs="launch",
    )
    exam.judge(
        "start timeout", unit, lambda known: judge_start_timeout(known, settings.server.ready_timeout_s), needs="launch"
    )
    exam.judge(
        "stop timeout", unit, lambda known: judge_stop_timeout(known, settings.server.stop_timeout_s), needs="launch"
    )
    process = _read_process(exam, host, unit, state)
    if not wants_draft_hook(settings):
        exam.note("draft hook", skipped("the study does not ask for it"))
    elif unit is not None and launches is not None and launches.launches:
        known, wanted = unit, launches
        exam.ask("draft hook", lambda: _find_hook_place(host, settings, known, process, wanted), judge_draft_hook)
    exam.skip_rest(Area.UNIT, "needs launch")
    return ServiceFacts(validate_unit_name(name), shown, unit, state, process)


def _find_hook_place(
    host: Host, settings: StudySettings, unit: Unit, process: ProcessFacts | None, launches: Launches
) -> DraftLogPlace | str:
    """Return where the service could log drafts, or why it could not."""
    try:
        place = find_place(host, unit, process)
        hooked = load_hook(launches.launches[0], place, 1)
        render_launch(unit, hooked, launches.tuned_flags, settings.deployment.arguments_variable)
    except UnitUnsupportedError as error:
        return error.message
    return place


def _read_unit(
    exam: Examination, host: Host, settings: StudySettings, shown: Properties, launches: Launches | None
) -> Unit | None:
    if judge_files_read(shown) != _FILES_READ:
        exam.note("launch", skipped("needs files read"))
        return None
    if shown["Type"] in _UNSUITED_TYPES:
        exam.note("launch", skipped("needs type"))
        return None
    name = settings.deployment.unit or ""
    return exam.ask("launch", lambda: read_unit(host, name), lambda unit: judge_launch(unit, launches, settings))


def _read_process(exam: Examination, host: Host, unit: Unit | None, state: UnitState | None) -> ProcessFacts | None:
    if state is None or state.main_pid is None:
        exam.note("running command", skipped("needs state" if state is None else "the service does not run"))
        return None
    pid = state.main_pid
    if unit is None:
        exam.note("running command", skipped("needs launch"))
        return read_process(host, pid)
    known = unit
    return exam.ask(
        "running command", lambda: read_process(host, pid), lambda process: judge_running_command(known, process)
    )


def read_systemd_version(host: Host) -> int:
    """Return the version of the systemd that runs the host.

    Raises:
        SystemdError: none does.
    """
    output = host.run(
        ("sh", "-c", "test -d /run/systemd/system && systemctl --version"), timeout_s=_TIMEOUT_S, is_idempotent=True
    )
    found = re.match(r"systemd (\d+)", output.text)
    if output.exit_code != 0 or found is None:
        raise SystemdError(
            "systemd does not run this host",
            where=host.name,
            hint='use deployment.kind = "local" on the machine of the server',
        )
    return int(found[1])


def judge_systemd_version(version: int) -> Judgement:
    """Say whether it can do what is needed."""
    if version < OLDEST_SYSTEMD:
        return problem(
            f"systemd {version} is older than {OLDEST_SYSTEMD}", "a newer system is needed there", SystemdError
        )
    return ok(f"systemd {version}")


def show_unit(host: Host, name: str) -> Properties:
    """Ask systemd for the properties that are judged here.

    Raises:
        UserError: the name is none of a service.
        UnitStateError: there is no such unit; the near names are said.
        SystemdError: it does not answer.
    """
    name = validate_unit_name(name)
    command = ("systemctl", "show", *(f"--property={key}" for key in _PROPERTIES), "--", name)
    output = host.expect(command, host.run(command, timeout_s=_TIMEOUT_S, is_idempotent=True))
    shown = parse_properties(output.text)
    if shown["LoadState"] == "not-found":
        raise missing_unit(host, name)
    return shown


def parse_properties(text: str) -> Properties:
    r"""Read ``NAME=VALUE`` lines; a property that this systemd does not have is empty.

    >>> parse_properties("Type=simple\nRestart=always\n")["Restart"]
    'always'
    """
    found = dict(line.partition("=")[::2] for line in text.splitlines() if "=" in line)
    return {key: found.get(key, "") for key in _PROPERTIES}


def judge_unit(shown: Properties) -> Judgement:
    """Say whether the unit is there and may be started and stopped by hand."""
    state = shown["LoadState"]
    if state != "loaded":
        advice = {
            "masked": "systemctl unmask it",
        }.get(state, "systemctl status and systemd-analyze verify say what is wrong with it")
        return problem(f"the unit is {state}", advice, UnitStateError)
    refused = [name for name in ("RefuseManualStart", "RefuseManualStop") if shown[name] == "yes"]
    if refused:
        return problem(f"{' and '.join(refused)} is set", "take it out of the unit for the night", UnitStateError)
    return ok(f"loaded, {shown['UnitFileState'] or 'not installed'}")


def judge_state(state: UnitState) -> Judgement:
    """Say whether the service stays up; *active* alone says little."""
    said = f"{state.active_state} ({state.sub_state})"
    if state.sub_state == "auto-restart":
        return problem(
            f"it is in a restart loop: {said}, {state.restarts} restarts, result {state.result}",
            "journalctl -u UNIT says why it ends; mend that first",
            UnitStateError,
        )
    if state.result == "start-limit-hit":
        return problem(
            "it was started too often and is not started any more",
            "see its log, then systemctl reset-failed",
            UnitStateError,
        )
    if state.active_state == "failed":
        return problem(f"it has failed: result {state.result}", "see its log; mend and start it", UnitStateError)
    if state.active_state == "inactive":
        return warning("it does not run, so nothing will serve afterwards either", "start it, if it should serve")
    if state.active_state != "active":
        return warning(f"it is {said}", "wait until it serves")
    if state.restarts:
        return warning(
            f"{said}; systemd has restarted it {state.restarts} {'time' if state.restarts == 1 else 'times'}",
            "journalctl -u UNIT says why it ended",
        )
    return ok(said)


_FILES_READ = ok("systemd has read the files as they are")


def judge_files_read(shown: Properties) -> Judgement:
    """Say whether systemd knows the files as they are now."""
    if shown["NeedDaemonReload"] == "yes":
        return problem(
            "a file of the unit changed since systemd read it, so it is unclear what the baseline is",
            "look at systemctl cat UNIT, then systemctl daemon-reload",
            UnitStateError,
        )
    return _FILES_READ


_UNSUITED_TYPES: Final = frozenset({"oneshot", "forking"})


def judge_type(shown: Properties) -> Judgement:
    """Say whether the first process is the server."""
    if shown["Type"] in _UNSUITED_TYPES:
        return problem(
            f"Type={shown['Type']}: the first process is not the server",
            "use Type=exec or Type=simple, with the server itself as the unit's process",
            UnitStateError,
        )
    return ok(f"Type={shown['Type']}")


def judge_restart(shown: Properties) -> Judgement:
    """Say what happens to ``Restart=``."""
    if shown["Restart"] == "no":
        return ok("Restart=no, as trials need it")
    return ok(f"Restart={shown['Restart']}; trials run with Restart=no, and the baseline with its own again")


def judge_start_limit(shown: Properties) -> Judgement:
    """Say whether a failed start does more than fail."""
    actions = [
        f"{name}={shown[name]}"
        for name in ("StartLimitAction", "FailureAction", "SuccessAction")
        if shown[name] not in {"", "none"}
    ]
    if actions:
        return problem(
            f"{', '.join(actions)}: a trial that fails would do that to the host",
            "take it out of the unit for the night",
            UnitStateError,
        )
    return ok("no action on failure; the count of starts is reset before each")


def judge_kill_mode(shown: Properties) -> Judgement:
    """Say whether a stop ends the workers too."""
    if shown["KillMode"] in {"control-group", "mixed"}:
        return ok(f"KillMode={shown['KillMode']}: a stop ends every worker")
    return problem(
        f"KillMode={shown['KillMode']}: workers survive a stop; the tuner ends them, but when it is gone nobody does",
        "use KillMode=control-group or KillMode=mixed",
        UnitStateError,
    )


def judge_run_time(shown: Properties) -> Judgement:
    """Say whether systemd would end the server by itself."""
    limits = [
        f"{setting}={shown[key]}"
        for key, setting, off in (
            ("RuntimeMaxUSec", "RuntimeMaxSec", {"", "infinity"}),
            ("WatchdogUSec", "WatchdogSec", {"", "0", "infinity"}),
        )
        if shown[key] not in off
    ]
    if limits:
        return warning(f"{', '.join(limits)} may end a server in the middle of a trial", "take it out for the night")
    return ok("no limit on the run time")


def judge_other_units(shown: Properties) -> Judgement:
    """Say which units start this one, are started by it, or go down with it."""
    acting = _name_units(shown, ("TriggeredBy", "UpheldBy", "OnFailure", "OnSuccess"))
    falling = _name_units(shown, STOPPED_BY)
    said = [f"{acting}: each stop, start or failed trial may set them off"] if acting else []
    said += [f"{falling}: down while trials run, and started again afterwards if they ran before"] if falling else []
    if not said:
        return ok("no other unit hangs on it")
    advice = (
        "stop for the night what would start the service or raise an alarm" if acting else "know that they are down"
    )
    return warning("; ".join(said), advice)


def _name_units(shown: Properties, keys: Sequence[str]) -> str:
    found = ((key, sorted(set(shown[key].split()) - _ALWAYS_THERE)) for key in keys)
    return ", ".join(f"{key}={' '.join(names)}" for key, names in found if names)


_SHOWN: Final = {
    "files read": judge_files_read,
    "type": judge_type,
    "restart": judge_restart,
    "start limit": judge_start_limit,
    "kill mode": judge_kill_mode,
    "run time": judge_run_time,
    "other units": judge_other_units,
}
"""What the properties alone decide."""


def judge_launch(unit: Unit, launches: Launches | None, settings: StudySettings) -> Judgement:
    """Say how flags reach the server, by writing the drop-ins of a night without putting them anywhere.

    Raises:
        UserError: they cannot be written; the message says what to change.
    """
    for launch in () if launches is None else launches.launches:
        render_trial_drop_in(
            unit,
            launch,
            {} if launches is None else launches.tuned_flags,
            stop_timeout_s=settings.server.stop_timeout_s,
            start_timeout_s=settings.server.ready_timeout_s,
            arguments_variable=settings.deployment.arguments_variable,
        )
    command = hide_secrets_in(shlex.join(unit.argv))
    if unit.launch_kind is LaunchKind.SCRIPT:
        script = "a script" if unit.script is None else unit.script.path
        return ok(f"{script} takes the flags from {settings.deployment.arguments_variable}: {command}")
    return ok(f"{'a line of a shell' if unit.launch_kind is LaunchKind.SHELL else 'the server itself'}: {command}")


def judge_draft_hook(found: DraftLogPlace | str) -> Judgement:
    """Say whether a profile boot would have a log of drafts; a night goes on without."""
    if isinstance(found, str):
        return warning(
            f"it would not fit: {found}", "accept lengths are learned from trials alone, which costs no boot"
        )
    own = f", before {found.python_path}" if found.python_path else ""
    return ok(f"it would lie in {found.hook_folder}{own}, and log at most {found.limit_bytes // 2**20} MiB there")


def judge_drop_ins(unit: Unit, conflicts: tuple[str, ...]) -> Judgement:
    """Say which files would undo the drop-in of a trial."""
    if conflicts:
        return problem("; ".join(conflicts), "then systemctl daemon-reload", UnitStateError)
    count = len(unit.files) - 1
    return ok(f"{count} {'drop-in' if count == 1 else 'drop-ins'}, none stands in the way")


def judge_start_timeout(unit: Unit, ready_timeout_s: float) -> Judgement:
    """Say whether the baseline has the time to load when it is put back, under its own limit."""
    limit_s = unit.timeout_start_s
    said = "no limit" if limit_s is None else f"TimeoutStartSec={limit_s:g} s"
    bites = [hook for hook, _ in unit.hooks if hook in {"ExecStartPre", "ExecStartPost"}]
    if unit.type.startswith("notify") or unit.type == "dbus":
        bites.append(f"Type={unit.type}")
    if limit_s is None or not bites or limit_s >= ready_timeout_s:
        return ok(f"{said}, which is enough" if bites else f"{said}, which does not count with Type={unit.type}")
    return warning(
        f"{said} counts because of {' and '.join(dict.fromkeys(bites))}, and server.ready_timeout_s is {ready_timeout_s:g} s",
        "raise TimeoutStartSec= of the unit: trials have their own, the baseline is put back under this one",
    )


def judge_stop_timeout(unit: Unit, stop_timeout_s: float) -> Judgement:
    """Compare systemd's patience with ours: requests in flight are finished after SIGTERM.

    Trials are stopped under our own drop-in; the service that is found, and the one that is put back, under the unit's.
    """
    limit_s = unit.timeout_stop_s
    patience_s = 2 * stop_timeout_s
    if limit_s is None or limit_s > patience_s:
        said = "infinity" if limit_s is None else f"{limit_s:g} s"
        return warning(
            f"TimeoutStopSec={said}: a server that drains for so long is not waited for, "
            f"because server.stop_timeout_s is {stop_timeout_s:g} s",
            "raise server.stop_timeout_s to what the longest answer takes, or lower TimeoutStopSec=",
        )
    if limit_s < stop_timeout_s:
        return warning(
            f"TimeoutStopSec={limit_s:g} s is less than server.stop_timeout_s of {stop_timeout_s:g} s: "
            "the first stop kills a server that still finishes requests",
            "raise TimeoutStopSec= of the unit, or lower server.stop_timeout_s",
        )
    return ok(f"TimeoutStopSec={limit_s:g} s; trials wait {stop_timeout_s:g} s")


def judge_running_command(unit: Unit, process: ProcessFacts | None) -> Judgement:
    """Compare what runs with what the unit starts, which is what a restore brings back."""
    if process is None:
        return warning("its main process has just gone", "look again")
    words = expected_command(unit, None, {})
    running = hide_secrets_in(shlex.join(process.command))
    if words is None:
        return ok(f"not compared, because the unit's files do not say all of it: {running}")
    if _is_end_of(words[1:], process.command) or _is_end_of(process.command[1:], words):
        return ok("what runs is what the unit starts")
    return warning(
        f"what runs is not what the unit starts; running: {running}; unit: {hide_secrets_in(shlex.join(words))}",
        "a restore brings back the unit's: restart it once by hand, or write into the unit what is to run",
    )


def _is_end_of(arguments: Sequence[str], command: Sequence[str]) -> bool:
    """Whether a command ends in these arguments: an interpreter or a wrapper may stand before them in one of the two."""
    return bool(arguments) and tuple(command[-len(arguments) :]) == tuple(arguments)
