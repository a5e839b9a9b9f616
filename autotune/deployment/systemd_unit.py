"""How does a trial change a service? Its name, its kind of launch, what stands in the way, and our drop-in. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import PurePath
from typing import Final

from autotune.deployment.drop_in import quote_as_written, render_argument, render_header, render_variable
from autotune.deployment.hook_fit import find_environment_file
from autotune.deployment.launch_script import check_script, is_shell_script, join_arguments
from autotune.deployment.shell_line import exchange_arguments, find_line, find_program, is_shell
from autotune.deployment.shell_tokens import split_source
from autotune.deployment.unit import LaunchKind, Unit, UnitFile
from autotune.deployment.unit_file import parse_settings, replace_flags
from autotune.deployment.wrapped_command import PREFIXES, find_environment_wall, runs_container, skip_wrappers
from autotune.draft_hook import VARIABLES
from autotune.errors import UnitUnsupportedError, UserError
from autotune.servers.base import LaunchSpec

TRIAL_DROP_IN: Final = "zzz-autotune-trial.conf"
"""Name of the file that holds a trial; it sorts after what people and packages name theirs."""

TRIAL_FOLDER: Final = "/run/systemd/system"

_NAME: Final = re.compile(r"[A-Za-z0-9:_.\\-]+(@[A-Za-z0-9:_.\\@-]*)?")
_SUFFIXES: Final = (
    ".service",
    ".socket",
    ".target",
    ".device",
    ".mount",
    ".automount",
    ".swap",
    ".timer",
    ".path",
    ".slice",
    ".scope",
    ".snapshot",
)
_NAME_LIMIT: Final = 253  # of a file's 255, because drop-ins lie in a folder named UNIT.d
_LINE_LIMIT_BYTES: Final = 2**20 - 1
_ARGUMENT_LIMIT_BYTES: Final = 128 * 1024 - 1
TRIAL_SETTINGS: Final = frozenset(
    {
        "ExecStart",
        "Restart",
        "RestartForceExitStatus",
        "RemainAfterExit",
        "TimeoutSec",
        "TimeoutStartSec",
        "TimeoutStopSec",
    }
)
_VARIABLE_SETTINGS: Final = frozenset({"Environment", "UnsetEnvironment", "EnvironmentFile", "PassEnvironment"})


def validate_unit_name(name: str) -> str:
    r"""Return the name of a service with its suffix.

    >>> validate_unit_name("sglang-ddtree"), validate_unit_name("llm@8.service")
    ('sglang-ddtree.service', 'llm@8.service')

    Raises:
        UserError: systemd has no service that is named so.
    """
    full = name if name.endswith(tuple(_SUFFIXES)) else f"{name}.service"
    stem = full.removesuffix(".service")
    problem = ""
    if not full.endswith(".service"):
        problem = "it is not a service"
    elif not _NAME.fullmatch(stem) or name.startswith(("-", ".")):
        problem = "only letters, digits and : _ . \\ - are allowed, and @ before an instance"
    elif len(full) > _NAME_LIMIT:
        problem = f"it is longer than {_NAME_LIMIT} characters"
    elif stem.endswith("@"):
        problem = "it is a template; name one of its instances"
    if problem:
        raise UserError(f"{name!r} is not the name of a service: {problem}", hint="for example sglang-ddtree.service")
    return full


def trial_drop_in_path(unit_name: str) -> str:
    """Return where the drop-in of a trial is written: below ``/run``, so that a reboot takes it away."""
    return f"{TRIAL_FOLDER}/{unit_name}.d/{TRIAL_DROP_IN}"


def list_drop_in_names(unit_name: str) -> tuple[str, ...]:
    """Return the names whose ``.d`` folders hold drop-ins of a service, the most specific first.

    >>> list_drop_in_names("llm-gpu@8.service")
    ('llm-gpu@8.service', 'llm-gpu@.service', 'llm-.service', 'service')
    """
    stem = unit_name.removesuffix(".service")
    template, at, _ = stem.partition("@")
    parts = template.split("-")
    prefixes = ["-".join(parts[:count]) + "-.service" for count in range(len(parts) - 1, 0, -1)]
    names = [unit_name, *([f"{template}@.service"] if at else []), *prefixes, "service"]
    return tuple(dict.fromkeys(names))


def find_script(argv: Sequence[str]) -> str | None:
    """Return which file must be read to know how a command starts its server; ``None`` when none has to be.

    Raises:
        UnitUnsupportedError: it cannot be told which file that is.
    """
    line = find_line(argv)
    command = tuple(argv) if line is None else find_program(argv[line])
    program = skip_wrappers(command)
    if runs_container(command) or program >= len(command):
        return None
    if is_shell(command[program]):
        program = next((i for i in range(program + 1, len(command)) if not command[i].startswith(("-", "+"))), program)
        if is_shell(command[program]):
            return None
    path = command[program].lstrip(PREFIXES) if program == 0 and line is None else command[program]
    is_script_of_shell = program > 0 and is_shell(command[program - 1])
    if ("$" in path or "`" in path) or (not path.startswith("/") and ("/" in path or is_script_of_shell)):
        raise UnitUnsupportedError(
            f"it cannot be told which program {path} is", where=" ".join(argv), hint="write its full path into the unit"
        )
    return path if path.startswith("/") else None


def classify_launch(argv: Sequence[str], script_text: str | None = None) -> LaunchKind:
    """Say how a command starts its server.

    Args:
        argv: the command of the unit.
        script_text: content of :func:`find_script`'s file, where that is text.

    Raises:
        UnitUnsupportedError: it cannot be told.
    """
    line = find_line(argv)
    if runs_container(argv) or (line is not None and runs_container(find_program(argv[line]))):
        return LaunchKind.CONTAINER
    if script_text is not None and is_shell_script(script_text):
        return LaunchKind.SCRIPT
    program = skip_wrappers(argv)
    if script_text is not None and line is None and program < len(argv) and is_shell(argv[program]):
        return LaunchKind.SCRIPT  # `bash start.sh` needs no first line that names a shell
    return LaunchKind.DIRECT if line is None else LaunchKind.SHELL


def render_trial_drop_in(
    unit: Unit,
    launch: LaunchSpec | None,
    tuned_flags: Mapping[str, bool],
    *,
    stop_timeout_s: float,
    start_timeout_s: float,
    arguments_variable: str,
    header: Sequence[str] = (),
) -> str:
    """Render the drop-in of one boot.

    Args:
        unit: the service without a drop-in of ours.
        launch: what to start; ``None`` boots the baseline, which keeps the unit's own command and variables.
        tuned_flags: every flag that a configuration may set, and whether it has a value of its own word.
        stop_timeout_s: patience with a stopping server, in seconds.
        start_timeout_s: patience with a starting one, in seconds; infinite for none.
        arguments_variable: variable that hands the flags to a script.
        header: comment lines; untrusted text is welcome.

    Raises:
        UnitUnsupportedError: the flags or variables cannot be handed to this unit's server.
        UserError: a value cannot be written into a unit file.
    """
    lines = [
        *render_header(header),
        "[Service]",
        "Restart=no",
        "RestartForceExitStatus=",
        "RemainAfterExit=no",
        f"TimeoutStartSec={_seconds(start_timeout_s)}",
        f"TimeoutStopSec={_seconds(stop_timeout_s)}",
    ]
    if launch is not None:
        lines += render_launch(unit, launch, tuned_flags, arguments_variable)
    return "\n".join(lines) + "\n"


def render_launch(
    unit: Unit, launch: LaunchSpec, tuned_flags: Mapping[str, bool], arguments_variable: str
) -> list[str]:
    """Render the lines of ``[Service]`` that exchange flags and variables; else as :func:`render_trial_drop_in`."""
    _check_sizes(launch)
    variables = dict(launch.environment)
    command = _render_command(unit, launch, tuned_flags, arguments_variable)
    if unit.launch_kind is LaunchKind.SCRIPT:
        variables[arguments_variable] = join_arguments(launch.arguments, arguments_variable)
    lines = _render_variables(unit, variables, VARIABLES if launch.loads_hook else ())
    lines += [] if command is None else ["ExecStart=", f"ExecStart={command}"]
    long = next((line for line in lines if len(line.encode()) > _LINE_LIMIT_BYTES), None)
    if long is not None:
        raise UnitUnsupportedError(f"a line of {len(long)} characters is longer than systemd reads", where=unit.name)
    return lines


def find_conflicts(
    unit: Unit,
    drop_in_name: str,
    variables: Collection[str] | None = None,
    *,
    folder: str = TRIAL_FOLDER,
    settings_set: Collection[str] = TRIAL_SETTINGS,
) -> tuple[str, ...]:
    """Say which files of a unit would undo a drop-in of ours, one sentence each; empty when none would.

    Args:
        unit: the service.
        drop_in_name: file name of our drop-in in the unit's folder.
        variables: those that we set; ``None`` stands for any.
        folder: where the folder of the unit is.
        settings_set: settings that ours makes, or that would undo it.
    """
    ours = f"{folder}/{unit.name}.d/{drop_in_name}"
    found = []
    for file in unit.files[1:]:
        name = PurePath(file.path).name
        if file.path == ours:
            continue
        if name == drop_in_name:
            found.append(f"{file.path} has the name of our drop-in, and systemd reads only one of the two: rename it")
        elif name.encode() > drop_in_name.encode() and (
            settings := _conflicting_settings(file, variables, settings_set)
        ):
            found.append(
                f"{file.path} is read after our drop-in and sets {', '.join(settings)}: give it a name that sorts before "
                f"{drop_in_name}"
            )
    return tuple(found)


def _conflicting_settings(
    file: UnitFile, variables: Collection[str] | None, settings_set: Collection[str]
) -> list[str]:
    settings: dict[str, None] = {}
    for key, value in parse_settings(file.text):
        names = {word.partition("=")[0].strip("\"'") for word in value.split()}
        is_variable = key in _VARIABLE_SETTINGS and (
            variables is None
            or not value
            or (key == "EnvironmentFile" and bool(variables))
            or bool(names & set(variables))
        )
        if key in settings_set or is_variable:
            settings[f"{key}="] = None
    return list(settings)


def _render_command(unit: Unit, launch: LaunchSpec, tuned: Mapping[str, bool], arguments_variable: str) -> str | None:
    """Render ``ExecStart=``; ``None`` when the unit's own stays."""
    where = unit.name
    if unit.launch_kind is LaunchKind.CONTAINER:
        raise UnitUnsupportedError(
            "a container tool starts the server: its command line is not the server's, and its processes are not the unit's",
            where=where,
            hint='run the server itself as the service, or run autotune inside the container with kind = "local"',
        )
    line = _written_line(unit)
    _check_variables_arrive(unit, line, launch)
    if unit.launch_kind is LaunchKind.SCRIPT:
        if unit.script is None:
            raise UnitUnsupportedError("the start script cannot be read", where=where, hint="see who may read it")
        if line is not None:
            exchange_arguments(line, {}, ())  # its own exec must reach the script
        check_script(unit.script.text, unit.script.path, arguments_variable, tuned)
        return None
    _check_variables(unit, tuned)
    if unit.launch_kind is LaunchKind.DIRECT:
        _check_end_of_options(unit.argv, where)
        return replace_flags(unit.words, tuned, launch.arguments, expands_variables=unit.expands_variables)
    index = find_line(unit.argv)
    if index is None or line is None:
        raise UnitUnsupportedError("the line of the shell is not in the unit's files", where=where)
    if unit.expands_variables and re.match(r"\$[^${]", line):
        raise UnitUnsupportedError("the line of the shell is the value of a variable", where=where, hint="write it out")
    exchanged = exchange_arguments(
        line, tuned, launch.arguments, write=lambda text: _double(text, is_variable=unit.expands_variables)
    )
    words = [word.raw for word in unit.words]
    words[index + len(unit.words) - len(unit.argv)] = quote_as_written(exchanged)
    return " ".join(words)


