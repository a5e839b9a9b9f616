"""Words, operators and expansions of a shell's source."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.deployment.shell_tokens import split_commands, split_line, split_source
from autotune.errors import UnitUnsupportedError


def raws(source: str) -> list[str]:
    return [token.raw for token in split_source(source)]


@pytest.mark.parametrize(
    ("source", "tokens"),
    [
        ("a|b||c&&d&e;f", ["a", "|", "b", "||", "c", "&&", "d", "&", "e", ";", "f"]),
        ("a 2>&1 >>l 3<x &>y", ["a", "2>&", "1", ">>", "l", "3<", "x", "&>", "y"]),
        ("a2>b", ["a2", ">", "b"]),
        ("a#b #c d\ne", ["a#b", "#c d", "\n", "e"]),
        ("a\\\nb \\\nc", ["a\\\nb", "c"]),
        ("'a b'\"c d\"\\ e", ["'a b'\"c d\"\\ e"]),
        ("$(a 'b)' \")\" $(c)) d", ["$(a 'b)' \")\" $(c))", "d"]),
        ('${a:-b c} "${d:-\'}" `e f`', ["${a:-b c}", '"${d:-\'}"', "`e f`"]),
        ("cat <<A <<'B'\n'\nA\n\"\nB\nx", ["cat", "<<", "A", "<<", "'B'", "\n", "x"]),
        ("x $((1<<2)) y", ["x", "$((1<<2))", "y"]),
    ],
)
def test_a_source_is_taken_apart(source, tokens):
    assert raws(source) == tokens


def test_an_expansion_says_whether_it_is_quoted():
    (token,) = split_line("a$B\"c$D\"'$E'\\$F`g`$")

    assert [(each.source, each.is_quoted) for each in token.expansions] == [("$B", False), ("$D", True), ("`g`", False)]
    assert token.text == "a$Bc$D$E$F`g`$"


@pytest.mark.parametrize("source", ["'a", '"a', "`a", "$(a", "${a", "a\\", "$'a'", '$"a"', '"$(a"'])
def test_what_cannot_be_told_apart_is_refused(source):
    with pytest.raises(UnitUnsupportedError, match="cannot be told apart"):
        split_line(source)


def test_simple_commands_and_what_stands_around_them():
    commands = split_commands(split_line("if A=1 x >l y; then ! exec z | w; fi"))

    assert [(before, [token.raw for token in command], behind) for before, command, behind in commands] == [
        ("", ["x", ">", "l", "y"], ";"),
        (";", ["exec", "z"], "|"),
        ("|", ["w"], ";"),
        (";", ["fi"], ""),
    ]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), max_size=6))
def test_quoted_words_are_read_back(words):
    assert [token.text for token in split_line(shlex.join(words))] == words


@given(st.text("a'\"\\$(){}`<>|&;# \n", max_size=20))
def test_any_source_is_read_or_refused(source):
    try:
        tokens = split_line(source)
    except UnitUnsupportedError:
        return
    assert all(source[token.start : token.end] == token.raw for token in tokens)
