"""What does a systemd unit start, word by word, and how does its command read with other flags? Pure.

Unit files are no INI files: settings repeat, an empty one empties its list, lines go on after a backslash, and quotes
work inside words. Words that stay are kept as they were written, so that what systemd expands in them goes on working.
The rules are systemd 252's; the tests ask systemd itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from autotune.deployment.drop_in import render_argument
from autotune.errors import UserError

_WHITESPACE = " \t\n\r"
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "s": " ", '"': '"', "'": "'"}
_ESCAPES["\\"] = "\\"
_CODES = {"x": (2, 16), "u": (4, 16), "U": (8, 16)}
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "busybox"})


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
        commands: the words of each command of each ``ExecStart=``; a lone ``;`` stands between two.
        environment: variables of all ``Environment=``, later ones replacing earlier ones.
    """

    commands: tuple[tuple[Word, ...], ...]
    environment: Mapping[str, str]


def parse_service(text: str) -> ServiceSection:
    r"""Read the service section of a unit file, or of a unit file with its drop-ins one after the other.

    >>> service = parse_service('[Service]\nEnvironment="A=x y" B=2\nExecStart=/bin/x "a b" \\\n # why\n --port 1\n')
    >>> [word.text for word in service.commands[0]], service.environment
    (['/bin/x', 'a b', '--port', '1'], {'A': 'x y', 'B': '2'})

    Other settings are not looked at. Variables behind a mistake in their line are left out, as systemd does.

    Raises:
        UserError: a quote of a command is not closed; systemd would ignore such a line.
    """
    commands: list[tuple[Word, ...]] = []
    environment: dict[str, str] = {}
    for key, value in parse_settings(text):
        if key == "ExecStart":
            commands = [*commands, *_split_commands(value)] if value else []
        elif key == "Environment":
            environment = {**environment, **_assignments(_words_before_mistake(value))} if value else {}
    return ServiceSection(tuple(commands), environment)


def parse_settings(text: str) -> Iterator[tuple[str, str]]:
    """Yield each setting of the ``[Service]`` section as it is written, continued lines joined, comments left out."""
    section = ""
    for line in _logical_lines(text):
        if line.startswith("["):
            section = line.strip("[] ")
            continue
        key, separator, value = line.partition("=")
        if section == "Service" and separator:
            yield key.strip(_WHITESPACE), value.strip(_WHITESPACE)


def replace_flags(
    command: Sequence[Word], tuned: Mapping[str, bool], arguments: Sequence[str], *, expands_variables: bool = True
) -> str:
    """Render a command with other values of some flags; everything else stays, in order and as it was written.

    Args:
        command: the words of an ``ExecStart=``.
        tuned: flags to take out, and whether each has a value of its own word.
        arguments: flags to append.
        expands_variables: whether systemd replaces ``$NAME`` in this command; not behind the prefix ``:``.

    Raises:
        UserError: a shell runs a line of its own, in which nothing can be exchanged.
    """
    if _runs_shell_line(command):
        raise UserError(
            "the unit starts its server from a line of a shell, and flags appended to it would not reach the server",
            where=" ".join(word.raw for word in command),
            hint="start the server itself in ExecStart=, or use --format flags and put them into the line by hand",
        )
    is_kept = find_kept([word.text for word in command], tuned)
    kept = [word.raw for word, keep in zip(command, is_kept, strict=True) if keep]
    return " ".join(
        [*kept, *(render_argument(argument, expands_variables=expands_variables) for argument in arguments)]
    )


def find_kept(words: Sequence[str], tuned: Mapping[str, bool]) -> list[bool]:
    """Say of each word of a command whether it stays when the tuned flags and their values are taken out.

    >>> find_kept(["srv", "--n", "1", "--m=2", "--port", "3"], {"--n": True, "--m": True})
    [True, False, False, False, True, True]
    """
    kept: list[bool] = []
    is_value = False
    for word in words:
        name, separator, _ = word.partition("=")
        if is_value and not word.startswith("--"):
            kept.append(False)
            is_value = False
        else:
            is_value = tuned.get(word, False)
            kept.append(not (word in tuned or (separator and name in tuned)))
    return kept


