from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import SearchSpaceError
from autotune.expression import MAX_LENGTH, parse_expression


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3", 7),
        ("(steps - 1) * topk * topk + topk", 36),
        ("budget // 7 + 1", 3),
        ("-topk % 3", 2),
        ("max(budget // 7 + 1, 2)", 3),
        ("min(topk, budget, 3)", 3),
        ("1 < topk <= 4", True),
        ("window == none", True),
        ("window == none or window >= 8", True),
        ("window != none and window >= 8", False),
        ("not (budget == 0)", True),
        ("mode == 'full'", True),
        ("true", True),
    ],
)
def test_expressions_are_evaluated_as_they_read(text: str, expected: object):
    values = {"steps": 3, "topk": 4, "budget": 16, "window": None, "mode": "full"}

    # topk 4, steps 3: 2 * 16 + 4
    assert parse_expression(text).evaluate(values) == expected


def test_the_names_it_speaks_of_are_known():
    assert parse_expression("a + b > none").names == {"a", "b"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1 +",
        "__import__('os').system('true')",
        "(1).__class__",
        "[1, 2]",
        "x if y else z",
        "lambda: 1",
        "2 ** 99",
        "f(1, 2)",
        "max(x)",
        "max(*x)",
        "min(1, 2, key=3)",
        "x in y",
        "x := 3",
        "1.5",
        "b'x'",
        "x is none",
        "{x}",
        "x[0]",
        "1" * (MAX_LENGTH + 1),
        "\x00",
    ],
)
def test_anything_else_is_refused_when_the_file_is_read(text: str):
    with pytest.raises(SearchSpaceError):
        parse_expression(text)


@given(st.text(max_size=60))
def test_no_text_does_anything_but_parse_or_be_refused(text: str):
    with contextlib.suppress(SearchSpaceError):
        parse_expression(text)


@pytest.mark.parametrize("text", ["window >= 8", "window + 1", "1 // zero", "not budget", "budget and true", "-mode"])
def test_a_comparison_with_none_says_which_expression_and_which_values(text: str):
    with pytest.raises(SearchSpaceError, match="cannot be evaluated for"):
        parse_expression(text).evaluate({"window": None, "budget": 1, "zero": 0, "mode": "full"})


def test_a_rule_that_is_neither_true_nor_false_is_refused():
    with pytest.raises(SearchSpaceError, match="neither true nor false"):
        parse_expression("budget + 1").holds({"budget": 1})
