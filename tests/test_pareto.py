from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.pareto import Point, choose, dominates, front, hypervolume, reference_point
from autotune.settings import ExportSettings
from autotune.trial import TrialKind, TrialState
from tests.records import make_trial

POINT = st.tuples(st.integers(1, 30).map(float), st.integers(1, 30).map(float))
POINTS = st.lists(POINT, max_size=12)


def test_equal_points_are_one_point_with_both_trials():
    """case 41: (100, 0.80), (120, 0.70) twice and (90, 0.80): two points, the second with both trial numbers."""
    trials = [make_trial(0, 100, 0.80), make_trial(1, 120, 0.70), make_trial(2, 120, 0.70), make_trial(3, 90, 0.80)]

    found = front(trials)

    assert [point.values for point in found] == [(120, 0.70), (100, 0.80)]
    assert [[trial.number for trial in point.trials] for point in found] == [[1, 2], [0]]


def test_pass_at_1_is_an_axis_only_where_it_is_asked_for():
    trials = [make_trial(0, 100, 400, pass_at_1=0.9), make_trial(1, 120, 500, pass_at_1=0.7)]

    assert [point.trials[0].number for point in front(trials)] == [1]
    assert [point.trials[0].number for point in front(trials, with_pass_at_1=True)] == [1, 0]


@pytest.mark.parametrize("state", [state for state in TrialState if state is not TrialState.COMPLETE])
def test_a_trial_that_is_not_complete_is_on_no_front_and_dominates_nothing(state: TrialState):
    """case 44: a pruned trial keeps its figures and is never placed on the front."""
    trials = [make_trial(0, 100, 400), make_trial(1, 999, 999, state=state)]

    assert [point.trials[0].number for point in front(trials)] == [0]


@pytest.mark.parametrize("value", [math.nan, math.inf, None])
def test_an_unknown_or_impossible_value_is_never_compared(value: float | None):
    """case 39: an infinite speed must not sit on the front."""
    trials = [make_trial(0, 100, 400), make_trial(1, value, 999)]

    assert [point.trials[0].number for point in front(trials)] == [0]
    assert front([]) == ()


@given(POINTS)
def test_the_front_is_what_no_other_dominates_and_covers_all_the_rest(points: list[Point]):
    trials = [make_trial(number, *point) for number, point in enumerate(points)]
    found = [point.values for point in front(trials)]

    assert found == sorted(found, reverse=True)
    assert not any(dominates(a, b) for a in points for b in found)
    assert all(point in found or any(dominates(other, point) for other in found) for point in points)
    numbers = [trial.number for point in front(trials) for trial in point.trials]
    assert sorted(numbers) == [number for number, point in enumerate(points) if point in found]


@given(POINT, POINT, POINT)
def test_dominance_is_a_strict_order(a: Point, b: Point, c: Point):
    assert not dominates(a, a)
    assert not (dominates(a, b) and dominates(b, a))
    assert not (dominates(a, b) and dominates(b, c)) or dominates(a, c)


@given(POINTS)
def test_the_hypervolume_is_the_area_of_the_union_of_boxes(points: list[Point]):
    reference = (5.0, 5.0)
    squares = sum(any(x >= i + 1 and y >= j + 1 for x, y in points) for i in range(5, 30) for j in range(5, 30))

    assert hypervolume(points, reference) == float(squares)


@given(POINTS, POINT)
def test_another_point_never_makes_the_hypervolume_smaller(points: list[Point], more: Point):
    assert hypervolume([*points, more], (2.0, 2.0)) >= hypervolume(points, (2.0, 2.0))


def test_a_hypervolume_of_infinite_or_other_than_two_objectives_is_refused():
    for points in ([(math.inf, 1.0)], [(math.nan, 1.0)], [(1.0,)], [(1.0, 2.0, 3.0)]):
        with pytest.raises(ValueError, match="two objectives"):
            hypervolume(points, (0.0, 0.0))


def test_the_reference_is_per_objective_the_worse_of_baseline_and_plain_minus_a_tenth():
    baseline, plain = make_trial(0, 100, 400), make_trial(1, 50, 500)

    assert reference_point(baseline, plain) == pytest.approx((45, 360))
    assert reference_point(baseline, None) == pytest.approx((90, 360))
    assert reference_point(make_trial(0, None, 400), plain) is None


BASELINE = make_trial(0, 100, 400, kind=TrialKind.BASELINE)
FAST_C1 = make_trial(1, 150, 380)
FAST_C32 = make_trial(2, 101, 600)
BALANCED = make_trial(3, 130, 520)
TRIALS = [BASELINE, FAST_C1, FAST_C32, BALANCED]


@pytest.mark.parametrize(
    ("rule", "max_loss", "number"),
    [("balanced", 0.0, 3), ("c1", 0.0, 3), ("c1", 0.05, 1), ("c32", 0.0, 2), ("c32", 0.05, 2)],
)
def test_one_point_is_chosen_by_the_stated_rule(rule, max_loss: float, number: int):
    """case 41: the export rule is explicit and printed with its reason."""
    choice = choose(TRIALS, BASELINE, ExportSettings(rule=rule, max_loss=max_loss))

    assert choice.trial.number == number
    assert choice.reason.startswith(f"trial {number} is ")
    assert f"losing at most {max_loss:.0%} at either concurrency" in choice.reason
    assert "against the baseline" in choice.reason


def test_the_baseline_stays_when_nothing_beats_it():
    choice = choose([BASELINE, FAST_C1], BASELINE, ExportSettings())

    assert choice.trial is BASELINE
    assert "1 point of the front that is faster at one concurrency loses more at the other" in choice.reason
    assert choose([], BASELINE, ExportSettings()).trial is BASELINE
    assert "not known yet" in choose([], make_trial(0, None, None), ExportSettings()).reason


@given(POINTS, st.sampled_from(["balanced", "c1", "c32"]), st.sampled_from([0.0, 0.1]))
def test_what_is_chosen_is_on_the_front_or_the_baseline_and_never_loses_more_than_allowed(points, rule, max_loss):
    baseline = make_trial(0, 10, 10, kind=TrialKind.BASELINE)
    trials = [baseline, *(make_trial(number + 1, *point) for number, point in enumerate(points))]
    choice = choose(trials, baseline, ExportSettings(rule=rule, max_loss=max_loss))
    c1, c32 = choice.trial.objectives.tokens_per_s_c1, choice.trial.objectives.tokens_per_s_c32
    assert c1 is not None
    assert c32 is not None

    assert min(c1.value, c32.value) >= 10 * (1 - max_loss)
    assert choice.trial is baseline or any(choice.trial in point.trials for point in front(trials))
