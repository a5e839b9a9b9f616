from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.evaluation.scoring import compare_paired, score_pass_at_1, truncated_share, wilson_interval
from autotune.trial import EvaluationMeasurement, Figure, ProblemResult, Verdict

PASSED, WRONG, NO_ANSWER, TRUNCATED = Verdict.PASSED, Verdict.WRONG, Verdict.NO_ANSWER, Verdict.TRUNCATED


def measurement(*verdicts: Verdict) -> EvaluationMeasurement:
    results = tuple(ProblemResult(f"p{index}", verdict) for index, verdict in enumerate(verdicts))
    return EvaluationMeasurement(results, "set", Figure(0.5, len(results)), None, None, 1.0)


@pytest.mark.parametrize(
    ("passed", "count", "low", "high"),
    [
        (0, 10, 0.0, 0.2775),
        (10, 10, 0.7225, 1.0),
        (5, 10, 0.2366, 0.7634),
        (81, 263, 0.2553, 0.3662),
        (4, 5, 0.3755, 0.9638),
    ],
)
def test_wilsons_interval_has_its_published_values(passed, count, low, high):
    assert (low, high) == tuple(round(bound, 4) for bound in wilson_interval(passed, count))


@given(st.integers(1, 500).flatmap(lambda count: st.tuples(st.integers(0, count), st.just(count))))
def test_the_interval_holds_the_share_and_mirrors_failures(case):
    passed, count = case
    low, high = wilson_interval(passed, count)
    mirrored = wilson_interval(count - passed, count)

    assert 0 <= low <= passed / count + 1e-12
    assert passed / count - 1e-12 <= high <= 1
    assert pytest.approx((low, high)) == (1 - mirrored[1], 1 - mirrored[0])


@pytest.mark.parametrize(("passed", "count"), [(0, 0), (3, 2), (-1, 2)])
def test_no_share_has_no_interval(passed, count):
    with pytest.raises(ValueError, match="is no share"):
        wilson_interval(passed, count)


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
