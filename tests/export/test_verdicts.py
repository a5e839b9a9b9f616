from __future__ import annotations

from autotune.export.verdicts import summarize_verdicts
from autotune.trial import EvaluationMeasurement, Figure, ProblemResult, Verdict

PASSED, WRONG, NO_ANSWER = Verdict.PASSED, Verdict.WRONG, Verdict.NO_ANSWER


def evaluation(*results: ProblemResult, notes: tuple[str, ...] = ()) -> EvaluationMeasurement:
    return EvaluationMeasurement(results, "set", Figure(0.5, len(results)), 120.0, 3.25, 1.0, notes=notes)


def answers(problem: str, *verdicts: Verdict) -> list[ProblemResult]:
    return [
        ProblemResult(problem, verdict, "why" * (verdict is WRONG), index) for index, verdict in enumerate(verdicts)
    ]


def test_a_problem_with_one_answer_on_each_side_is_told_by_its_verdicts():
    summary = summarize_verdicts(
        [
            ("baseline", evaluation(*answers("a", PASSED), *answers("b", WRONG), *answers("c", PASSED))),
            ("trial 3", evaluation(*answers("a", WRONG), *answers("b", WRONG), *answers("c", NO_ANSWER))),
        ]
    )

    assert summary["changed"] == [
        {"problem": "a", "before": "passed", "after": "wrong", "reason": "why"},
        {"problem": "c", "before": "passed", "after": "no answer", "reason": ""},
    ]
    assert summary["names"] == ["passed", "wrong", "no answer"]
    assert [row["counts"] for row in summary["rows"]] == [[2, 1, 0], [0, 2, 1]]


def test_a_problem_with_answers_of_several_boots_is_told_once_by_its_shares():
    summary = summarize_verdicts(
        [
            ("baseline", evaluation(*answers("a", PASSED, PASSED, WRONG), *answers("b", PASSED, PASSED, PASSED))),
            ("trial 3", evaluation(*answers("a", WRONG), *answers("b", PASSED))),
        ]
    )

    assert summary["changed"] == [
        {"problem": "a", "before": "2 of 3 passed", "after": "0 of 1 passed", "reason": "why"}
    ]


def test_the_speed_of_the_answers_and_what_is_odd_about_them_are_shown():
    summary = summarize_verdicts([("baseline", evaluation(*answers("a", PASSED), notes=("degenerate\x1b text",)))])

    assert (summary["rows"][0]["speed"], summary["rows"][0]["accept"]) == ("120", "3.25")
    assert not summary["rows"][0]["is_recommended"]
    assert summary["notes"][0].startswith("baseline: degenerate")
    assert "\x1b" not in summary["notes"][0]
    assert summary["changed"] == []
