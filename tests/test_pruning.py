from __future__ import annotations

import inspect
import math
import re
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune import pruning
from autotune.pruning import MIN_HISTORY, decide, share_ahead
from autotune.search_space import search_space_of
from autotune.settings import PruningSettings, StudySettings
from autotune.trial import CellMeasurement, Configuration, TrialKind, TrialRecord, TrialState
from tests.records import make_cell, make_settings, make_trial

SETTINGS = make_settings()
SPACE = search_space_of(SETTINGS)
ASKED = SPACE.resolve({"budget": 24, "topk": 4, "window": "none"})

LAW = {0: 1.0, 2: 1.9, 4: 2.6, 8: 3.3, 16: 3.9, 24: 4.1, 32: 4.3, 64: 4.6}
"""Accept length by budget, whatever the rest."""


def speeds(budget: int) -> tuple[float, float]:
    """Tokens/s at C=1 and C=32 of a machine whose steps take longer with the budget, much longer for 32."""
    return LAW[budget] / (0.010 + 0.00002 * budget), 32 * LAW[budget] / (0.10 + 0.004 * budget)


def tree(budget: int) -> Configuration:
    return SPACE.resolve({"budget": budget, "topk": 4, "window": "none"} if budget else {"budget": 0})


def measured(number: int, budget: int, *, kind: TrialKind = TrialKind.SEARCH, factor: float = 1.0) -> TrialRecord:
    c1, c32 = speeds(budget)
    length = LAW[budget] if budget else None
    return make_trial(number, factor * c1, factor * c32, kind=kind, configuration=tree(budget), accept_length=length)


HISTORY = [
    measured(0, 16, kind=TrialKind.BASELINE),
    measured(1, 0, kind=TrialKind.LISTED),
    measured(2, 2, kind=TrialKind.LISTED),
    measured(3, 8),
    measured(4, 4),
    measured(5, 64),
    measured(6, 16, kind=TrialKind.BASELINE, factor=1.01),
]


def open_trial(
    *cells: CellMeasurement, kind: TrialKind = TrialKind.SEARCH, configuration: Configuration = ASKED
) -> TrialRecord:
    opened = make_trial(9, None, None, state=TrialState.MEASURING, kind=kind, configuration=configuration)
    return replace(opened, cells=cells)


def judge(
    *cells: CellMeasurement, history: Sequence[TrialRecord] = HISTORY, settings: StudySettings = SETTINGS
) -> pruning.Decision:
    return decide(open_trial(*cells), history, settings, SPACE)


def test_a_trial_that_cannot_reach_the_front_is_stopped_with_the_figures_that_say_so():
    """case 44: stopped by our own rule, with a reason, after a stage."""
    decision = judge(make_cell(32, 0.5 * speeds(24)[1], accept_length=0.5 * LAW[24]))

    assert decision.prune
    assert decision.chance is not None
    assert decision.chance < SETTINGS.pruning.threshold
    assert re.fullmatch(
        r"expected -\d+% \(-\d+% to -\d+%\) at C=1 and -\d+% \(-\d+% to -\d+%\) at C=32 against the baseline, "
        r"a chance (below 0.1%|of \d\.\d%) to be on the front; (the baseline is ahead|trial \d is at [+-]\d+% and [+-]\d+%)",
        decision.reason,
    )


def test_the_trial_that_is_named_as_better_is_ahead_at_both():
    decision = judge(make_cell(32, 0.5 * speeds(24)[1], accept_length=0.5 * LAW[24]))

    # Half the accept length is half the speed at both: every tree of two tokens a step and more is ahead.
    assert re.search(r"; (the baseline is ahead|trial [34] is at .*)$", decision.reason)


def test_a_baseline_that_no_trial_is_named_by_is_still_named():
    """The server makes another configuration of it, so that all its boots are stored under that."""
    history = [
        replace(trial, configuration=tree(24)) if trial.kind is TrialKind.BASELINE else trial for trial in HISTORY
    ]
    cells = (
        make_cell(32, 0.2 * speeds(24)[1], accept_length=1.0),
        make_cell(1, 0.2 * speeds(24)[0], accept_length=1.0),
    )

    decision = decide(open_trial(*cells, configuration=tree(32)), history, SETTINGS, SPACE)

    assert decision.prune
    assert re.search(r"; (the baseline is ahead|trial \d is at)", decision.reason)


def test_a_trial_as_good_as_its_neighbours_goes_on():
    decision = judge(make_cell(32, speeds(24)[1], accept_length=LAW[24]))

    assert not decision.prune
    assert decision.chance is not None
    assert decision.chance > 0.5


