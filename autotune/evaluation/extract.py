"""Which code of an answer is judged? Pure: text goes in, code comes out together with the rule that chose it.

The rules, in the order in which they are tried; :class:`Rule` names the one that applied:

1. Reasoning is removed: tagged pairs, everything before a closing tag that stands alone.
2. An answer that the token limit cut while it was thinking, inside a fence or before any whole block is truncated.
3. The last fenced block that defines the required name is the answer.
4. Without such a block, the longest run of unfenced lines around the last definition of the name is the answer.
5. Where neither exists in the content, rules 3 and 4 are tried on the reasoning: some servers put the answer there.

A language tag counts as one only when the line ends after it or goes on with attributes; else code starts there.
"""

from __future__ import annotations

import ast
import re
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

_TAGS = re.compile(r"(<think(?:ing)?>|◁think▷)|</think(?:ing)?>|◁/think▷", re.IGNORECASE)
"""Tags that open (group 1) or close the reasoning."""

_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})(.*)$")
_TAG = re.compile(r"[ \t]*\{?\.?[\w+#.-]{0,30}\}?(?:[ \t]+[\w-]+=(?:\"[^\"]*\"|'[^']*'|\S*)|[ \t]+\{[^}]*\})*[ \t]*")
_UNFENCED_LINES, _UNFENCED_CHARACTERS = 400, 16_000
"""How much of the end of an unfenced answer is looked at."""


class Rule(Enum):
    """Why this code, or none, was taken from an answer; each value is a sentence for records."""

    FENCED = "the last fenced block that defines the required name"
    """The usual case."""
    UNCLOSED_FENCE = (
        "the last block defines the required name; its fence was never closed although the answer was finished"
    )
    """The model stopped by itself."""
    UNFENCED = "the lines without a fence around the last definition of the required name"
    """Bare code, alone or in prose."""
    REASONING = "the content holds no such code; the last definition of the required name in the reasoning"
    """The answer came in the reasoning channel, or after a thinking tag that was never closed."""
    CUT_THINKING = "the token limit cut the answer while it was thinking"
    """Nothing is run, whatever the drafts look like."""
    CUT_FENCE = "the token limit cut the answer inside a fenced block"
    """Nothing is run, even if the part would pass."""
    CUT_TEXT = "the token limit cut the answer before a whole block defined the required name"
    """Nothing is run."""
    NOTHING = "nothing defines the required name"
    """No code."""

    @property
    def is_truncated(self) -> bool:
        """True when the token limit is to blame."""
        return self in (Rule.CUT_THINKING, Rule.CUT_FENCE, Rule.CUT_TEXT)