def _written_line(unit: Unit) -> str | None:
    """Return the line for a shell as the unit's files have it; the prefix ``@`` puts one more word before it."""
    index = find_line(unit.argv)
    return None if index is None else unit.words[index + len(unit.words) - len(unit.argv)].text


def _check_variables_arrive(unit: Unit, line: str | None, launch: LaunchSpec) -> None:
    """See that nothing between systemd and the server drops or replaces the variables of a launch."""
    inner = () if line is None else find_program(line)
    script = "" if unit.script is None else unit.script.text
    wall = next(filter(None, map(find_environment_wall, (unit.argv, inner, find_program(script)))), None)
    is_needed = unit.launch_kind is LaunchKind.SCRIPT or any(value is not None for value in launch.environment.values())
    if wall is not None and is_needed:
        raise UnitUnsupportedError(
            f"{wall} keeps variables from the server", where=unit.name, hint="use User= and Environment= instead"
        )
    words = list(unit.argv[: skip_wrappers(unit.argv)])
    for source in (line or "", script):
        words += [token.text for token in split_source(source) if token.is_word]
    for name in launch.environment:
        if any(re.match(rf"{name}\+?=", word) for word in words):
            raise UnitUnsupportedError(
                f"the command itself sets the variable {name}, whatever the unit says",
                where=unit.name,
                hint=f"move it into the unit: Environment={name}=...",
            )


