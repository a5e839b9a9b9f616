"""Which code of an answer is judged? Pure: text goes in, code comes out together with the rule that chose it.

The rules, in the order in which they are tried; :class:`Rule` names the one that applied:

1. Reasoning is removed: tagged pairs, everything before a closing tag without its pair; inside a fence that no thinking
   surrounds, a tag counts only where its line begins, or right behind a fence; elsewhere it may be part of the code. A tag
   between quotes or backticks is one that the answer speaks of.
2. An answer that the token limit cut while it was thinking, inside a fence or before any whole block is truncated.
3. The last fenced block that defines the required name is the answer; where it is no program, the fences inside it are
   looked at, then it is tried without its first line. What it uses and nobody defines is taken from the other blocks
   (:mod:`autotune.evaluation.missing_parts`).
4. Without such a block, the longest run of unfenced lines around the last definition of the name is the answer.
5. Where neither exists in the content, rules 3 and 4 are tried on the reasoning: some servers put the answer there.

What follows a fence is a tag when it names Python, or is one word with attributes or none; else code starts there. A fence
ends a block on a line of its own; at the end of a code line, or indented as code is, only where the code so far parses.
"""

from __future__ import annotations

import ast
import re
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from autotune.evaluation.missing_parts import add_missing_parts

_TAGS = re.compile(
    r"(<(?:seed:)?think(?:ing)?>|<thought>|<reasoning>|◁think▷|(?-i:\[THINK\])|<\|begin_of_thought\|>|<\|START_THINKING\|>"
    r"|<\|channel\|>\s*(?:analysis|commentary)\b[^<\n]{0,80}<\|message\|>)"
    r"|</(?:seed:)?think(?:ing)?>|</thought>|</reasoning>|◁/think▷|(?-i:\[/THINK\])|<\|end_of_thought\|>|<\|END_THINKING\|>"
    r"|<\|channel\|>\s*final\b[^<\n]{0,80}<\|message\|>",
    re.IGNORECASE,
)
"""Tags that open (group 1) or close the reasoning: of Kimi, DeepSeek, Qwen, Seed, Mistral, OpenThinker,
Command and gpt-oss."""

_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})(.*)$")
_LINE_END, _LINE = re.compile(r"\r\n|\r|\n"), re.compile(r"[^\r\n]*(?:\r\n?|\n)?")
"""Other characters that end lines elsewhere may stand inside Python's strings."""
_TAG = re.compile(
    r"[ \t]*\{?\.?[\w+#.-]{0,30}\}?(?:[ \t]+[\w-]+=(?:\"[^\"]*\"|'[^']*'|[^\s\"']\S*)?|[ \t]+\{[^}]*\})*[ \t]*"
)
_PYTHON = re.compile(r"[ \t]*\{?\.?(?:[a-z]+/(?:x-)?)?py(?:thon)?[\d.]*(?!\w)(?![ \t]*[=(\[.,])", re.IGNORECASE)
_CODE = re.compile(r"[ \t]+(?:@|(?:(?:async[ \t]+)?def|class|import|from)[ \t])")
"""Code on the line of the fence, behind the name of the language."""
_CODE_INDENTATION = 4
_MOST_DEPTH, _MOST_CHECKS = 3, 8
"""How deep fences inside fences are followed, and how often a text may ask whether code parses."""
_MOST_PARTS = 30
"""How many of the last blocks are searched for what the chosen one needs."""
_LONGEST_PROGRAM = 200_000
"""Characters of code that are parsed here, where nothing bounds time and memory; what is longer is only run."""
_UNFENCED_LINES, _UNFENCED_CHARACTERS = 400, 16_000
"""How much of the end of an unfenced answer is looked at."""


class Rule(Enum):
    """Why this code, or none, was taken from an answer; each value is a sentence for records."""

    FENCED = "the last fenced block that defines the required name"
    """The usual case."""
    FENCED_PARTS = "the last fenced block that defines the required name, with what it needs from other blocks"
    """An import or a helper stood in a fence of its own."""
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
        parts = _find_parts(block, blocks, entry_point)
        if parts is not None:
            return Extraction(f"{parts}\n\n{block.code}", Rule.FENCED_PARTS)
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
    indentation, checks = 0, 0
    lines: list[str] = []
    for line in _LINE_END.split(text):
        found = _FENCE.match(line)
        if fence is None:
            if found is None:
                continue
            fence, rest = found[1], found[2]
            indentation = found.start(1)
            if fence in rest:
                yield Block((_skip_tag(rest.partition(fence)[0]) or "").strip(), is_closed=True)
                fence = None
            else:
                code = _skip_tag(rest)
                lines = [] if code is None else [code.strip()]
            continue
        is_fence = found is not None and found[1].startswith(fence) and not found[2].strip()
        is_code_like = found is not None and found.start(1) >= indentation + _CODE_INDENTATION
        if is_fence and not is_code_like:
            yield _make_block(lines, is_closed=True)
            fence, lines = None, []
        elif found is not None and found[1] == fence and not is_code_like and _skip_tag(found[2]) is None:
            yield _make_block(lines, is_closed=True)
            lines = []
        elif is_fence or line.rstrip().endswith(fence):
            block = _make_block([*lines, line.rstrip().removesuffix(fence)], is_closed=True)
            checks += 1
            if checks > _MOST_CHECKS or _parse(block.code) is not None:
                yield block
                fence, lines = None, []
            else:
                lines.append(line)
        else:
            lines.append(line)
    if fence is not None:
        yield _make_block(lines, is_closed=False)


