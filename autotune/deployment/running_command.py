"""Is a running process what a unit and a launch ask for, and which tuned flags does it have? Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autotune.deployment.shell_line import find_line, find_program
from autotune.deployment.unit import LaunchKind, Unit
from autotune.deployment.unit_file import find_kept
from autotune.servers.base import LaunchSpec


def tuned_part(words: Sequence[str], tuned_flags: Mapping[str, bool]) -> tuple[str, ...]:
    """Return the tuned flags of a command with their values, in order and as they are given.

    >>> tuned_part(["srv", "--budget=16", "--port", "1", "--window", "8"], {"--budget": True, "--window": True})
    ('--budget=16', '--window', '8')
    """
    kept = find_kept(words, tuned_flags)
    return tuple(word for word, is_kept in zip(words, kept, strict=True) if not is_kept)


def expected_command(unit: Unit, launch: LaunchSpec | None, tuned_flags: Mapping[str, bool]) -> tuple[str, ...] | None:
    """Return the words that the server is started with, as far as the unit's files say; ``None`` when they do not.

    Wrappers and the interpreter are part of them. Of a script nothing is known, nor of words that systemd or a shell
    expands.

    Args:
        unit: the service without a drop-in of ours.
        launch: what is started; ``None`` for the baseline.
        tuned_flags: flags that a configuration may set, and whether each has a value of its own word.
    """
    words = _server_words(unit)
    if words is None:
        return None
    if launch is None:
        return words
    kept = find_kept(words, tuned_flags)
    return (*(word for word, is_kept in zip(words, kept, strict=True) if is_kept), *launch.arguments)


def find_command_differences(
    unit: Unit, launch: LaunchSpec | None, tuned_flags: Mapping[str, bool], command: Sequence[str]
) -> tuple[str, ...]:
    """Say in which respects a running process is not what a launch asks for; empty when it is.

    Every argument of the launch must be there and in effect, no other tuned flag may be left over, also not shortened,
    and words that are known to be there must be there in their order.

    Args:
        unit: the service without a drop-in of ours.
        launch: what was to be started; ``None`` for the baseline.
        tuned_flags: flags that a configuration may set, and whether each has a value of its own word.
        command: argument vector of the running process.
    """
    if not command:
        return ("the process shows no command",)
    found: list[str] = []
    expected = expected_command(unit, launch, tuned_flags)
    wanted_words = launch.arguments if launch is not None else expected
    if wanted_words is not None:
        wanted, running = _values(wanted_words, tuned_flags), _values(command, tuned_flags)
        if launch is not None and len(command) == 1 and launch.arguments:
            return (f"the process calls itself {command[0]!r} and shows no arguments",)
        for flag in sorted({*wanted, *running}):
            has, wants = running.get(flag), wanted.get(flag)
            if has != wants:
                found.append(_compare(flag, has, wants))
    for word in command:
        flag = word.partition("=")[0]
        full = next((name for name in tuned_flags if _abbreviates(flag, name)), None)
        if full is not None:
            found.append(f"{flag} is short for {full}, which the server takes as that flag")
    behind = command[len(command) - 1 - command[::-1].index("--") :] if "--" in command else ()
    if any(word.partition("=")[0] in tuned_flags for word in behind) and find_kept([behind[1]], tuned_flags) == [False]:
        found.append("flags stand behind a --, where they are plain words")
    return tuple(found)


def find_hidden_flags(unit: Unit, tuned_flags: Mapping[str, bool], command: Sequence[str]) -> tuple[str, ...]:
    """Return the tuned flags of the unit's running process that its files do not show: a variable brings them.

    They cannot be taken out. Of a script nothing is known, so none are returned.

    Args:
        unit: the service without a drop-in of ours.
        tuned_flags: flags that a configuration may set, and whether each has a value of its own word.
        command: argument vector of the process that runs the unit's own command.
    """
    if unit.launch_kind not in {LaunchKind.DIRECT, LaunchKind.SHELL}:
        return ()
    shown = _values(_written_words(unit), tuned_flags)
    return tuple(flag for flag in _values(command, tuned_flags) if flag not in shown)


def _compare(flag: str, has: str | None, wants: str | None) -> str:
    if has is None:
        return f"{flag} is missing" + (f", it should be {wants}" if wants else "")
    if wants is None:
        return f"{flag} is left over" + (f" with {has}" if has else "")
    return f"{flag} is {has or 'without a value'}, not {wants or 'without a value'}"


def _values(words: Sequence[str], tuned: Mapping[str, bool]) -> dict[str, str | None]:
    """The value in effect of each tuned flag: the last one counts; empty for a switch."""
    values: dict[str, str | None] = {}
    flag: str | None = None
    for word in words:
        name, separator, value = word.partition("=")
        if flag is not None and not word.startswith("--"):
            values[flag] = word
            flag = None
        elif word in tuned:
            values[word] = ""
            flag = word if tuned[word] else None
        else:
            flag = None
            if separator and name in tuned:
                values[name] = value
    return values


def _abbreviates(word: str, flag: str) -> bool:
    """Whether argparse would take a word for a flag; a word that ends where a part of the flag ends is another flag."""
    return (
        len(word) > len("--x")
        and flag != word
        and flag.startswith(word)
        and flag[len(word)] != "-"
        and word.startswith("--")
    )


def _server_words(unit: Unit) -> tuple[str, ...] | None:
    """The words of the server's command; ``None`` where something expands in them, or a script has them."""
    if unit.launch_kind not in {LaunchKind.DIRECT, LaunchKind.SHELL}:
        return None
    words = _written_words(unit)
    return None if any("$" in word or "`" in word for word in words) else words


def _written_words(unit: Unit) -> tuple[str, ...]:
    index = find_line(unit.argv) if unit.launch_kind is LaunchKind.SHELL else None
    return unit.argv if index is None else find_program(unit.argv[index])[1:]
