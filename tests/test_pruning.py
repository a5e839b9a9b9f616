from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from autotune import pruning
from autotune.pareto import front
from autotune.pruning import MIN_HISTORY, decide, find_margin
from autotune.settings import PruningSettings
from autotune.trial import CellMeasurement, TrialKind, TrialRecord, TrialState
from tests.records import make_cell, make_settings, make_trial

SETTINGS = make_settings()
HISTORY = [
    make_trial(0, 100, 400, kind=TrialKind.BASELINE, accept_length=3.0),
    make_trial(1, 50, 450, kind=TrialKind.LISTED, accept_length=None),
    make_trial(2, 80, 500, kind=TrialKind.LISTED, accept_length=2.5),
    make_trial(3, 120, 420, accept_length=3.5),
]
SPEED = st.floats(10, 1000)
LENGTH = st.floats(1, 8)
COMPLETE = st.lists(st.tuples(SPEED, SPEED, LENGTH), min_size=MIN_HISTORY, max_size=6)


def open_trial(*cells: CellMeasurement, kind: TrialKind = TrialKind.SEARCH) -> TrialRecord:
    return replace(make_trial(9, None, None, state=TrialState.MEASURING, kind=kind), cells=cells)


def make_history(figures: Sequence[tuple[float, float, float]]) -> list[TrialRecord]:
    return [make_trial(number, c1, c32, accept_length=length) for number, (c1, c32, length) in enumerate(figures)]


def test_a_trial_that_cannot_reach_the_front_is_stopped_with_the_figures_that_say_so():
    """case 44: stopped by our own rule, with a reason, after a stage."""
    decision = decide(open_trial(make_cell(32, 200.0, accept_length=1.5)), HISTORY, SETTINGS)

    # By its accept length: 1.5 * 120/3.5 = 51.
    assert decision.prune
    assert decision.bound_c1 == pytest.approx(1.5 * 120 / 3.5)
    assert decision.bound_c32 == pytest.approx(200.0)
    assert decision.reason == (
        "can reach at most 51 tokens/s at C=1 and 200 at C=32; trial 3 has 120 and 420, at least 5% more at both"
    )


def test_a_profile_is_no_trial_to_judge_by():
    profile = make_trial(8, None, None, kind=TrialKind.PROFILE, pass_at_1=None)

    decision = decide(open_trial(make_cell(32, 200.0)), [*HISTORY[: MIN_HISTORY - 1], profile], SETTINGS)

    assert decision.reason.startswith(f"{MIN_HISTORY - 1} complete trials are too few")


def test_a_trial_as_fast_as_the_best_so_far_goes_on():
    decision = decide(open_trial(make_cell(32, 480.0)), HISTORY, SETTINGS)

    assert not decision.prune
    assert decision.reason.endswith("which no trial beats by 5% at both")


def test_a_drafter_that_guesses_well_goes_on_although_its_first_cell_is_slow():
    # Slow at C=32, but with 8 tokens a step it may be the fastest at C=1.
    decision = decide(open_trial(make_cell(32, 395.0, accept_length=8.0)), HISTORY, make_settings())

    assert decision.bound_c1 == pytest.approx(8 * 120 / 3.5)
    assert not decision.prune


def test_a_larger_tree_than_any_before_is_not_bounded_by_how_their_speeds_relate():
    """Chains lose little at C=32; a tree that loses half there may be the fastest at C=1 all the same."""
    chains = make_history([(100, 400, 2.5), (95, 390, 2.4), (90, 380, 2.3)])

    decision = decide(open_trial(make_cell(32, 200.0, accept_length=4.0)), chains, SETTINGS)

    assert decision.bound_c1 == pytest.approx(4 * 100 / 2.5)
    assert not decision.prune


def test_an_accept_length_that_too_few_others_have_bounds_nothing():
    without = [
        replace(trial, cells=tuple(replace(cell, accept_length=None) for cell in trial.cells)) for trial in HISTORY
    ]

    decision = decide(open_trial(make_cell(32, 200.0, accept_length=1.5)), without, SETTINGS)

    assert decision.bound_c1 is None
    assert not decision.prune


def test_with_too_little_history_nothing_is_stopped():
    decision = decide(open_trial(make_cell(32, 1.0)), HISTORY[: MIN_HISTORY - 1], SETTINGS)

    assert not decision.prune
    assert "too few to judge by" in decision.reason


def test_an_unmeasured_objective_without_a_common_cell_in_history_is_no_reason_to_stop():
    history = [replace(trial, cells=trial.cells[:1]) for trial in HISTORY]

    decision = decide(open_trial(make_cell(32, 1.0)), history, SETTINGS)

    assert not decision.prune
    assert decision.bound_c1 is None
    assert "do not bound both speeds" in decision.reason


@pytest.mark.parametrize("kind", [TrialKind.BASELINE, TrialKind.LISTED])
def test_the_baseline_and_what_the_user_listed_are_always_measured_to_the_end(kind: TrialKind):
    assert not decide(open_trial(make_cell(32, 1.0), kind=kind), HISTORY, SETTINGS).prune


