"""What does a host say about a service, as systemd has loaded it and as it stands right now?

The host is asked rather than its files interpreted: ``busctl`` gives exact arrays where ``systemctl show`` gives text
that cannot be taken apart again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from autotune.deployment.host import Host
from autotune.deployment.host_files import read_file
from autotune.deployment.near_units import missing_unit
from autotune.deployment.systemd_away import ask_systemd
from autotune.deployment.systemd_unit import classify_launch, find_script, list_drop_in_names, validate_unit_name
from autotune.deployment.unit import LaunchKind, Unit, UnitFile, UnitState
from autotune.deployment.unit_file import Word, parse_service
from autotune.deployment.unit_process import GONE, split_assignments
from autotune.deployment.wrapped_command import PREFIXES
from autotune.errors import HostError, SystemdError, UnitStateError, UnitUnsupportedError

_BUS: Final = "org.freedesktop.systemd1"
_REFUSALS: Final = ("RefuseManualStart", "RefuseManualStop")
_UNIT_PROPERTIES: Final = (
    "Id",
    "Names",
    "LoadState",
    "LoadError",
    "FragmentPath",
    "DropInPaths",
    "UnitFileState",
    "NeedDaemonReload",
    "Transient",
    *_REFUSALS,
)
_HOOKS: Final = ("ExecStartPre", "ExecStartPost", "ExecStop", "ExecStopPost")
_SERVICE_PROPERTIES: Final = (
    "Type",
    "Restart",
    "KillMode",
    "User",
    "TimeoutStartUSec",
    "TimeoutStopUSec",
    "ExecStart",
    "Environment",
    "UnsetEnvironment",
    "EnvironmentFiles",
    *_HOOKS,
)
_STATE_PROPERTIES: Final = (
    "LoadState",
    "ActiveState",
    "SubState",
    "Result",
    "NRestarts",
    "MainPID",
    "ExecMainCode",
    "ExecMainStatus",
    "InvocationID",
    "ControlGroup",
)
_FOLDERS: Final = (
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
)
"""Where drop-ins are looked for even if the folder was not there yet when systemd last looked."""
_INFINITE_US: Final = 2**64 - 1
_EXITED: Final = 1
_SCRIPT_LIMIT_BYTES: Final = 256 * 1024


def read_unit(host: Host, name: str, *, follows_alias: bool = False) -> Unit:
    """Read a service with all its drop-ins as systemd has loaded it; nothing is changed.

    A trial's drop-in of ours is part of it while it is there.

    Args:
        host: the machine.
        name: of the service; ``.service`` may be left out.
        follows_alias: whether another name of the service will do; drop-ins and locks need its own.

    Raises:
        UserError: the name is none that systemd accepts for a service.
        UnitStateError: the unit is not there, masked, broken, changed since it was loaded, or of a kind without exactly
            one command that stays; or the name is an alias.
        UnitUnsupportedError: its files cannot be understood safely.
        SystemdError: systemd does not answer.
    """
    name = validate_unit_name(name)
    where = f"{name} on {host.name}"
    facts = _get_properties(host, name, "Unit", _UNIT_PROPERTIES)
    if facts["LoadState"] == "not-found":
        raise missing_unit(host, name)
    _check_loaded(facts, where)
    if facts["Id"] != name and not follows_alias:
        raise UnitStateError(
            f"{name} is only another name of {facts['Id']}", where=where, hint=f"name the unit {facts['Id']}"
        )
    service = _get_properties(host, name, "Service", _SERVICE_PROPERTIES)
    if service["Type"] in {"oneshot", "forking"}:
        raise UnitStateError(
            f"Type={service['Type']} is no service whose first process is the server",
            where=where,
            hint="use Type=simple, exec or notify, with the server itself as the unit's process",
        )
    if len(service["ExecStart"]) != 1:
        raise UnitStateError(
            f"the unit has {len(service['ExecStart'])} commands in ExecStart=, not one",
            where=where,
            hint="leave the one that starts the server; put what comes before it into ExecStartPre=",
        )
    _check_nothing_new(host, facts, where)
    files = _read_files(host, [facts["FragmentPath"], *facts["DropInPaths"]], where)
    argv = _command(service["ExecStart"][0])
    words = _find_words(files, argv, where)
    script = _read_script(host, argv)
    script_text = None if script is None else script.text
    file_variables, unread = _read_file_variables(host, service["EnvironmentFiles"])
    return Unit(
        name=facts["Id"],
        files=files,
        argv=argv,
        words=words,
        environment=split_assignments(service["Environment"]),
        unset_environment=tuple(service["UnsetEnvironment"]),
        environment_files=tuple(path for path, _ in service["EnvironmentFiles"]),
        launch_kind=(kind := classify_launch(argv, script_text)),
        type=service["Type"],
        restart=service["Restart"],
        kill_mode=service["KillMode"],
        user=service["User"] or "root",
        timeout_start_s=_seconds(service["TimeoutStartUSec"]),
        timeout_stop_s=_seconds(service["TimeoutStopUSec"]),
        is_enabled=facts["UnitFileState"] in {"enabled", "enabled-runtime", "alias"},
        needs_reload=facts["NeedDaemonReload"],
        expands_variables=":" not in _prefix(words[0]),
        script=script if kind is LaunchKind.SCRIPT else None,
        file_variables=file_variables,
        unread_environment_files=unread,
        hooks=tuple((hook, _command(command)) for hook in _HOOKS for command in service[hook]),
    )


def read_state(host: Host, name: str) -> UnitState:
    """Ask how a service stands right now, with one command that changes nothing.

    Raises:
        UserError: the name is none that systemd accepts for a service.
        UnitStateError: there is no such unit.
        SystemdError: systemd does not answer.
    """
    name = validate_unit_name(name)
    options = [f"--property={name}" for name in _STATE_PROPERTIES]
    output = ask_systemd(host, ["systemctl", "show", *options, "--", name])
    values = dict(line.partition("=")[::2] for line in output.text.splitlines())
    if output.exit_code != 0 or not set(_STATE_PROPERTIES) <= values.keys():
        raise SystemdError(f"systemctl does not say how {name} stands: {output.complaint}", where=host.name)
    if values["LoadState"] == "not-found" and values["ActiveState"] == "inactive":
        raise missing_unit(host, name)
    code, status = int(values["ExecMainCode"]), int(values["ExecMainStatus"])
    return UnitState(
        active_state=values["ActiveState"],
        sub_state=values["SubState"],
        result=values["Result"],
        restarts=int(values["NRestarts"]),
        main_pid=int(values["MainPID"]) or None,
        exit_code=None if code == 0 else status if code == _EXITED else -status,
        invocation_id=values["InvocationID"],
        control_group=values["ControlGroup"],
    )


def escape_unit_path(name: str) -> str:
    """Escape a unit's name for its D-Bus path.

    >>> escape_unit_path("sglang-ddtree@1.service")
    'sglang_2dddtree_401_2eservice'
    """
    escaped = (
        char
        if re.fullmatch(r"[A-Za-z]" if index == 0 else r"[A-Za-z0-9]", char)
        else "".join(f"_{byte:02x}" for byte in char.encode())
        for index, char in enumerate(name)
    )
    return "".join(escaped) or "_"


def _get_properties(host: Host, name: str, interface: str, properties: Sequence[str]) -> dict[str, Any]:
    """Ask systemd over D-Bus, where lists are lists."""
    path = "/org/freedesktop/systemd1" + (f"/unit/{escape_unit_path(name)}" if interface != "Manager" else "")
    output = ask_systemd(
        host, ["busctl", "--json=short", "get-property", _BUS, path, f"{_BUS}.{interface}", *properties]
    )
    lines = output.text.splitlines()
    if output.exit_code != 0 or len(lines) != len(properties):
        raise SystemdError(
            f"systemd does not describe {name}: {output.complaint}",
            where=host.name,
            hint="`busctl` of systemd 240 or newer and a running D-Bus are needed",
        )
    return {key: json.loads(line)["data"] for key, line in zip(properties, lines, strict=True)}


def _check_loaded(facts: Mapping[str, Any], where: str) -> None:
    if facts["LoadState"] != "loaded":
        if facts["LoadState"] == "masked":
            raise UnitStateError(
                "the unit is masked, so it cannot be started", where=where, hint="`systemctl unmask` it"
            )
        hint = "`systemctl status` and `systemd-analyze verify` say what is wrong with it"
        raise UnitStateError(f"the unit is {facts['LoadState']}: {facts['LoadError'][1]}", where=where, hint=hint)
    refusals = [name for name in _REFUSALS if facts[name]]
    if refusals:
        raise UnitStateError(
            f"{' and '.join(refusals)} is set, so systemd neither starts nor stops it when asked",
            where=where,
            hint="take it out of the unit, or out of a drop-in, and run systemctl daemon-reload",
        )
    if facts["NeedDaemonReload"]:
        raise _changed("its files were changed", where)
    if facts["Transient"]:
        raise UnitUnsupportedError(
            "it is a transient unit, which is gone for good as soon as it stops",
            where=where,
            hint="write a unit file for it and start it from there",
        )
    if not facts["FragmentPath"]:
        raise UnitUnsupportedError("it has no unit file", where=where, hint="write one")


def _check_nothing_new(host: Host, facts: Mapping[str, Any], where: str) -> None:
    """See that no drop-in was added since systemd has read them: it does not notice one in a new folder itself."""
    searched = dict.fromkeys((*_get_properties(host, "", "Manager", ("UnitPath",))["UnitPath"], *_FOLDERS))
    names = dict.fromkeys(found for name in facts["Names"] for found in list_drop_in_names(name))
    folders = [f"{path}/{name}.d" for path in searched for name in names]
    output = host.run(["find", "-L", *folders, "-maxdepth", "1", "-name", "*.conf"], is_idempotent=True)
    known = {path.rpartition("/")[2] for path in facts["DropInPaths"]}
    for path in output.stdout.decode("utf-8", errors="surrogateescape").splitlines():
        if path.rpartition("/")[2] not in known:
            raise _changed(f"{path!r} was added", where)


def _changed(problem: str, where: str) -> UnitStateError:
    return UnitStateError(
        f"{problem} since systemd has read its files, so it is unclear which of them the baseline is",
        where=where,
        hint="run `systemctl daemon-reload`, look at `systemctl cat`, then start again; when this comes again, "
        "`systemd-analyze verify` may name a file that systemd cannot read",
    )


def _read_files(host: Host, paths: Sequence[str], where: str) -> tuple[UnitFile, ...]:
    output = host.run(["stat", "-L", "-c", "%a", "--", *paths], is_idempotent=True)
    modes = output.text.split()
    if any(line.rstrip().endswith(GONE) for line in output.stderr.splitlines()):
        raise _changed("one of its files was removed", where)
    if output.exit_code != 0 or len(modes) != len(paths):
        raise HostError(f"cannot look at the files of the unit: {output.complaint}", where=where)
    return tuple(
        UnitFile(path, _decode(read_file(host, path) or b""), int(mode, 8))
        for path, mode in zip(paths, modes, strict=True)
    )


def _find_words(files: Sequence[UnitFile], argv: Sequence[str], where: str) -> tuple[Word, ...]:
    """Find the command in the files, and see that systemd has understood the same."""
    commands = parse_service("\n\n[]\n".join(file.text.removeprefix("\ufeff") for file in files)).commands
    words = commands[0] if len(commands) == 1 else ()
    expected = words[2:] if words and "@" in _prefix(words[0]) else words[1:]
    if (
        not words
        or len(expected) != len(argv) - 1
        or not all(_may_mean(word.text, text) for word, text in zip(expected, argv[1:], strict=True))
    ):
        raise UnitUnsupportedError(
            "its files read differently here than systemd has understood them",
            where=where,
            hint="look at `systemctl cat` and `systemctl show -p ExecStart`, and write the command more plainly",
        )
    return words


def _may_mean(written: str, resolved: str) -> bool:
    """Whether a word may have become this text: ``%%`` is a percent sign, other specifiers may be anything."""
    parts = re.split(r"(%.)", written, flags=re.DOTALL)
    pattern = "".join(
        "%" if part == "%%" else ".*" if part.startswith("%") and len(part) > 1 else re.escape(part) for part in parts
    )
    return re.fullmatch(pattern, resolved, re.DOTALL) is not None


def _read_script(host: Host, argv: Sequence[str]) -> UnitFile | None:
    """Read the program behind the wrappers, if it is a script of a shell."""
    path = find_script(argv)
    if path is None:
        return None
    output = host.run(["head", "-c", str(_SCRIPT_LIMIT_BYTES), "--", path], is_idempotent=True)
    data = output.stdout if output.exit_code == 0 else read_file(host, path)
    return None if data is None or b"\0" in data[:1024] else UnitFile(path, _decode(data), 0)


def _read_file_variables(host: Host, files: Sequence[tuple[str, bool]]) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """Return which variables the environment files set, and the files of which that is unknown; values are dropped."""
    variables: dict[str, str] = {}
    unread: list[str] = []
    for path, _ in files:
        try:
            data = None if re.search(r"[*?\[]", path) else read_file(host, path)
        except HostError:
            data = None
            unread.append(path)
        else:
            unread += [path] if re.search(r"[*?\[]", path) else []
        names = re.findall(r"^[ \t]*([A-Za-z_][A-Za-z0-9_]*)[ \t]*=", _decode(data or b""), re.MULTILINE)
        variables |= dict.fromkeys(names, path)
    return variables, tuple(unread)


def _command(entry: Sequence[Any]) -> tuple[str, ...]:
    """Path and arguments; a first word of its own (prefix ``@``) is left out."""
    return (entry[0], *entry[1][1:])


def _prefix(word: Word) -> str:
    return word.text[: len(word.text) - len(word.text.lstrip(PREFIXES))]


def _seconds(microseconds: int) -> float | None:
    return None if microseconds == _INFINITE_US else microseconds / 1e6


def _decode(data: bytes) -> str:
    return data.decode("utf-8", errors="backslashreplace")
