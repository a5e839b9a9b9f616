from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.pareto import dominates
from autotune.settings import ExportSettings
from autotune.simulation.truth import find_truth, true_front
from tests.simulation.table_surface import TableSurface

PLAIN, BASELINE = (80.0, 500.0, 500.0), (100.0, 400.0, 400.0)
FASTER_ALONE, FASTER_AT_BOTH = (200.0, 300.0, 300.0), (121.0, 400.0, 400.0)


def test_a_speed_is_the_geometric_mean_over_contexts():
    truth = find_truth(TableSurface({1: (100.0, 100.0, 400.0)}))

    assert truth.values["budget=1"].point == pytest.approx((100.0, 200.0))


def test_the_best_merit_is_that_of_the_best_that_loses_nowhere_more_than_allowed():
    truth = find_truth(TableSurface({0: PLAIN, 1: BASELINE, 2: FASTER_ALONE, 3: FASTER_AT_BOTH}))

    assert truth.best_merit == pytest.approx(1.1)
    assert truth.values["budget=2"].excess == pytest.approx(0.25)
    assert truth.values["budget=3"].excess == 0


def test_a_study_that_allows_a_loss_may_recommend_more():
    speeds = {1: BASELINE, 2: FASTER_ALONE, 3: FASTER_AT_BOTH}
    truth = find_truth(TableSurface(speeds, export=ExportSettings(rule="c1", max_loss=0.25)))

    assert truth.best_merit == pytest.approx(2.0)


def test_nothing_better_than_the_baseline_leaves_a_best_merit_of_one():
    truth = find_truth(TableSurface({0: PLAIN, 1: BASELINE}))

    assert truth.best_merit == 1


def test_a_context_that_is_given_up_behind_a_good_mean_is_infeasible():
    truth = find_truth(TableSurface({1: BASELINE, 2: (150.0, 800.0, 380.0)}))

    hidden = truth.values["budget=2"]
    assert not hidden.is_feasible
    assert hidden.excess == pytest.approx(0.05 - 0.03)
    assert truth.front == (truth.baseline,)


def test_what_meets_an_obstacle_has_no_value():
    truth = find_truth(TableSurface({1: BASELINE, 3: FASTER_AT_BOTH}))

    assert set(truth.values) == {"budget=1", "budget=3"}


def test_the_first_reference_is_the_worse_of_baseline_and_plain_minus_a_tenth():
    truth = find_truth(TableSurface({0: PLAIN, 1: BASELINE, 2: FASTER_ALONE}))

    assert truth.references[0] == pytest.approx((72.0, 360.0))


def test_the_second_reference_is_what_a_fifth_does_not_reach():
    speeds = {budget: (100.0 + budget, 400.0 - budget, 400.0 - budget) for budget in range(10)}
    truth = find_truth(TableSurface(speeds))

    assert truth.references[1] == pytest.approx((102.0, 393.0))


def test_the_version_changes_with_a_speed_and_with_the_study():
    truth = find_truth(TableSurface({1: BASELINE}))

    assert find_truth(TableSurface({1: BASELINE})).version == truth.version
    assert find_truth(TableSurface({1: (100.1, 400.0, 400.0)})).version != truth.version
    assert find_truth(TableSurface({1: BASELINE}, export=ExportSettings(rule="c1"))).version != truth.version


def test_a_baseline_that_does_not_serve_is_refused():
    with pytest.raises(ValueError, match="baseline"):
        find_truth(TableSurface({0: PLAIN, 3: BASELINE}))


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=1, max_size=12))
def test_the_front_is_what_no_other_point_dominates(points):
    values = [(float(x), float(y)) for x, y in points]

    expected = {point for point in values if not any(dominates(other, point) for other in values)}

    assert true_front(values) == tuple(sorted(expected, reverse=True))