def test_a_drafter_that_guesses_well_goes_on_although_its_first_cell_is_slow():
    """Slow at C=32, but with so many tokens a step it may be the fastest at C=1."""
    assert not judge(make_cell(32, 0.6 * speeds(24)[1], accept_length=1.5 * LAW[24])).prune


def test_the_same_speed_without_as_many_tokens_a_step_is_stopped():
    assert judge(make_cell(32, 0.6 * speeds(24)[1], accept_length=0.6 * LAW[24])).prune


def test_a_fully_measured_trial_that_is_clearly_beaten_is_stopped():
    c1, c32 = speeds(16)

    decision = judge(make_cell(32, 0.6 * c32, accept_length=2.3), make_cell(1, 0.6 * c1, accept_length=2.3))

    assert decision.prune


def test_with_too_little_history_nothing_is_stopped():
    decision = judge(make_cell(32, 1.0), history=HISTORY[: MIN_HISTORY - 1])

    assert not decision.prune
    assert "too few to judge by" in decision.reason


def test_a_profile_is_no_trial_to_judge_by():
    profile = make_trial(8, None, None, kind=TrialKind.PROFILE, pass_at_1=None)

    decision = judge(make_cell(32, 200.0), history=[*HISTORY[: MIN_HISTORY - 1], profile])

    assert decision.reason.startswith(f"{MIN_HISTORY - 1} complete trials are too few")


def test_nothing_is_stopped_while_one_concurrency_was_never_measured():
    history = [replace(trial, cells=trial.cells[:1]) for trial in HISTORY]

    decision = judge(make_cell(32, 1.0), history=history)

    assert not decision.prune
    assert decision.reason == "too little is known to judge by"


@pytest.mark.parametrize("kind", [TrialKind.BASELINE, TrialKind.LISTED])
def test_the_baseline_and_what_the_user_listed_are_always_measured_to_the_end(kind: TrialKind):
    assert not decide(open_trial(make_cell(32, 1.0), kind=kind), HISTORY, SETTINGS, SPACE).prune


def test_pruning_can_be_switched_off():
    switched_off = make_settings(pruning=PruningSettings(enabled=False))

    assert not judge(make_cell(32, 1.0), settings=switched_off).prune


@pytest.mark.parametrize("threshold", [0.0, 1.0])
def test_a_threshold_of_nothing_stops_nothing_and_one_of_everything_all_but_certain_points(threshold: float):
    extreme = make_settings(pruning=PruningSettings(threshold=threshold))

    assert judge(make_cell(32, 1.0, accept_length=1.1), settings=extreme).prune == (threshold > 0)


@pytest.mark.parametrize("state", [state for state in TrialState if state is not TrialState.COMPLETE])
def test_only_complete_trials_stop_others(state: TrialState):
    history = [replace(trial, state=state) for trial in HISTORY]

    assert not judge(make_cell(32, 1.0), history=history).prune


def test_the_trial_itself_in_the_history_changes_nothing():
    trial = open_trial(make_cell(32, 200.0, accept_length=1.5))

    assert decide(trial, [*HISTORY, trial], SETTINGS, SPACE) == decide(trial, HISTORY, SETTINGS, SPACE)


def test_cells_of_an_attempt_that_failed_stop_no_second_attempt():
    sick = (make_cell(32, 10.0, accept_length=1.0), make_cell(1, 1.0, accept_length=1.0))
    second = make_cell(32, speeds(24)[1], accept_length=LAW[24])

    assert judge(*sick, second) == judge(second)


def test_where_boots_lie_far_apart_a_trial_that_is_a_little_behind_goes_on():
    """A slow boot must not cost a good point."""
    c1, c32 = speeds(24)
    behind = (make_cell(32, 0.8 * c32, accept_length=LAW[24]), make_cell(1, 0.8 * c1, accept_length=LAW[24]))
    noisy = [
        measured(trial.number, budget, kind=trial.kind, factor=factor)
        for trial, budget, factor in zip(
            HISTORY, (16, 0, 2, 8, 4, 64, 16), (0.8, 1.1, 0.95, 1.2, 0.85, 1.15, 1.2), strict=True
        )
    ]

    calm, stormy = judge(*behind), judge(*behind, history=noisy)

    assert calm.prune
    assert not stormy.prune


def test_what_leads_in_every_cell_goes_on_even_if_the_model_takes_it_for_luck():
    """Eighteen per cent above what its neighbours promise, in the only boot that it had."""
    cells = (
        make_cell(32, max(speeds(each)[1] for each in LAW), accept_length=LAW[64]),
        make_cell(1, max(speeds(each)[0] for each in LAW), accept_length=LAW[64]),
    )
    behind = replace(cells[1], decode_tokens_per_s=replace(cells[1].decode_tokens_per_s, value=0.9 * speeds(16)[0]))

    assert judge(*cells).reason == "no complete trial is faster in any cell that it has measured"
    assert judge(cells[0], behind).chance is not None


