"""Are two command lines the same server? Pure comparison of argument vectors, blind to interpreter and flag order."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from autotune.servers.base import LaunchSpec

_INTERPRETER = re.compile(r"(python|pypy)[\d.]*t?")
_NEGATIVE_NUMBER = re.compile(r"-\.?\d.*")
_ADDRESS_FLAGS = ("--host", "--port")


@dataclass(frozen=True, slots=True)
class CommandLine:
    """An argument vector taken apart.

    Attributes:
        program: module, script or executable that runs, without folder, interpreter and ``.py``.
        words: positional arguments in order.
        flags: values by flag; an empty tuple for a switch. A repeated flag keeps all its values.
    """

    program: str
    words: tuple[str, ...]
    flags: Mapping[str, tuple[str, ...]]


def parse_command(command: Sequence[str]) -> CommandLine:
    """Take an argument vector apart; an empty one has the program ``""``.

    >>> parse_command(["/usr/bin/python3.11", "-u", "-m", "autotune", "serve", "--port=1", "--fast"])
    CommandLine(program='autotune', words=('serve',), flags={'--port': ('1',), '--fast': ()})
    """
    program, rest = _split_program(list(command))
    words: list[str] = []
    flags: dict[str, tuple[str, ...]] = {}
    flag: str | None = None
    for word in rest:
        if word.startswith("-") and len(word) > 1 and not _NEGATIVE_NUMBER.fullmatch(word):
            flag, has_value, value = word.partition("=")
            flags[flag] = flags.get(flag, ()) + ((value,) if has_value else ())
            flag = None if has_value else flag
        elif flag is None:
            words.append(word)
        else:
            flags[flag] = (*flags[flag], word)
    return CommandLine(program, tuple(words), flags)


def find_differences(
    command: Sequence[str], environment: Mapping[str, str] | None, launch: LaunchSpec
) -> tuple[str, ...]:
    """Say in which respects a running process is not what a launch would start; empty when it is the same.

    Host and port are compared only where both sides state them: whoever asks knows the address by other means.

    Args:
        command: argument vector of the running process.
        environment: its variables; ``None`` when they cannot be read, which is a difference only if any matter.
        launch: what would be started; only the variables it names are compared.
    """
    running, wanted = parse_command(command), parse_command(launch.command)
    if running.program != wanted.program:
        return (f"it runs {running.program or 'an unknown program'}, not {wanted.program}",)
    differences = []
    if running.words != wanted.words:
        differences.append(f"its arguments are {' '.join(running.words)!r}, not {' '.join(wanted.words)!r}")
    for flag in sorted({*running.flags, *wanted.flags}):
        has, wants = running.flags.get(flag), wanted.flags.get(flag)
        if has != wants and not (flag in _ADDRESS_FLAGS and (has is None or wants is None)):
            wish = "but should not be given" if wants is None else f"not {_say(wants)}"
            differences.append(f"{flag} is {_say(has)}, {wish}")
    if environment is None and launch.environment:
        differences.append("its environment cannot be read")
    for name, value in launch.environment.items():
        found = None if environment is None else environment.get(name)
        if environment is not None and found != value:
            differences.append(
                f"the variable {name} {'differs' if found and value else 'is set' if found else 'is not set'}"
            )
    return tuple(differences)


def _say(values: tuple[str, ...] | None) -> str:
    if values is None:
        return "not given"
    return " ".join(values) if values else "switched on"


def _split_program(command: list[str]) -> tuple[str, list[str]]:
    """Return the name of what runs and its arguments, with the interpreter and its options taken off."""
    if not command:
        return "", []
    if not _INTERPRETER.fullmatch(PurePath(command[0]).name):
        return _name_script(command[0]), command[1:]
    rest = command[1:]
    while rest:
        option = rest.pop(0)
        if option == "-m" and rest:
            return rest.pop(0).removesuffix(".__main__"), rest
        if option == "-c":
            return "-c", rest
        if option in ("-W", "-X") and rest:
            rest.pop(0)
        elif not option.startswith("-"):
            return _name_script(option), rest
    return PurePath(command[0]).name, []


def _name_script(path: str) -> str:
    script = PurePath(path)
    return script.parent.name if script.name == "__main__.py" else script.name.removesuffix(".py")
