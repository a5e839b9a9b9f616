"""Which flags does a program take, by the text that its ``--help`` prints? Pure; argparse's and click's layouts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

_ESCAPE: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_ENTRY: Final = re.compile(r"(?P<indent> {1,8}|\t)(?P<rest>--?[A-Za-z0-9].*)")
_NAME: Final = re.compile(r"(?<![^\s,])--?[A-Za-z0-9][A-Za-z0-9_.-]*")
_CHOICES: Final = re.compile(r"\{([^{}]*)\}|\[([^\[\]\s]+)\]")
_DEFAULT: Final = re.compile(r"[(\[]default:? *([^()\[\]]*)[)\]]", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag.

    Attributes:
        names: its spellings, long ones with their dashes.
        metavar: how its value is called; ``None`` for a switch, and where the choices stand instead.
        choices: the words it may be set to; empty when free.
        default: what the text says that it is without the flag; ``None`` when it says nothing.
        help: its description in one line.
    """

    names: tuple[str, ...]
    metavar: str | None
    choices: tuple[str, ...]
    default: str | None
    help: str


def parse_help(text: str) -> Mapping[str, Flag]:
    r"""Read the text of ``--help``: every spelling of every flag.

    >>> flags = parse_help("options:\n  --page-size N, -p N  Tokens per page. (default: 1)\n  --fast\n      Go.\n")
    >>> flags["--page-size"].metavar, flags["--page-size"].default, flags["--fast"].help
    ('N', '1', 'Go.')

    A text that is no help has no flags.
    """
    found: dict[str, Flag] = {}
    for first, lines in _entries(_ESCAPE.sub("", text)):
        flag = _parse_entry(first, lines)
        for name in flag.names:
            found.setdefault(name, flag)
    return found


def _entries(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the first line of each flag with its further lines, indentation removed."""
    first: str | None = None
    indent = 0
    lines: list[str] = []
    for line in text.expandtabs().splitlines():
        match = _ENTRY.fullmatch(line.rstrip())
        is_entry = match is not None and (first is None or len(match["indent"]) <= indent)
        if is_entry and match is not None:
            if first is not None:
                yield first, lines
            first, indent, lines = match["rest"], len(match["indent"]), []
        elif first is not None and line.startswith(" " * (indent + 1)) and line.strip():
            lines.append(line.strip())
        elif first is not None and line.strip():
            yield first, lines
            first = None
    if first is not None:
        yield first, lines


def _parse_entry(first: str, lines: list[str]) -> Flag:
    spelled, described = _cut(first)
    choices = _CHOICES.search(spelled)
    plain = _CHOICES.sub("", spelled)  # the words of choices may look like flags
    values = re.sub(r"[\[\],.]", " ", _NAME.sub("", plain)).split()
    description = " ".join([described, *lines]).strip()
    default = _DEFAULT.search(description)
    return Flag(
        names=tuple(dict.fromkeys(_NAME.findall(plain))),
        metavar=values[0] if values and choices is None else None,
        choices=() if choices is None else _split_choices(choices[1] or choices[2] or ""),
        default=None if default is None or not default[1].strip() else default[1].strip(),
        help=description,
    )


def _split_choices(text: str) -> tuple[str, ...]:
    """The words between commas or bars; a list may be empty."""
    return tuple(word.strip() for word in re.split(r"[,|]", text) if word.strip())


def _cut(first: str) -> tuple[str, str]:
    """Split the spelling from the description: two blanks stand between them, but not inside a list of choices."""
    depth = 0
    for index, char in enumerate(first):
        depth += (char in "{[") - (char in "}]")
        if depth == 0 and first.startswith("  ", index):
            return first[:index], first[index:].strip()
    return first, ""