def split_words(value: str, *, keep_unknown: bool = False) -> Iterator[Word]:
    r"""Split a setting into words as systemd does.

    Args:
        value: what stands behind the equals sign.
        keep_unknown: leave an escape that systemd does not know as it is written, as it does in commands.

    >>> [word.text for word in split_words(r"a\\b'c d'e 'C=q\"q'")]
    ['a\\bc de', 'C=q"q']

    Raises:
        UserError: a quote is not closed, or an escape is unknown and not to be kept.
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
                read, position = _read_escape(value, position, keep_unknown=keep_unknown)
                text += read
            elif char == quote:
                quote = ""
            elif not quote and char in "\"'":
                quote = char
            else:
                text += char
        if quote:
            raise UserError(f"the quote {quote} is never closed", where=value, hint="mend the unit file")
        raw = value[start:position]
        dangles = position == len(value) and (len(raw) - len(raw.rstrip("\\"))) % 2 == 1
        yield Word(f"{raw}\\" if dangles else raw, text)  # else it would escape what is written behind it


def _split_commands(value: str) -> list[tuple[Word, ...]]:
    r"""Split ``a ; b`` into its commands; ``\;`` is the word ``;`` and stays written so."""
    commands: list[tuple[Word, ...]] = []
    words: list[Word] = []
    for word in split_words(value, keep_unknown=True):
        if word.raw == ";":
            commands.append(tuple(words))
            words = []
        else:
            words.append(Word(word.raw, ";") if word.raw == "\\;" else word)
    return [command for command in (*commands, tuple(words)) if command]


def _words_before_mistake(value: str) -> list[Word]:
    words = []
    reading = split_words(value)
    while True:
        try:
            words.append(next(reading))
        except (StopIteration, UserError):
            return words


def _runs_shell_line(command: Sequence[Word]) -> bool:
    """Whether a shell is among the words with ``-c`` among its options, wherever a wrapper has put it."""
    for index, word in enumerate(command):
        if word.text.lstrip("-@:+!").rpartition("/")[2] not in _SHELLS:
            continue
        for option in command[index + 1 :]:
            if re.fullmatch(r"-[A-Za-z]*c[A-Za-z]*", option.text):
                return True
            if not option.text.startswith("-") and option.text.rpartition("/")[2] not in _SHELLS:
                break
    return False


def _read_escape(value: str, position: int, *, keep_unknown: bool) -> tuple[str, int]:
    """Read what follows a backslash; return what it means and where reading goes on."""
    char = value[position : position + 1]
    if char in _ESCAPES:
        return _ESCAPES[char], position + 1
    length, base = _CODES.get(char, (3, 8))
    start = position + 1 if char in _CODES else position
    digits = value[start : start + length]
    if len(digits) == length and re.fullmatch(r"[0-7]+" if base == 8 else r"[0-9A-Fa-f]+", digits):
        code = int(digits, base)
        is_byte = char in {"u", "U"} or code <= 0xFF
        if is_byte and 0 < code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF:
            return chr(code), start + length
    if keep_unknown:
        return f"\\{char}", position + len(char)
    raise UserError(f"\\{char} is no escape that systemd knows", where=value, hint="write \\\\ for a backslash")


def _logical_lines(text: str) -> Iterator[str]:
    """Join continued lines, leaving out comments, also those inside a continuation; an empty line ends one.

    Only a last backslash that is itself not escaped continues a line, and it stands for a space.
    """
    joined = ""
    for line in re.split(r"\r\n|\n|\r", text):
        if line.lstrip(_WHITESPACE)[:1] in {"#", ";"}:
            continue
        joined += line
        if (len(line) - len(line.rstrip("\\"))) % 2 == 1:
            joined = f"{joined[:-1]} "
            continue
        if joined.strip(_WHITESPACE):
            yield joined.strip(_WHITESPACE)
        joined = ""
    if joined.strip(_WHITESPACE):
        yield joined.strip(_WHITESPACE)


def _assignments(words: Sequence[Word]) -> dict[str, str]:
    """Read words as assignments; ``%%`` is a percent sign. Words that are none are ignored, as systemd does."""
    pairs = (word.text.replace("%%", "%").partition("=") for word in words)
    return {name: value for name, separator, value in pairs if separator and _VARIABLE.fullmatch(name)}