def _render_variables(unit: Unit, variables: Mapping[str, str | None], in_file: Collection[str]) -> list[str]:
    """Render variables so that neither ``UnsetEnvironment=`` nor an ``EnvironmentFile=`` of the unit undoes them.

    Those that a file of ours holds come by an ``EnvironmentFile=``: the last one wins over all others.
    """
    wanted = {name for name, value in variables.items() if value is not None}
    direct = wanted.difference(in_file)
    for name in sorted(direct):
        if name in unit.file_variables:
            raise UnitUnsupportedError(
                f"{unit.file_variables[name]} sets {name} too, and an EnvironmentFile= wins over Environment=",
                where=unit.name,
                hint=f"move {name} from that file into Environment=",
            )
    if direct and unit.unread_environment_files:
        raise UnitUnsupportedError(
            f"what {', '.join(unit.unread_environment_files)} sets cannot be read, and it would win over Environment=",
            where=unit.name,
            hint="name each file without * and ?, and let this user read it with sudo",
        )
    lines = [render_variable(name, value) for name, value in variables.items() if name not in in_file]
    lines += [f"EnvironmentFile=-{find_environment_file(unit.name)}"] if in_file else []
    kept = [item for item in unit.unset_environment if item.partition("=")[0] not in wanted]
    if len(kept) == len(unit.unset_environment):
        return lines
    again = [f"UnsetEnvironment={render_argument(item, expands_variables=False)}" for item in kept]
    return ["UnsetEnvironment=", *again, *lines]


