from __future__ import annotations

import pytest

from autotune.evaluation.scoring import compare_paired, truncated_share
from autotune.pass_rate import score_pass_at_1, wilson_interval
from autotune.trial import EvaluationMeasurement, Figure, ProblemResult, Verdict

PASSED, WRONG, NO_ANSWER, TRUNCATED = Verdict.PASSED, Verdict.WRONG, Verdict.NO_ANSWER, Verdict.TRUNCATED


def measurement(*verdicts: Verdict) -> EvaluationMeasurement:
    results = tuple(ProblemResult(f"p{index}", verdict) for index, verdict in enumerate(verdicts))
    return EvaluationMeasurement(results, "set", Figure(0.5, len(results)), None, None, 1.0)


def test_pass_at_1_is_the_share_of_answered_problems_that_passed():
    figure = score_pass_at_1(measurement(PASSED, WRONG, NO_ANSWER, TRUNCATED, PASSED).results)

    assert figure is not None
    assert (figure.value, figure.count) == (0.5, 4)
    assert wilson_interval(2, 4) == (figure.low, figure.high)


def test_pass_at_1_without_an_answer_is_unknown():
    assert score_pass_at_1(measurement(NO_ANSWER).results) is None
    assert truncated_share([]) is None


def test_the_truncated_share_is_that_of_the_answers():
    """case 54"""
    assert truncated_share(measurement(TRUNCATED, PASSED, NO_ANSWER, WRONG, WRONG).results) == 0.25


@pytest.mark.parametrize(
    ("ours", "theirs", "better", "worse", "p_worse"),
    [
        ([PASSED] * 6, [PASSED] * 6, 0, 0, 1.0),
        ([WRONG] * 5, [PASSED] * 5, 0, 5, 1 / 32),
        ([PASSED] * 5, [WRONG] * 5, 5, 0, 1.0),
        ([PASSED, WRONG, WRONG, WRONG], [WRONG, PASSED, PASSED, PASSED], 1, 3, 5 / 16),
        ([PASSED, PASSED] + [WRONG] * 10, [WRONG, WRONG] + [PASSED] * 10, 2, 10, 79 / 4096),
    ],
)
def test_the_paired_test_counts_only_problems_that_changed(ours, theirs, better, worse, p_worse):
    found = compare_paired(measurement(*ours), measurement(*theirs))

    assert (better, worse) == (found.better, found.worse)
    assert found.p_worse == pytest.approx(p_worse)


def test_a_problem_that_one_side_did_not_answer_is_left_out():
    found = compare_paired(measurement(NO_ANSWER, WRONG, PASSED), measurement(PASSED, PASSED, NO_ANSWER))

    assert (found.better, found.worse) == (0, 1)
    assert found.p_worse == pytest.approx(0.5)


def test_no_common_answer_gives_no_probability():
    assert compare_paired(measurement(NO_ANSWER), measurement(PASSED)).p_worse is None
