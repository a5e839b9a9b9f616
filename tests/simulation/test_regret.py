from __future__ import annotations

from dataclasses import replace

import pytest

from autotune.simulation.regret import find_hypervolume_regrets, find_regret, follow_night
from autotune.simulation.truth import find_truth
from autotune.trial import Figure, Objectives, TrialKind, TrialRecord, TrialState
from tests.records import make_boot
from tests.simulation.table_surface import TableSurface

SPEEDS = {
    0: (80.0, 500.0, 500.0),
    1: (100.0, 400.0, 400.0),
    2: (144.0, 400.0, 400.0),
    3: (121.0, 400.0, 400.0),
    4: (300.0, 320.0, 320.0),
}
SURFACE = TableSurface(SPEEDS)
TRUTH = find_truth(SURFACE)


def trial(
    number: int,
    budget: int,
    *,
    says: tuple[float, float] | None = None,
    kind: TrialKind = TrialKind.SEARCH,
    state: TrialState = TrialState.COMPLETE,
) -> TrialRecord:
    """A trial that measured the truth, or what it says instead."""
    measured = says or SPEEDS.get(budget, (0.0, 0.0))[:2]
    is_known = state is TrialState.COMPLETE
    return TrialRecord(
        number,
        kind,
        state,
        {"budget": budget},
        objectives=Objectives(Figure(measured[0], 2), Figure(measured[1], 2), None)
        if is_known
        else Objectives(None, None, None),
        boot=make_boot(),
        duration_s=100.0,
    )


def follow(*trials: TrialRecord):
    return follow_night(trials, SURFACE.settings, SURFACE.space, TRUTH)


BASE = trial(0, 1, kind=TrialKind.BASELINE)


def test_recommending_the_best_has_no_regret():
    assert find_regret("budget=2", TRUTH, "balanced") == 0


def test_regret_is_the_share_of_merit_that_is_missing():
    assert find_regret("budget=3", TRUTH, "balanced") == pytest.approx(1 - 1.1 / 1.2)
    assert find_regret("budget=1", TRUTH, "balanced") == pytest.approx(1 - 1 / 1.2)


def test_what_loses_more_than_allowed_is_never_better_than_the_best_that_does_not():
    """Budget 4 has the largest merit of all, and loses a fifth at C=32."""
    assert TRUTH.merit("budget=4", "balanced") > TRUTH.best_merit
    assert find_regret("budget=4", TRUTH, "balanced") == pytest.approx(0.2)


def test_a_night_is_judged_by_the_truth_of_what_it_believes():
    lucky = trial(1, 3, says=(150.0, 400.0))

    standing = follow(BASE, lucky, trial(2, 2))[-1]

    assert standing.recommended == "budget=3"
    assert standing.regret == pytest.approx(1 - 1.1 / 1.2)
    assert not standing.breaks_rule


def test_a_lucky_reading_that_breaks_the_rule_is_told():
    standing = follow(BASE, trial(1, 4, says=(300.0, 410.0)))[-1]

    assert standing.breaks_rule
    assert standing.regret == pytest.approx(0.2)


def test_one_night_tells_what_every_shorter_one_would_have_shown():
    standings = follow(BASE, trial(1, 3), trial(2, 0), trial(3, 2))

    assert [standing.counted for standing in standings] == [0, 1, 2, 3]
    assert [standing.recommended for standing in standings] == ["budget=1", "budget=3", "budget=3", "budget=2"]
    assert [standing.boots for standing in standings] == [1, 2, 3, 4]
    assert [standing.elapsed_s for standing in standings] == [100.0, 200.0, 300.0, 400.0]


def test_later_boots_of_the_baseline_belong_to_the_trial_before():
    again = trial(2, 1, kind=TrialKind.BASELINE)

    standings = follow(BASE, trial(1, 3), again, trial(3, 2))

    assert [standing.boots for standing in standings] == [1, 3, 4]


def test_duplicates_cost_no_boot_and_pruned_trials_count_but_are_never_recommended():
    standings = follow(BASE, trial(1, 1, state=TrialState.DUPLICATE), trial(2, 2, state=TrialState.PRUNED), trial(3, 3))

    assert [standing.counted for standing in standings] == [0, 1, 2]
    assert [standing.boots for standing in standings] == [1, 2, 3]
    assert standings[-1].recommended == "budget=3"


def test_a_server_that_was_used_as_it_was_found_is_no_boot():
    found = replace(BASE, boot=replace(make_boot(), reused=True))

    assert follow(found, trial(1, 3))[-1].boots == 1


def test_a_night_without_a_baseline_recommends_what_was_there():
    (standing,) = follow()

    assert standing.recommended == "budget=1"
    assert standing.boots == 0


def test_hypervolume_regret_is_what_the_true_values_of_the_measured_front_leave_out():
    """Reference (72, 360): the front is (300, 320) below it, (144, 400) and (80, 500)."""
    whole = (144 - 72) * (400 - 360) + (80 - 72) * (500 - 400)

    own, _ = find_hypervolume_regrets(["budget=2"], TRUTH)

    assert own == pytest.approx(1 - (144 - 72) * (400 - 360) / whole)
    assert find_hypervolume_regrets(["budget=0", "budget=2", "budget=4"], TRUTH) == pytest.approx((0, 0))


def test_the_whole_front_found_by_luck_of_figures_counts_by_its_truth():
    standing = follow(BASE, trial(1, 3, says=(200.0, 450.0)))[-1]

    assert standing.hypervolume_regrets == find_hypervolume_regrets(["budget=3"], TRUTH)
