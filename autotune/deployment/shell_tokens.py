"""What are the words and operators of a line of a POSIX shell, and where do they stand in it? Pure.

Nothing is expanded: an expansion stays in its word as it is written, and the token says that it is there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from autotune.errors import UnitUnsupportedError

_OPERATOR: Final = re.compile(
    r"(?:[0-9]+(?=[<>]))?(?:<<<|<<-|<<|<&|<>|>>|>&|>\||<|>)|&>>|&>|;;&|;;|;&|&&|\|\||\|&|[;&|()\n]"
)
_HERE_DOCUMENT: Final = re.compile(r"(?<!<)<<-?[ \t]*(['\"\\]?)([A-Za-z_]\w*)\1")
_ARITHMETIC: Final = re.compile(r"\(\(.*?\)\)")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?!-]")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_OPENERS: Final = frozenset(
    {"if", "then", "elif", "else", "while", "until", "do", "{", "!", "time", "command", "builtin"}
)


@dataclass(frozen=True, slots=True)
class Expansion:
    """A ``$`` or backtick in a word: its source, and whether it stands in double quotes."""

    source: str
    is_quoted: bool


@dataclass(frozen=True, slots=True)
class Token:
    """One word, operator, redirection sign or comment.

    Attributes:
        raw: as it is written.
        start: position of its first character.
        is_word: False for operators, redirection signs and comments.
        text: what a word means without its quotes; expansions stand as they are written.
        expansions: those of a word, in order.
    """

    raw: str
    start: int
    is_word: bool
    text: str = ""
    expansions: tuple[Expansion, ...] = ()

    @property
    def end(self) -> int:
        """Position behind its last character."""
        return self.start + len(self.raw)

    @property
    def is_redirection(self) -> bool:
        """Whether it redirects, so that the word behind it is its target."""
        return not self.is_word and self.raw[:1] != "#" and ("<" in self.raw or ">" in self.raw)


def split_source(text: str) -> tuple[Token, ...]:
    """Take a whole script apart; else as :func:`split_line`. What its here-documents hold is left out."""
    return split_line(_without_here_documents(text))


def split_line(line: str) -> tuple[Token, ...]:
    r"""Take a line apart.

    >>> [token.raw for token in split_line('cd "/a b" && exec x --n $N 2>&1 # why')]
    ['cd', '"/a b"', '&&', 'exec', 'x', '--n', '$N', '2>&', '1', '# why']

    Raises:
        UnitUnsupportedError: a quote or a bracket is not closed, or it is quoted in a way that only some shells know.
    """
    return tuple(_Reader(line).read())


def split_commands(tokens: tuple[Token, ...]) -> Iterator[tuple[str, tuple[Token, ...], str]]:
    """Yield the simple commands: the operator before each, its tokens, and the operator behind it.

    Reserved words and assignments in front are left out; comments end a command as a newline does.
    """
    before = ""
    current: list[Token] = []
    for token in tokens:
        if token.is_word or token.is_redirection:
            current.append(token)
            continue
        if current:
            yield before, _strip_front(current), token.raw
        before, current = token.raw, []
    if current:
        yield before, _strip_front(current), ""


def _strip_front(tokens: list[Token]) -> tuple[Token, ...]:
    index = 0
    while index < len(tokens):
        token = tokens[index]
        if token.is_redirection and index + 1 < len(tokens):
            index += 2
        elif token.raw in _OPENERS or _ASSIGNMENT.match(token.raw):
            index += 1
        else:
            break
    return tuple(tokens[index:])


class _Reader:
    """Reads one text from its beginning to its end."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0

    def read(self) -> Iterator[Token]:
        text = self.text
        while self.position < len(text):
            start = self.position
            if text[start] in " \t":
                self.position += 1
            elif text.startswith("\\\n", start):
                self.position += 2
            elif text[start] == "#":
                self.position = _find(text, "\n", start)
                yield Token(text[start : self.position], start, is_word=False)
            elif operator := _OPERATOR.match(text, start):
                self.position = operator.end()
                yield Token(operator[0], start, is_word=False)
            else:
                yield self._read_word()

    def _read_word(self) -> Token:
        text, start = self.text, self.position
        meaning: list[str] = []
        expansions: list[Expansion] = []
        while self.position < len(text) and text[self.position] not in " \t\n;&|()<>":
            char = text[self.position]
            if char == "\\":
                meaning.append(self._read_escaped())
            elif char == "'":
                end = text.find("'", self.position + 1)
                if end < 0:
                    raise self._refuse("the quote ' is never closed")
                meaning.append(text[self.position + 1 : end])
                self.position = end + 1
            elif char == '"':
                self._read_double_quoted(meaning, expansions)
            elif char in "$`":
                source = self._read_expansion(is_quoted=False)
                meaning.append(source)
                if len(source) > 1:
                    expansions.append(Expansion(source, is_quoted=False))
            else:
                meaning.append(char)
                self.position += 1
        return Token(text[start : self.position], start, True, "".join(meaning), tuple(expansions))

    def _read_escaped(self) -> str:
        """Read a backslash outside quotes and what it escapes."""
        if self.position + 1 >= len(self.text):
            raise self._refuse("it ends in a backslash")
        char = self.text[self.position + 1]
        self.position += 2
        return "" if char == "\n" else char

    def _read_double_quoted(self, meaning: list[str], expansions: list[Expansion]) -> None:
        text = self.text
        self.position += 1
        while self.position < len(text):
            char = text[self.position]
            if char == '"':
                self.position += 1
                return
            if char == "\\" and text[self.position + 1 : self.position + 2] in {"$", "`", '"', "\\", "\n"}:
                meaning.append(text[self.position + 1].replace("\n", ""))
                self.position += 2
            elif char in "$`":
                source = self._read_expansion(is_quoted=True)
                meaning.append(source)
                if len(source) > 1:
                    expansions.append(Expansion(source, is_quoted=True))
            else:
                meaning.append(char)
                self.position += 1
        raise self._refuse('the quote " is never closed')

    def _read_expansion(self, *, is_quoted: bool) -> str:
        """Read ``$...`` or a backtick up to its end; several ``$`` in a row belong together, as systemd halves them."""
        text, start = self.text, self.position
        if text[start] == "`":
            end = start + 1
            while end < len(text) and text[end] != "`":
                end += 2 if text[end] == "\\" else 1
            if end >= len(text):
                raise self._refuse("the quote ` is never closed")
            self.position = end + 1
            return text[start : self.position]
        while text.startswith("$", self.position):
            self.position += 1
        following = text[self.position : self.position + 1]
        if following and following in "({":
            self._skip_bracket(following, ")" if following == "(" else "}", is_quoted=is_quoted)
        elif following and following in "'\"" and not is_quoted:
            raise self._refuse("$' and $\" are quotes that only some shells know")
        elif name := _NAME.match(text, self.position):
            self.position = name.end()
        return text[start : self.position]

    def _skip_bracket(self, opener: str, closer: str, *, is_quoted: bool) -> None:
        """Go behind a bracket; in double quotes an apostrophe inside ``${...}`` is just one."""
        text, depth = self.text, 0
        while self.position < len(text):
            char = text[self.position]
            if char == "\\":
                self.position += 2
                continue
            if char == "'" and (opener == "(" or not is_quoted):
                self.position = _find(text, "'", self.position + 1)
            elif char == '"':
                self._read_double_quoted([], [])
                continue
            elif char == "`":
                self._read_expansion(is_quoted=False)
                continue
            elif char in (opener, closer):
                depth += 1 if char == opener else -1
            self.position += 1
            if depth == 0:
                return
        raise self._refuse(f"the bracket {opener} is never closed")

    def _refuse(self, problem: str) -> UnitUnsupportedError:
        return UnitUnsupportedError(
            f"the words of the shell cannot be told apart: {problem}",
            where=self.text[:200],
            hint="write it more plainly",
        )


def _without_here_documents(text: str) -> str:
    lines: list[str] = []
    ends: list[str] = []
    for line in text.split("\n"):
        if ends:
            if line.lstrip("\t") == ends[0]:
                ends.pop(0)
            continue
        lines.append(line)
        if not line.lstrip().startswith("#"):
            ends = [found[2] for found in _HERE_DOCUMENT.finditer(_ARITHMETIC.sub("", line))]
    return "\n".join(lines)


def _find(text: str, wanted: str, start: int) -> int:
    found = text.find(wanted, start)
    return len(text) if found < 0 else found
