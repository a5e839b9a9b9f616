"""Which drop-in puts a configuration into a unit, and has systemd loaded it as it was meant? Pure.

It is rendered around the unit's own command without an earlier export of ours, so that exporting twice is the same as
exporting once, and a flag that the earlier one had does not live on.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from autotune.deployment.unit import Unit
from autotune.deployment.unit_file import parse_service, parse_settings, split_words
from autotune.export.provenance import HIDDEN, hide_secret_arguments, is_secret


def without_file(unit: Unit, path: str) -> Unit:
    """Return a unit as if one of its files did not exist, as far as files decide: command as written and variables.

    The argument vector is kept only when the file was not there; systemd would have to say it otherwise.
    """
    files = tuple(file for file in unit.files if file.path != path)
    if len(files) == len(unit.files):
        return unit
    # A section of its own between two files, so that none goes on in the next one.
    text = "\n\n[Unit]\n".join(file.text for file in files)
    service = parse_service(text)
    unset: list[str] = []
    for key, value in parse_settings(text):
        if key == "UnsetEnvironment":
            unset = [*unset, *(word.text for word in split_words(value))] if value else []
    return replace(
        unit,
        files=files,
        words=service.commands[0] if len(service.commands) == 1 else (),
        environment=dict(service.environment),
        unset_environment=tuple(unset),
    )


def find_loaded_differences(unit: Unit, text: str, path: str) -> tuple[str, ...]:
    """Say in which respects systemd has loaded something else than a drop-in says; empty when it is as meant.

    Words with a specifier or a variable are compared as they are written, all others as systemd resolved them.
    """
    found = []
    if all(file.path != path for file in unit.files):
        found.append(f"{path} is not among its files")
    wanted = parse_service(text)
    if wanted.commands:
        words = wanted.commands[0]
        same_length = len(words) == len(unit.argv)
        differs = [
            (word.text, given)
            for word, given in zip(words, unit.argv, strict=False)
            if "$" not in word.text and "%" not in word.text.replace("%%", "") and word.text.replace("%%", "%") != given
        ]
        # A prefix of the program, as in ExecStart=-/usr/bin/x, is no part of the argument vector.
        differs = [(text, given) for text, given in differs if text.lstrip("-@:+!") != given]
        if not same_length or differs:
            first = f": {differs[0][1]!r} in place of {differs[0][0]!r}" if differs else ""
            found.append(f"its command is another one{first}")
    found += [
        f"variable {name} is {'not set' if name not in unit.environment else 'another'}"
        for name, value in wanted.environment.items()
        if unit.environment.get(name) != value
    ]
    return tuple(found)


def is_same_setting(first: bytes | None, second: bytes) -> bool:
    """Whether two drop-ins say the same to systemd: everything but comments, where the time of writing stands."""
    return first is not None and _settings(first) == _settings(second)


def render_diff(before: bytes | None, after: bytes | None, path: str) -> list[str]:
    """Return the lines of a unified diff, values that look secret hidden; empty when nothing differs."""
    lines = difflib.unified_diff(
        _shown(before),
        _shown(after),
        fromfile=path if before is not None else "/dev/null",
        tofile=path if after is not None else "/dev/null",
        lineterm="",
    )
    return list(lines)


def choose_mode(existing: int | None, modes: Sequence[int]) -> int:
    """Return the permission bits for the drop-in: those it has, else no more open than the unit's other files.

    >>> oct(choose_mode(None, [0o644, 0o600])), oct(choose_mode(0o640, [0o644]))
    ('0o600', '0o640')
    """
    if existing is not None:
        return existing
    mode = 0o644
    for other in modes:
        mode &= other
    return mode | 0o600


def tuned_values(argv: Sequence[str], tuned: Mapping[str, bool]) -> dict[str, str | None]:
    """Return the tuned flags that a command has, with their values; ``None`` for a flag without one.

    >>> tuned_values(["x", "--port", "1", "--budget", "8", "--fast"], {"--budget": True, "--fast": False})
    {'--budget': '8', '--fast': None}
    """
    found: dict[str, str | None] = {}
    for index, word in enumerate(argv):
        name, separator, value = word.partition("=")
        if name not in tuned:
            continue
        if separator:
            found[name] = value
        else:
            found[name] = argv[index + 1] if tuned[name] and index + 1 < len(argv) else None
    return found


def _settings(data: bytes) -> list[bytes]:
    return [line for line in data.splitlines() if line.strip() and not line.lstrip().startswith((b"#", b";"))]


def _shown(data: bytes | None) -> list[str]:
    if data is None:
        return []
    text = data.decode("utf-8", errors="backslashreplace")
    return [_hide(line) for line in text.splitlines()]


def _hide(line: str) -> str:
    """Hide what looks secret in one line of a unit file."""
    variable = re.match(r"(Environment=\"?([A-Za-z_][A-Za-z0-9_]*)=).+", line)
    if variable is not None and is_secret(variable[2]):
        return f"{variable[1]}{HIDDEN}"
    return " ".join(hide_secret_arguments(line.split(" ")))
