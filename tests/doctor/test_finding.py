"""Findings and the exit code they make."""

from __future__ import annotations

import pytest

from autotune.doctor.finding import (
    WORST_FIRST,
    Finding,
    Judgement,
    Level,
    exit_code_of,
    judge_error,
    ok,
    problem,
    skipped,
    warning,
)
from autotune.errors import AutotuneError, HostKeyError, SandboxUnavailable, SettingsError


def findings(*judgements: Judgement) -> list[Finding]:
    return [Finding("sandbox", judgement) for judgement in judgements]


def test_without_a_problem_the_exit_code_is_0():
    assert exit_code_of(findings(ok("a"), warning("b", "c"), skipped("d"))) == 0
    assert exit_code_of([]) == 0


def test_the_machine_is_worse_than_the_evaluation_and_the_file():
    file = problem("a", "b", SettingsError)
    sandbox = problem("a", "b", SandboxUnavailable)
    machine = problem("a", "b", HostKeyError)

    assert exit_code_of(findings(file)) == 2
    assert exit_code_of(findings(file, sandbox)) == 6
    assert exit_code_of(findings(file, sandbox, machine, ok("c"))) == 3


def test_every_branch_of_errors_has_a_place_in_the_order():
    assert {branch.exit_code for branch in WORST_FIRST} == {1, 2, 3, 4, 5, 6}
    assert {AutotuneError.exit_code, *(branch.exit_code for branch in AutotuneError.__subclasses__())} == {
        branch.exit_code for branch in WORST_FIRST
    }


@pytest.mark.parametrize("level", [Level.OK, Level.WARNING, Level.SKIPPED])
def test_only_a_problem_has_an_exit_code(level):
    assert Finding("sandbox", Judgement(level, "x", None, HostKeyError)).exit_code == 0


def test_an_error_becomes_a_problem_with_its_place_and_its_hint():
    judged = judge_error(HostKeyError("its key has changed", where="gpu1", hint="compare it"))

    assert judged == Judgement(Level.PROBLEM, "gpu1: its key has changed", "compare it", HostKeyError)


def test_an_error_without_a_hint_says_what_to_do_all_the_same():
    assert judge_error(SettingsError("is wrong")).advice is not None