def test_pruning_can_be_switched_off():
    settings = make_settings(pruning=PruningSettings(enabled=False))

    assert not decide(open_trial(make_cell(32, 1.0)), HISTORY, settings).prune


@pytest.mark.parametrize("state", [state for state in TrialState if state is not TrialState.COMPLETE])
def test_only_complete_trials_stop_others(state: TrialState):
    history = [replace(trial, state=state) for trial in HISTORY]

    assert not decide(open_trial(make_cell(32, 1.0)), history, SETTINGS).prune


def test_the_trial_itself_in_the_history_changes_nothing():
    trial = open_trial(make_cell(32, 200.0, accept_length=1.5))

    assert decide(trial, [*HISTORY, trial], SETTINGS) == decide(trial, HISTORY, SETTINGS)


@given(COMPLETE, SPEED, LENGTH, st.floats(1.0, 5.0), st.floats(1.0, 3.0))
def test_better_cells_never_turn_going_on_into_stopping(figures, speed, length, faster, longer):
    history = make_history(figures)
    worse = decide(open_trial(make_cell(32, speed, accept_length=length)), history, SETTINGS)
    better = decide(open_trial(make_cell(32, speed * faster, accept_length=length * longer)), history, SETTINGS)
    assume(worse.bound_c1 is not None and better.bound_c1 is not None)

    assert worse.prune or not better.prune
    assert (better.bound_c1 or 0) >= (worse.bound_c1 or 0) * (1 - 1e-9)


@given(COMPLETE, st.integers(0, 5), st.sampled_from([1, 2]))
def test_a_trial_that_repeats_a_point_of_the_front_is_never_stopped(figures, index, stages):
    history = make_history(figures)
    points = front(history)
    twin = points[index % len(points)].trials[0]

    assert not decide(open_trial(*twin.cells[:stages]), history, SETTINGS).prune


@given(COMPLETE, SPEED, LENGTH)
def test_more_history_never_lowers_a_bound(figures, speed, length):
    history = make_history(figures)
    trial = open_trial(make_cell(32, speed, accept_length=length))
    fewer, more = decide(trial, history[:-1], SETTINGS), decide(trial, history, SETTINGS)
    assume(len(history) > MIN_HISTORY)

    assert fewer.bound_c1 is not None
    assert more.bound_c1 is not None
    assert more.bound_c1 >= fewer.bound_c1


@given(COMPLETE, SPEED, SPEED)
def test_a_fully_measured_trial_is_stopped_exactly_when_it_is_dominated_by_the_margin(figures, c1, c32):
    history = make_history(figures)
    trial = open_trial(make_cell(32, c32), make_cell(1, c1))
    beaten = any(
        point.values[0] >= c1 * 1.05 * (1 + 1e-9) and point.values[1] >= c32 * 1.05 * (1 + 1e-9)
        for point in front(history)
    )

    assert not beaten or decide(trial, history, SETTINGS).prune
    assert decide(trial, history, SETTINGS).bound_c1 == pytest.approx(c1)


def test_optunas_pruning_is_not_even_imported():
    """case 44: report and should_prune raise in a study with several objectives, so they are never called."""
    assert "import optuna" not in inspect.getsource(pruning)


def test_figures_without_an_accept_length_still_bound_by_speed():
    decision = decide(open_trial(make_cell(32, 100.0, accept_length=None)), HISTORY, SETTINGS)

    assert decision.bound_c1 == pytest.approx(100 * 120 / 420)
    assert decision.prune


def test_cells_of_an_attempt_that_failed_stop_no_second_attempt():
    sick = (make_cell(32, 10.0, accept_length=1.0), make_cell(1, 1.0, accept_length=1.0))
    second = make_cell(32, 480.0)

    assert decide(open_trial(*sick, second), HISTORY, SETTINGS) == decide(open_trial(second), HISTORY, SETTINGS)


def test_the_margin_follows_the_spread_between_boots():
    """A slow boot must not cost a good point: boots 15 % apart stop nothing that is 20 % behind."""
    boots = [make_trial(number, c1, 400, kind=TrialKind.BASELINE) for number, c1 in ((4, 86), (5, 100), (6, 116))]

    assert find_margin(HISTORY, SETTINGS) == SETTINGS.pruning.margin
    # Logs 0.15 apart: standard deviation 0.15 over three boots; the first one of the history is at the middle.
    assert find_margin(boots, SETTINGS) == pytest.approx(math.expm1(1.645 * math.sqrt(2) * 0.1496), rel=1e-3)
    slow = open_trial(make_cell(32, 350.0, accept_length=3.0))
    assert decide(slow, HISTORY, SETTINGS).prune
    assert not decide(slow, [*boots, *HISTORY[1:]], SETTINGS).prune


def test_the_margin_is_never_less_than_the_settings_say():
    boots = [make_trial(number, 100.0 + number / 100, 400, kind=TrialKind.BASELINE) for number in range(3)]

    assert find_margin(boots, SETTINGS) == SETTINGS.pruning.margin
