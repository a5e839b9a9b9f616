"""A small problem, a right answer to it, and how programs are judged in tests."""

from __future__ import annotations

from autotune.evaluation.problem import HiddenTest, Problem
from autotune.evaluation.sandbox import Sandbox
from autotune.trial import ProblemResult

MEBIBYTE = 1 << 20
PROBLEM = Problem("f", "easy", "numbers", "Write `f(x)`.", (HiddenTest("1", 2), HiddenTest("5", 6)))
RIGHT = "def f(x):\n    return x + 1\n"


def judge(
    code: str, problem: Problem = PROBLEM, *, limit_s: float = 20.0, memory: int = 512 * MEBIBYTE
) -> ProblemResult:
    return Sandbox(limit_s, memory).judge(problem, code)


def expecting(*pairs: tuple[str, object]) -> Problem:
    return Problem("f", "easy", "numbers", "", tuple(HiddenTest(*pair) for pair in pairs))
