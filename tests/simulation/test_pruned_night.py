from __future__ import annotations

from dataclasses import replace

import pytest

from autotune.objectives import score
from autotune.settings import PruningSettings
from autotune.simulation.compared_night import NOISE, know
from autotune.simulation.night import simulate_night
from autotune.simulation.night_score import NightKey
from autotune.simulation.pruned_night import DrawnNight, judge_pruning, play_drawn_night, replay_pruning, summarise
from autotune.simulation.sequence import SequenceSampler, draw_order
from autotune.simulation.whole_night import measure_night
from autotune.trial import TrialKind, TrialRecord, TrialState
from tests.records import make_cell
from tests.simulation.table_surface import TableSurface

SURFACE = TableSurface({1: (100.0, 400.0, 400.0), 5: (1.0, 1.0, 1.0)})
SETTINGS = SURFACE.settings
SPACE = SURFACE.space
KEY = NightKey("drawn", "table", "v", 1, 4)


def trial(number: int, c1: float, c32: float, *, kind: TrialKind = TrialKind.SEARCH) -> TrialRecord:
    """A complete trial of three cells of two seconds each, 100 s in all; what is slow accepts little."""
    cells = (
        make_cell(32, c32, context=100, accept_length=c1 / 25),
        make_cell(32, c32, context=1000, accept_length=c1 / 25),
        make_cell(1, c1, context=100, accept_length=c1 / 25),
    )
    return TrialRecord(
        number,
        kind,
        TrialState.COMPLETE,
        {"budget": number},
        cells=cells,
        objectives=score(cells, None, SETTINGS),
        duration_s=100.0,
    )


NIGHT = (trial(0, 100, 400, kind=TrialKind.BASELINE), trial(1, 101, 405), trial(2, 102, 395), trial(3, 50, 200))
TRUE = {0: (100.0, 400.0), 1: (101.0, 405.0), 2: (102.0, 395.0), 3: (50.0, 200.0)}


def test_a_hopeless_trial_is_stopped_after_the_first_stage_and_its_last_cell_is_saved():
    stopped = replay_pruning(NIGHT, SETTINGS, SPACE)

    assert list(stopped) == [3]
    assert stopped[3].state is TrialState.PRUNED
    assert [cell.cell.concurrency for cell in stopped[3].cells] == [32, 32]


def test_a_night_of_which_something_is_saved_is_told_in_seconds():
    score = judge_pruning(KEY, NIGHT, TRUE, SETTINGS, SPACE)

    assert (score.pruned, score.lost) == (1, 0)
    assert (score.night_s, score.saved_s) == (400.0, 2.0)
    assert (score.dominated_s, score.dominated_saved_s) == (6.0, 2.0)
    assert (score.clearly_s, score.clearly_saved_s) == (6.0, 2.0)


def test_a_good_configuration_that_measured_badly_and_was_stopped_is_a_loss():
    assert judge_pruning(KEY, NIGHT, {**TRUE, 3: (150.0, 300.0)}, SETTINGS, SPACE).lost == 1
    assert judge_pruning(KEY, NIGHT, {**TRUE, 3: (103.0, 406.0)}, SETTINGS, SPACE).lost == 0


def test_what_only_a_later_trial_beats_could_not_have_been_stopped():
    night = (NIGHT[0], replace(NIGHT[3], number=1), replace(NIGHT[1], number=2), replace(NIGHT[2], number=3))
    points = {0: (40.0, 100.0), 1: TRUE[3], 2: TRUE[1], 3: TRUE[2]}

    assert judge_pruning(KEY, night, points, SETTINGS, SPACE).dominated_s == 0


def test_beaten_by_little_is_beaten_but_not_clearly():
    score = judge_pruning(KEY, NIGHT, {**TRUE, 3: (99.0, 399.0)}, SETTINGS, SPACE)

    assert (score.dominated_s, score.clearly_s) == (6.0, 0.0)


def test_with_pruning_switched_off_nothing_is_stopped():
    settings = SETTINGS.model_copy(update={"pruning": PruningSettings(enabled=False)})

    assert replay_pruning(NIGHT, settings, SPACE) == {}


def test_the_replay_stops_what_the_trial_loop_stops():
    surface, _ = know("h200-large")
    order = draw_order(surface.space, 20, 1)
    real = simulate_night(surface, SequenceSampler(order), 1, 8, noise=NOISE).view

    stopped = replay_pruning(measure_night(surface, order, 1, 8, NOISE), real.settings, surface.space)

    assert {number: len(trial.cells) for number, trial in stopped.items()} == {
        trial.number: len(trial.cells) for trial in real.trials if trial.state is TrialState.PRUNED
    }
    assert stopped


def test_a_drawn_night_is_the_same_every_time():
    night = DrawnNight("roomy", 3, 6)

    assert play_drawn_night(night) == play_drawn_night(night)


def test_nights_are_added_up_by_time_not_by_night():
    one = judge_pruning(KEY, NIGHT, TRUE, SETTINGS, SPACE)
    two = replace(one, dominated_s=18.0, dominated_saved_s=16.0, lost=2)

    summary = summarise([one, two])

    assert summary.dominated_saved == pytest.approx(18 / 24)
    assert summary.clearly_saved == pytest.approx(2 / 6)
    assert (summary.night_s, summary.pruned_night_s) == (400.0, 398.0)
    assert (summary.nights, summary.lost_nights, summary.lost) == (2, 1, 2)