def has_definition(code: str, name: str) -> bool:
    """True when the code defines the name outside every function and class, or renames an import to it.

    Code that does not parse is judged by its lines.
    """
    tree = _parse(code)
    if tree is None:
        return (
            re.search(rf"^(?:(?:async[ \t]+)?def|class)[ \t]+{name}\b|^{name}[ \t]*=", code, re.MULTILINE) is not None
        )
    pending: list[ast.AST] = [*tree.body]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if node.name == name:
                return True
        elif isinstance(node, ast.Import | ast.ImportFrom):
            if any(alias.asname == name for alias in node.names):
                return True
        elif isinstance(node, ast.Assign):
            pending += node.targets
        elif isinstance(node, ast.AnnAssign):
            pending.append(node.target)
        elif isinstance(node, ast.Tuple | ast.List):
            pending += node.elts
        elif isinstance(node, ast.Name):
            if node.id == name:
                return True
        else:
            pending += [
                child
                for child in ast.iter_child_nodes(node)
                if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case)
            ]
    return False


def _remove_reasoning(content: str) -> _Answer:
    kept: list[str] = []
    at, opened_at = 0, None
    has_closed = False
    fence: str | None = None
    for found in _LINE.finditer(content):
        line, offset = found[0], found.start()
        begins = 0
        for tag in _TAGS.finditer(line):
            if _is_quoted(line, tag) or (fence is not None and line[: tag.start()].strip(" \t`~")):
                continue
            if tag[1] is not None:
                if opened_at is None:
                    kept.append(content[at : offset + tag.start()])
                    opened_at, fence = offset + tag.end(), None
                continue
            if opened_at is None:
                kept = []  # all that came before was reasoning, opened by the prompt
            at, opened_at, has_closed, fence = offset + tag.end(), None, True, None
            begins = tag.end()
        if opened_at is None:
            fence = _follow_fence(fence, line[begins:].rstrip("\r\n"))
    if opened_at is not None:
        return _Answer("".join(kept), content[opened_at:], has_closed)
    return _Answer("".join([*kept, content[at:]]), None, has_closed)


def _is_quoted(line: str, tag: re.Match[str]) -> bool:
    """True for a tag that stands alone between quotes or backticks: the answer speaks of it. Three would be a fence."""
    before, after = line[: tag.start()][-2:], line[tag.end() :][:2]
    mark = before[-1:]
    return mark in ("`", "'", '"') and after[:1] == mark and before != 2 * mark and after != 2 * mark


def _follow_fence(fence: str | None, line: str) -> str | None:
    """The fence that is open after a line; backticks behind code end it, in a comment they do not."""
    found = _FENCE.match(line)
    if fence is not None and found is None and line.rstrip().endswith(fence) and "#" not in line:
        return None
    if found is None:
        return fence
    if fence is None:
        return None if found[1] in found[2] else found[1]
    return None if found[1].startswith(fence) and not found[2].strip() else fence


def _skip_tag(rest: str) -> str | None:
    """The code that stands on the line of an opening fence; ``None`` when there is only a tag."""
    python = _PYTHON.match(rest)
    if python is not None:
        code = rest[python.end() :]
        return code if _CODE.match(code) else None
    return None if _TAG.fullmatch(rest) else rest


def _choose_block(blocks: Sequence[Block], name: str, depth: int = _MOST_DEPTH) -> Block | None:
    block = next((block for block in reversed(blocks) if has_definition(block.code, name)), None)
    lines = block.code.split("\n") if block is not None else []
    if block is None or depth == 0 or _is_program(lines):
        return block
    if any(_FENCE.match(line) for line in lines):
        inner = _choose_block(list(parse_blocks(block.code)), name, depth - 1)
        if inner is not None and _parse(inner.code) is not None:
            return inner
    rest = "\n".join(lines[1:])
    return Block(rest, block.is_closed) if _is_program(lines[1:]) and has_definition(rest, name) else block


def _find_parts(chosen: Block, blocks: Sequence[Block], name: str) -> str | None:
    """What the chosen block needs from the others; ``None`` when it needs nothing, or is no program."""
    tree = _parse(chosen.code)
    if tree is None or len(blocks) == 1 or "from __future__" in chosen.code:
        return None
    others = [_parse(block.code) for block in blocks[-_MOST_PARTS:] if block is not chosen]
    return add_missing_parts(tree, [other for other in others if other is not None], name)


def _make_block(lines: Sequence[str], *, is_closed: bool) -> Block:
    return Block(textwrap.dedent("\n".join(lines)).strip("\n"), is_closed)


def _find_unfenced(text: str, name: str) -> str | None:
    """The longest run of lines that is code and holds the last top-level definition of the name."""
    lines = _LINE_END.split(text[-_UNFENCED_CHARACTERS:])[-_UNFENCED_LINES:]
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
    if len(code) > _LONGEST_PROGRAM:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError, SystemError):
        # SystemError: CPython 3.11 miscounts its depth when several threads parse at once.
        return None
