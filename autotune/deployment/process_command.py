"""Does a process run the command that its unit has? Pure comparison, knowing what systemd and the kernel do to words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from autotune.deployment.command_line import find_differences
from autotune.deployment.wrapped_command import skip_wrappers
from autotune.servers.base import LaunchSpec

_BRACED = re.compile(r"\$\$|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}")
_WHOLE = re.compile(r"\$(?P<name>[A-Za-z_][A-Za-z0-9_]*)")


def expand_variables(argv: Sequence[str], environment: Mapping[str, str]) -> tuple[str, ...]:
    """Expand variables of a command as systemd does when it starts it.

    >>> expand_variables(["/bin/x", "$ARGS", "--home=${HOME}", "$$5", "a$ARGS"], {"ARGS": "-a  -b", "HOME": "/r"})
    ('/bin/x', '-a', '-b', '--home=/r', '$5', 'a$ARGS')
    """
    words: list[str] = list(argv[:1])
    for word in argv[1:]:
        whole = _WHOLE.fullmatch(word)
        if whole is not None:
            words += environment.get(whole["name"], "").split()
        else:
            words.append(
                _BRACED.sub(lambda match: "$" if match["name"] is None else environment.get(match["name"], ""), word)
            )
    return tuple(words)


def explain_other_command(
    argv: Sequence[str], command: Sequence[str], environment: Mapping[str, str] | None, *, expands_variables: bool
) -> tuple[str, ...]:
    """Say in which respects a process does not run a unit's command; empty when it does or when that cannot be seen.

    An interpreter that the kernel has put before a script is no difference, nor are ``env``, ``numactl`` and the like,
    which have become the server. A process that shows a title instead of
    its arguments cannot be compared.

    Args:
        argv: the unit's command.
        command: the process's.
        environment: its variables; ``None`` when they may not be read.
        expands_variables: whether systemd expands variables in this command.
    """
    if expands_variables and environment is None and any("$" in word for word in argv):
        return ()
    expected = expand_variables(argv, environment or {}) if expands_variables else tuple(argv)
    behind = expected[skip_wrappers(expected) :] or expected  # a wrapper that has done its part is gone
    if len(expected) == 1 or any(_ends_in(command, words[1:]) for words in (expected, behind)) or has_title(command):
        return ()
    return find_differences(command, None, LaunchSpec(behind, {}))


def _ends_in(command: Sequence[str], arguments: Sequence[str]) -> bool:
    return bool(arguments) and tuple(command[-len(arguments) :]) == tuple(arguments)


def explain_other_variables(launch: LaunchSpec, environment: Mapping[str, str] | None) -> tuple[str, ...]:
    """Say which variables of a process are not those of a launch; values may be secrets and are not shown.

    Args:
        launch: what was to be started; only the variables that it names are compared.
        environment: the process's; ``None`` when it may not be read, which is a difference only if any matter.
    """
    if environment is None:
        return ("its environment cannot be read",) if launch.environment else ()
    return tuple(
        f"the variable {name} {'is not set' if name not in environment else 'is set' if value is None else 'differs'}"
        for name, value in launch.environment.items()
        if environment.get(name) != value
    )


def has_title(command: Sequence[str]) -> bool:
    """Whether a process has replaced its arguments by a title, as some servers do.

    >>> has_title(["sglang::launch_server"]), has_title(["/bin/server", "--port", "1"])
    (True, False)
    """
    return len([word for word in command if word]) <= 1
