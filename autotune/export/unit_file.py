"""What does a systemd unit start, word by word, and how does its command read with other flags? Pure.

Unit files are no INI files: settings repeat, an empty one empties its list, lines go on after a backslash, and quotes
work inside words. Words that stay are kept as they were written, so that what systemd expands in them goes on working.
The rules are systemd 252's; the tests ask systemd itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from autotune.errors import UserError
from autotune.export.drop_in import render_command

_WHITESPACE = " \t\n\r"
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "s": " ", '"': '"', "'": "'"}
_ESCAPES["\\"] = "\\"
_CODES = {"x": (2, 16), "u": (4, 16), "U": (8, 16)}


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a setting.

    Attributes:
        raw: as it is written in the file.
        text: what it means once quotes and escapes are read; ``%`` and ``$`` stand as they are written.
    """

    raw: str
    text: str


@dataclass(frozen=True, slots=True)
class ServiceSection:
    """What the ``[Service]`` section of a unit says about its process.

    Attributes:
        commands: the words of each ``ExecStart=``.
        environment: variables of all ``Environment=``, later ones replacing earlier ones.
    """

    commands: tuple[tuple[Word, ...], ...]
    environment: Mapping[str, str]


def parse_service(text: str) -> ServiceSection:
    r"""Read the service section of a unit file, or of a unit file with its drop-ins one after the other.

    >>> service = parse_service('[Service]\nEnvironment="A=x y" B=2\nExecStart=/bin/x "a b" \\\n # why\n --port 1\n')
    >>> [word.text for word in service.commands[0]], service.environment
    (['/bin/x', 'a b', '--port', '1'], {'A': 'x y', 'B': '2'})

    Raises:
        UserError: a quote is not closed or an escape is unknown; systemd would ignore such a line.
    """
    section = ""
    commands: list[tuple[Word, ...]] = []
    environment: dict[str, str] = {}
    for line in _logical_lines(text):
        if line.startswith("["):
            section = line.strip("[] ")
            continue
        key, separator, value = line.partition("=")
        if section != "Service" or not separator:
            continue
        words = tuple(split_words(value.strip(_WHITESPACE)))
        if key.strip(_WHITESPACE) == "ExecStart":
            commands = [*commands, words] if words else []
        elif key.strip(_WHITESPACE) == "Environment":
            environment = {**environment, **_assignments(words)} if words else {}
    return ServiceSection(tuple(commands), environment)


def replace_flags(command: Sequence[Word], tuned: Mapping[str, bool], arguments: Sequence[str]) -> str:
    """Render a command with other values of some flags; everything else stays, in order and as it was written.

    Args:
        command: the words of an ``ExecStart=``.
        tuned: flags to take out, and whether each has a value of its own word.
        arguments: flags to append.
    """
    kept: list[str] = []
    is_value = False
    for word in command:
        name, separator, _ = word.text.partition("=")
        if is_value:
            is_value = False
        elif word.text in tuned:
            is_value = tuned[word.text]
        elif not (separator and name in tuned):
            kept.append(word.raw)
    rendered = render_command(["/", *arguments]).removeprefix("/").strip() if arguments else ""
    return " ".join([*kept, *([rendered] if rendered else [])])


def split_words(value: str) -> Iterator[Word]:
    r"""Split a setting into words as systemd does.

    >>> [word.text for word in split_words(r"a\\b'c d'e 'C=q\"q'")]
    ['a\\bc de', 'C=q"q']

    Raises:
        UserError: a quote is not closed or an escape is unknown.
    """
    position = 0
    while True:
        while position < len(value) and value[position] in _WHITESPACE:
            position += 1
        if position == len(value):
            return
        start, text, quote = position, "", ""
        while position < len(value) and (quote or value[position] not in _WHITESPACE):
            char = value[position]
            position += 1
            if char == "\\":
                read, position = _read_escape(value, position)
                text += read
            elif char == quote:
                quote = ""
            elif not quote and char in "\"'":
                quote = char
            else:
                text += char
        if quote:
            raise UserError(f"the quote {quote} is never closed", where=value, hint="mend the unit file")
        yield Word(value[start:position], text)


def _read_escape(value: str, position: int) -> tuple[str, int]:
    """Read what follows a backslash; return the character and where reading goes on."""
    char = value[position : position + 1]
    if char in _ESCAPES:
        return _ESCAPES[char], position + 1
    length, base = _CODES.get(char, (3, 8))
    start = position + 1 if char in _CODES else position
    digits = value[start : start + length]
    if len(digits) == length and re.fullmatch(r"[0-7]+" if base == 8 else r"[0-9A-Fa-f]+", digits):
        return chr(int(digits, base)), start + length
    raise UserError(f"\\{char} is no escape that systemd knows", where=value, hint="write \\\\ for a backslash")


def _logical_lines(text: str) -> Iterator[str]:
    """Join continued lines, leaving out comments, also those inside a continuation; an empty line ends one."""
    parts: list[str] = []
    for line in text.split("\n"):
        stripped = line.strip(_WHITESPACE)
        if stripped[:1] in {"#", ";"}:
            continue
        if stripped.endswith("\\"):
            parts.append(stripped[:-1])
            continue
        parts.append(stripped)
        if joined := " ".join(parts).strip(_WHITESPACE):
            yield joined
        parts = []
    if joined := " ".join(parts).strip(_WHITESPACE):
        yield joined


def _assignments(words: Sequence[Word]) -> dict[str, str]:
    """Read words as assignments; ``%%`` is a percent sign. Words that are none are ignored, as systemd does."""
    pairs = (word.text.replace("%%", "%").partition("=") for word in words)
    return {name: value for name, separator, value in pairs if separator}