@dataclass(frozen=True, slots=True)
class Extraction:
    """The code to judge, and why it.

    Attributes:
        code: source; ``None`` when nothing is to be run.
        rule: the rule that applied.
    """

    code: str | None
    rule: Rule


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block.

    Attributes:
        code: what stands between the fences, without common indentation.
        is_closed: False when the text ended first.
    """

    code: str
    is_closed: bool


@dataclass(frozen=True, slots=True)
class _Answer:
    """An answer without its reasoning: the rest, reasoning still open at the end, and whether any was closed."""

    text: str
    open_reasoning: str | None
    has_closed: bool


def extract_code(
    content: str, entry_point: str, *, reasoning: str = "", finish_reason: str | None = None, thinks: bool = False
) -> Extraction:
    """Choose the code of one answer.

    Args:
        content: the answer as the server gave it.
        entry_point: the name that the code must define at its top level.
        reasoning: what came in the reasoning channel.
        finish_reason: ``length`` means that the token limit ended the answer.
        thinks: the prompt itself opened the reasoning, so only a closing tag, or the reasoning channel, shows its end.
    """
    answer = _remove_reasoning(content)
    is_cut = finish_reason == "length"
    if is_cut:
        never_ended = thinks and not reasoning and not answer.has_closed
        if answer.open_reasoning is not None or never_ended or not answer.text.strip():
            return Extraction(None, Rule.CUT_THINKING)
    blocks = list(parse_blocks(answer.text))
    if is_cut and blocks and not blocks[-1].is_closed:
        return Extraction(None, Rule.CUT_FENCE)
    block = _choose_block(blocks, entry_point)
    if block is not None:
        return Extraction(block.code, Rule.FENCED if block.is_closed else Rule.UNCLOSED_FENCE)
    if is_cut:
        return Extraction(None, Rule.CUT_TEXT)
    code = _find_unfenced(answer.text, entry_point)
    if code is not None:
        return Extraction(code, Rule.UNFENCED)
    for text in (answer.open_reasoning or "", reasoning):
        block = _choose_block(list(parse_blocks(text)), entry_point)
        code = block.code if block is not None else _find_unfenced(text, entry_point)
        if code is not None:
            return Extraction(code, Rule.REASONING)
    return Extraction(None, Rule.NOTHING)


def parse_blocks(text: str) -> Iterator[Block]:
    r"""Yield the fenced blocks of a text; a fence with a language tag inside an open block starts the next one.

    >>> [block.code for block in parse_blocks("```def f(x): return x + 1\n```")]
    ['def f(x): return x + 1']
    >>> [block.code for block in parse_blocks("```Python\nf = abs\n```")]
    ['f = abs']
    """
    fence: str | None = None
    lines: list[str] = []
    for line in text.splitlines():
        found = _FENCE.match(line)
        if fence is None:
            if found is None:
                continue
            fence, rest = found[1], found[2]
            if fence in rest:
                yield Block(rest.partition(fence)[0].strip(), is_closed=True)
                fence = None
            else:
                lines = [] if _TAG.fullmatch(rest) else [rest.strip()]
            continue
        if found is not None and found[1].startswith(fence) and not found[2].strip():
            yield _make_block(lines, is_closed=True)
            fence, lines = None, []
        elif found is not None and found[1] == fence and _TAG.fullmatch(found[2]):
            yield _make_block(lines, is_closed=True)
            lines = []
        elif line.rstrip().endswith(fence):
            yield _make_block([*lines, line.rstrip().removesuffix(fence)], is_closed=True)
            fence, lines = None, []
        else:
            lines.append(line)
    if fence is not None:
        yield _make_block(lines, is_closed=False)


def has_definition(code: str, name: str) -> bool:
    """True when the code defines the name at its top level; code that does not parse is judged by its lines."""
    tree = _parse(code)
    if tree is None:
        return (
            re.search(rf"^(?:(?:async[ \t]+)?def|class)[ \t]+{name}\b|^{name}[ \t]*=", code, re.MULTILINE) is not None
        )
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == name:
            return True
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return True
    return False


def _remove_reasoning(content: str) -> _Answer:
    kept: list[str] = []
    at, opened_at = 0, None
    has_closed = False
    for tag in _TAGS.finditer(content):
        if tag[1] is not None:
            if opened_at is None:
                kept.append(content[at : tag.start()])
                opened_at = tag.end()
            continue
        if opened_at is None:
            kept = []  # all that came before was reasoning, opened by the prompt
        at, opened_at, has_closed = tag.end(), None, True
    if opened_at is not None:
        return _Answer("".join(kept), content[opened_at:], has_closed)
    return _Answer("".join([*kept, content[at:]]), None, has_closed)


def _choose_block(blocks: Sequence[Block], name: str) -> Block | None:
    return next((block for block in reversed(blocks) if has_definition(block.code, name)), None)


def _make_block(lines: Sequence[str], *, is_closed: bool) -> Block:
    return Block(textwrap.dedent("\n".join(lines)).strip("\n"), is_closed)


def _find_unfenced(text: str, name: str) -> str | None:
    """The longest run of lines that is code and holds the last top-level definition of the name."""
    lines = text[-_UNFENCED_CHARACTERS:].splitlines()[-_UNFENCED_LINES:]
    start = re.compile(rf"(?:(?:async[ \t]+)?def|class)[ \t]+{name}\b|{name}[ \t]*=[^=]")
    at = next((index for index in reversed(range(len(lines))) if start.match(lines[index])), None)
    if at is None:
        return None
    end = next((end for end in range(len(lines), at, -1) if _is_program(lines[at:end])), None)
    if end is None:
        return "\n".join(lines[at:])
    first = next(first for first in range(at + 1) if _is_program(lines[first:end]))
    return "\n".join(lines[first:end])


def _is_program(lines: Sequence[str]) -> bool:
    """True for code without a word of prose that happens to parse."""
    tree = _parse("\n".join(lines))
    return tree is not None and not any(_is_prose(node) for node in tree.body)


def _is_prose(node: ast.stmt) -> bool:
    if isinstance(node, ast.Expr):
        return not isinstance(node.value, ast.Call | ast.Constant)
    return isinstance(node, ast.AnnAssign) and node.value is None


def _parse(code: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError, SystemError):
        # SystemError: CPython 3.11 miscounts its depth when several threads parse at once.
        return None
