"""How does a packaged search space read inside a study, narrowed to one server? Text in, text out; comments stay. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

TABLE: Final = "search_space"
"""Name of the table in a study."""

_HEADER: Final = re.compile(r"(\[\[?)([a-z_.]+)(\]\]?)\s*")
_KEY: Final = re.compile(r"(?P<key>[a-z_]+) = .*")
_EXPRESSIONS: Final = frozenset({"require", "when", "set", "value"})


@dataclass(frozen=True, slots=True)
class Change:
    """Another value of one key, and why; ``value`` is TOML, ``None`` takes the key out."""

    value: str | None
    because: str


@dataclass(frozen=True, slots=True)
class _Block:
    """One table with the comments before it; the first one has no header."""

    comments: tuple[str, ...]
    header: str | None
    lines: tuple[str, ...]

    @property
    def path(self) -> str:
        match = None if self.header is None else _HEADER.fullmatch(self.header)
        return "" if match is None else match[2]


def inline_space(text: str, changes: Mapping[tuple[str, str], Change], without: Collection[str] = ()) -> str:
    """Turn the text of a search space into tables of a study.

    Args:
        text: of the file, each value on one line.
        changes: (table, key) -> another value; the table as in the file, for example ``parameters.budget``.
        without: parameters and derived values to leave out, with every rule, arm and equivalence that speaks of them.
    """
    blocks = [block for block in _split(text) if not _speaks_of(block, without)]
    return "\n".join(line for block in blocks for line in _render(block, changes)).strip() + "\n"


def _split(text: str) -> list[_Block]:
    blocks: list[_Block] = []
    comments: list[str] = []
    header: str | None = None
    before: tuple[str, ...] = ()
    lines: list[str] = []
    for line in text.splitlines():
        if _HEADER.fullmatch(line):
            blocks.append(_Block(before, header, tuple(lines)))
            before, header, lines, comments = tuple(comments), line, [], []
        elif not line.strip() or (line.startswith("#") and not _goes_on(lines, comments)):
            comments.append(line)
        else:
            lines += [*comments, line]
            comments = []
    blocks.append(_Block(before, header, (*lines, *comments)))
    return blocks


def _goes_on(lines: list[str], comments: list[str]) -> bool:
    """Whether a comment stands between two keys of one table: no blank line since the last one."""
    return bool(lines) and not comments


def _speaks_of(block: _Block, names: Collection[str]) -> bool:
    if block.path.partition(".")[2] in names:
        return True
    if block.path not in {"rules", "arms", "equivalences"}:
        return False
    spoken = " ".join(line for line in block.lines if line.partition(" = ")[0] in _EXPRESSIONS)
    return any(re.search(rf"\b{re.escape(name)}\b", spoken) for name in names)


def _render(block: _Block, changes: Mapping[tuple[str, str], Change]) -> list[str]:
    match = None if block.header is None else _HEADER.fullmatch(block.header)
    header = f"[{TABLE}]" if match is None else f"{match[1]}{TABLE}.{match[2]}{match[3]}"
    lines: list[str] = []
    for line in block.lines:
        key = _KEY.fullmatch(line)
        change = None if key is None else changes.get((block.path, key["key"]))
        if key is None or change is None:
            lines.append(line)
        elif change.value is not None:
            lines.append(f"{key['key']} = {change.value}  # {change.because}")
        else:
            lines.append(f"# no {key['key']}: {change.because}")
    return [*(comment.rstrip() for comment in block.comments), header, *lines]
