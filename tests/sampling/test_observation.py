from __future__ import annotations

import math
from dataclasses import replace

import pytest

from autotune.objectives import CONSTRAINT_NAMES
from autotune.sampling.base import History
from autotune.sampling.observation import LAUNCH_MISSED, observe
from autotune.trial import TrialKind, TrialRecord, TrialState
from tests.records import make_cell, make_settings, make_trial

SETTINGS = make_settings()
BASELINE = make_trial(0, 100, 400, kind=TrialKind.BASELINE)
COMPLETE = [BASELINE, make_trial(1, 50, 480), make_trial(2, 120, 440), make_trial(3, 150, 300)]


def history(*more: TrialRecord) -> History:
    return History(SETTINGS, (*COMPLETE, *more), BASELINE)


def ended(number: int, state: TrialState, *cells: float) -> TrialRecord:
    """A trial with a cell at C=32, and one at C=1 when two speeds are given."""
    measured = tuple(make_cell(concurrency, speed) for concurrency, speed in zip((32, 1), cells, strict=False))
    return replace(make_trial(number, None, None, state=state, pass_at_1=None), cells=measured)


def test_speeds_are_log_ratios_to_the_baseline():
    seen = observe(history())

    assert [item.log_speeds for item in seen] == [
        pytest.approx((math.log(c1 / 100), math.log(c32 / 400)))
        for c1, c32 in ((100, 400), (50, 480), (120, 440), (150, 300))
    ]
    assert all(item.is_measured for item in seen)


def test_every_observation_states_the_same_constraints_in_the_same_order():
    seen = observe(history(ended(4, TrialState.PRUNED, 100.0), ended(5, TrialState.INFEASIBLE)))

    assert {tuple(item.constraints) for item in seen} == {CONSTRAINT_NAMES}
    assert all(math.isfinite(value) for item in seen for value in (*item.constraints.values(), *item.log_speeds))


def test_a_pruned_trial_teaches_what_it_measured_and_a_poor_guess_for_the_rest():
    pruned = observe(history(ended(4, TrialState.PRUNED, 100.0)))[-1]

    assert not pruned.is_measured
    assert pruned.log_speeds == pytest.approx((math.log(50 / 100), math.log(100 / 400)))
    assert all(value <= 0 for value in pruned.constraints.values())


def test_an_infeasible_configuration_teaches_its_missed_launch_with_the_worst_speeds_seen():
    seen = observe(history(ended(4, TrialState.INFEASIBLE)))[-1]

    assert seen.constraints["launch"] == LAUNCH_MISSED
    assert seen.log_speeds == pytest.approx((math.log(50 / 100), math.log(300 / 400)))


def test_a_trial_that_misses_a_constraint_teaches_its_speeds_and_the_constraint():
    worse = make_trial(4, 180, 800, state=TrialState.INFEASIBLE, pass_at_1=0.4)

    seen = observe(history(worse))[-1]

    assert seen.is_measured
    assert seen.log_speeds == pytest.approx((math.log(1.8), math.log(2)))
    assert seen.constraints["pass_guard"] > 0
    assert seen.constraints["launch"] < 0


@pytest.mark.parametrize("state", [TrialState.FAILED, TrialState.DUPLICATE, TrialState.INTERRUPTED])
def test_a_trial_that_says_nothing_about_its_configuration_teaches_nothing(state: TrialState):
    assert observe(history(ended(4, state, 1.0, 1.0))) == observe(history())


def test_without_a_baseline_there_is_nothing_to_compare_with():
    assert observe(History(SETTINGS, (make_trial(1),), None)) == ()
    assert observe(History(SETTINGS, (), BASELINE)) == ()