def _check_sizes(launch: LaunchSpec) -> None:
    for word in (*launch.arguments, *(value or "" for value in launch.environment.values())):
        if len(word.encode("utf-8", "surrogatepass")) > _ARGUMENT_LIMIT_BYTES:
            raise UnitUnsupportedError(f"the value {word[:40]!r}... is longer than a process can be given")


def _check_variables(unit: Unit, tuned: Mapping[str, bool]) -> None:
    """See that no variable of the unit brings a tuned flag into the command, where it could not be taken out."""
    text = " ".join(word.text for word in unit.words)
    for name in dict.fromkeys(re.findall(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)", text)):
        flag = next((word for word in unit.environment.get(name, "").split() if word.partition("=")[0] in tuned), None)
        if flag is not None:
            raise UnitUnsupportedError(
                f"the variable {name} brings {flag} into the command, where it cannot be exchanged",
                where=unit.name,
                hint=f"write {flag} into ExecStart= itself",
            )


def _check_end_of_options(texts: Sequence[str], where: str) -> None:
    """See that flags at the end are flags: behind a ``--`` of the server's own they would be plain words."""
    program = skip_wrappers(texts)
    behind = [index for index in range(program + 1, len(texts)) if texts[index] == "--"]
    if behind and (behind[-1] + 1 == len(texts) or texts[behind[-1] + 1].startswith("-")):
        raise UnitUnsupportedError(
            "its command has a -- behind which flags are plain words", where=where, hint="remove the --"
        )


def _double(text: str, *, is_variable: bool) -> str:
    doubled = text.replace("%", "%%")
    return doubled.replace("$", "$$") if is_variable else doubled


def _seconds(seconds: float) -> str:
    return "infinity" if math.isinf(seconds) else f"{math.ceil(seconds)}s"
