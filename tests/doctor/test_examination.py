"""One question that fails is one finding; what needs its answer is skipped."""

from __future__ import annotations

import pytest

from autotune.doctor.catalogue import CHECKS, Area
from autotune.doctor.examination import Examination
from autotune.doctor.finding import Level, ok, warning
from autotune.errors import HostBusyError
from tests.fake_clock import FakeClock


def fail(error: Exception) -> object:
    raise error


def levels(exam: Examination) -> dict[str, Level]:
    return {finding.check: finding.judgement.level for finding in exam.findings()}


@pytest.fixture
def exam() -> Examination:
    return Examination(FakeClock(), patience_s=10)


def test_an_answer_is_judged_and_handed_on(exam):
    assert exam.ask("storage", lambda: 7, lambda fact: ok(f"{fact}")) == 7
    assert levels(exam) == {"storage": Level.OK}


def test_an_error_of_ours_is_a_problem_of_its_branch(exam):
    answer = exam.ask("storage", lambda: fail(HostBusyError("held", hint="wait")), lambda _: ok(""))

    [finding] = exam.findings()
    assert answer is None
    assert (finding.judgement.level, finding.judgement.found, finding.judgement.advice) == (
        Level.PROBLEM,
        "held",
        "wait",
    )
    assert finding.exit_code == 3


def test_a_disk_that_fails_is_the_machine_s_fault(exam):
    exam.ask("disk here", lambda: fail(PermissionError(13, "Permission denied", "/x")), lambda _: ok(""))

    [finding] = exam.findings()
    assert finding.judgement.found == "/x: Permission denied"
    assert finding.exit_code == 3


def test_a_mistake_of_ours_hides_no_other_check(exam):
    exam.ask("storage", lambda: fail(TypeError("oops")), lambda _: ok(""))
    exam.ask("holder", lambda: 1, lambda _: ok(""))

    assert levels(exam) == {"storage": Level.PROBLEM, "holder": Level.OK}
    assert exam.findings()[0].exit_code == 1
    assert "TypeError" in exam.findings()[0].judgement.found


def test_a_judgement_that_raises_is_a_problem_and_hands_nothing_on(exam):
    assert exam.ask("storage", lambda: 7, lambda _: fail(HostBusyError("held"))) is None


def test_what_needs_a_fact_that_is_not_there_is_skipped_with_its_name(exam):
    exam.judge("version", None, lambda _: ok("x"), needs="flags")

    assert exam.findings()[0].judgement.found == "needs flags"
    assert levels(exam) == {"version": Level.SKIPPED}


def test_after_the_patience_nothing_is_asked_any_more():
    clock = FakeClock()
    exam = Examination(clock, patience_s=10)
    clock.sleep(11)

    assert exam.ask("storage", lambda: fail(AssertionError("asked")), lambda _: ok("")) is None
    assert levels(exam) == {"storage": Level.SKIPPED}


def test_the_first_judgement_stays_and_the_rest_of_an_area_is_skipped(exam):
    exam.note("end", warning("late", "start earlier"))
    exam.skip_rest(Area.NIGHT, "needs a reason")

    assert levels(exam) == {"end": Level.WARNING, "smallest gain": Level.SKIPPED}


def test_an_error_between_two_questions_is_noted_once_and_skips_the_rest(exam):
    exam.note("sudo", ok(""))
    exam.fail_rest((Area.RIGHTS, Area.NIGHT), HostBusyError("held"))

    assert [(finding.check, finding.judgement.found) for finding in exam.findings()] == [
        ("tools", "held"),
        ("sudo", ""),
        ("end", "needs tools"),
        ("smallest gain", "needs tools"),
    ]


def test_findings_come_in_the_order_of_the_catalogue(exam):
    for check in reversed(list(CHECKS)):
        exam.note(check, ok(""))

    assert [finding.check for finding in exam.findings()] == list(CHECKS)


def test_a_check_that_nobody_explains_cannot_be_reported(exam):
    with pytest.raises(KeyError):
        exam.note("something else", ok(""))
