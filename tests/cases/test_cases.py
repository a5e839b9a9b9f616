"""Every public bug report that this project answers, with the test that answers it.

A case is a real report about tools that benchmark, tune or operate LLM servers, turned into a small input. Its test cites
it in the docstring (``case 10``). ``open`` means that the part it belongs to does not exist yet.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent

CASES = {
    1: "a server that refuses, then answers 503, then works",
    3: "a model list that answers before generation works",
    5: "a unit that is active in a crash loop",
    8: "a configuration that runs out of memory while starting",
    10: "three tokens in one chunk",
    12: "no usage at all",
    13: "a final usage chunk with empty choices",
    15: "a character cut in two by the network",
    17: "a stream that stops without its end mark",
    19: "a first chunk that is not a token",
    22: "every request failed",
    24: "a warm prefix cache",
    27: "sampling left to the server",
    28: "colours and byte arrays in the journal",
    30: "a log line that changes shape",
    33: "zero is not a measurement",
    34: "three flags, two degrees of freedom",
    36: "killed in the middle of a trial",
    37: "the same point again",
    39: "NaN and infinity as objective",
    41: "the best of two objectives",
    44: "no pruning with two objectives",
    46: "output larger than the window",
    48: "an idle connection that is dropped",
    50: "quotes and worse in remote arguments",
    52: "a think block and two fences",
    54: "cut off while thinking",
    56: "a language tag that eats the first word",
    58: "exit 0 is not a pass",
    61: "a guard that breaks the judge",
    62: "a main block that reads input",
    63: "two ExecStart lines",
    65: "environment with spaces",
    67: "reading a real unit",
    70: "leave the host as it was",
}


@cache
def cited() -> dict[int, list[str]]:
    """Case number -> tests whose docstring cites it."""
    found: dict[int, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        if path == Path(__file__):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                for words in re.findall(r"[Cc]ases? ([0-9]+(?:(?:, | and )[0-9]+)*)", ast.get_docstring(node) or ""):
                    for number in re.findall(r"[0-9]+", words):
                        found.setdefault(int(number), []).append(f"{path.relative_to(TESTS)}::{node.name}")
    return found


@pytest.mark.parametrize("number", sorted(CASES))
def test_a_case_has_a_test_or_is_open(number):
    tests = cited().get(number, [])

    assert bool(tests) != (CASES[number] == "open"), f"case {number} ({CASES[number]}): {tests}"


def test_no_test_cites_a_case_that_is_not_listed():
    assert set(cited()) <= set(CASES)