@settings(max_examples=25)
@given(st.sampled_from([24, 32]), st.floats(1.0, 3.0), st.floats(1.0, 3.0), st.integers(1, 2))
def test_what_is_at_least_as_fast_as_every_point_of_the_front_is_never_stopped(budget, more_c1, more_c32, stages):
    c1 = more_c1 * max(speeds(each)[0] for each in LAW)
    c32 = more_c32 * max(speeds(each)[1] for each in LAW)
    length = LAW[64] * more_c1
    cells = (make_cell(32, c32, accept_length=length), make_cell(1, c1, accept_length=length))

    decision = decide(open_trial(*cells[:stages], configuration=tree(budget)), HISTORY, SETTINGS, SPACE)

    assert not decision.prune


@settings(max_examples=25)
@given(st.floats(0.01, 100.0), st.floats(1.0, 16.0), st.integers(3, 7))
def test_every_decision_is_finite_and_the_same_again(factor, length, trials):
    cell = make_cell(32, factor * speeds(24)[1], accept_length=length)

    first, second = judge(cell, history=HISTORY[:trials]), judge(cell, history=HISTORY[:trials])

    assert first == second
    assert first.chance is None or 0 <= first.chance <= 1 + 1e-9
    assert first.chance is None or math.isfinite(first.chance)


def test_without_accept_lengths_one_speed_says_little_of_the_other():
    """A tree that is slow for 32 users may be the fastest for one."""
    silent = [
        replace(trial, cells=tuple(replace(cell, accept_length=None) for cell in trial.cells)) for trial in HISTORY
    ]

    c1, c32 = (0.2 * speed for speed in speeds(24))

    assert not judge(make_cell(32, c32, accept_length=None), history=silent).prune
    assert judge(make_cell(32, c32, accept_length=None), make_cell(1, c1, accept_length=None), history=silent).prune


def timed(number: int, *durations_s: float, judging_s: float = 0.0, **changes: object) -> TrialRecord:
    """A trial whose cells at C=32 and C=1 took so long, and its coding evaluation."""
    trial = measured(number, 8)
    cells = tuple(replace(cell, duration_s=each) for cell, each in zip(trial.cells, durations_s, strict=True))
    evaluation = None if trial.evaluation is None else replace(trial.evaluation, duration_s=judging_s)
    return replace(trial, cells=cells, evaluation=evaluation, **changes)  # type: ignore[arg-type]


def test_what_is_ahead_is_the_share_of_time_that_complete_trials_spent_on_what_is_missing():
    first = measured(0, 8).cells[0]
    history = [timed(1, 10.0, 30.0, judging_s=40.0), timed(2, 20.0, 60.0, judging_s=40.0)]
    pruned = timed(3, 900.0, 900.0, state=TrialState.PRUNED)

    assert share_ahead(open_trial(first), [*history, pruned]) == pytest.approx((30 + 60 + 80) / 200)
    assert share_ahead(open_trial(*measured(0, 8).cells), history) == pytest.approx(80 / 200)
    assert share_ahead(open_trial(first), [pruned]) == 1.0


def test_the_same_chance_stops_a_trial_early_and_not_near_its_end():
    """Little is saved there, and what is lost is the same."""
    cell = make_cell(32, 0.93 * speeds(24)[1], accept_length=LAW[24])
    chance = judge(cell).chance
    assert chance is not None
    cells = {index: item.cell for index, item in enumerate(HISTORY[0].cells)}
    first = next(index for index, each in cells.items() if each == cell.cell)

    def with_times(first_s: float, rest_s: float) -> list[TrialRecord]:
        return [
            replace(
                trial,
                evaluation=None,
                cells=tuple(
                    replace(item, duration_s=first_s if index == first else rest_s)
                    for index, item in enumerate(trial.cells)
                ),
            )
            for trial in HISTORY
        ]

    rule = make_settings(pruning=PruningSettings(threshold=min(1.0, 2 * chance)))

    assert judge(cell, history=with_times(1.0, 99.0), settings=rule).prune
    assert not judge(cell, history=with_times(99.0, 1.0), settings=rule).prune


def test_optunas_pruning_is_not_even_imported():
    """case 44: report and should_prune raise in a study with several objectives, so they are never called."""
    assert "import optuna" not in inspect.getsource(pruning)
