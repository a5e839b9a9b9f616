from __future__ import annotations

import pytest

from autotune.simulation.method import METHODS
from autotune.simulation.night_score import NightKey
from autotune.simulation.noise import NoiseSettings
from autotune.simulation.winner_night import (
    Claim,
    WinnerNight,
    WinnerScore,
    play_winner_night,
    summarise_winners,
)

NOTHING = Claim(None, is_proven=False)
LUCKY = Claim(0.0, is_proven=True)
GOOD = Claim(0.08, is_proven=True)
UNPROVEN = Claim(0.08, is_proven=False)


def score(searched: Claim, confirmed: Claim, boots: int = 6, best_gain: float = 0.1) -> WinnerScore:
    return WinnerScore(NightKey("gp", "peak-10", "v", 1, 20), searched, confirmed, boots, best_gain)


def test_a_gain_that_is_none_is_false_wherever_it_is_claimed():
    summary = summarise_winners([score(LUCKY, LUCKY, best_gain=0.0), score(LUCKY, NOTHING, best_gain=0.0)])

    assert (summary.named, summary.found) == (2, 0)
    assert (summary.proven, summary.false_proven) == (2, 2)
    assert (summary.confirmed, summary.false_confirmed) == (1, 1)


def test_at_least_half_of_the_gain_is_found():
    weak = Claim(0.049, is_proven=False)

    summary = summarise_winners([score(UNPROVEN, GOOD), score(weak, NOTHING), score(NOTHING, NOTHING)])

    assert (summary.nights, summary.named, summary.found) == (3, 2, 1)
    assert (summary.proven, summary.confirmed, summary.false_confirmed) == (0, 1, 0)


def test_what_the_search_had_proven_is_not_confirmed_where_nothing_was_booted_again():
    summary = summarise_winners([score(GOOD, GOOD, boots=0)])

    assert (summary.proven, summary.confirmed) == (1, 0)
    assert summary.boots is None


def test_boots_are_averaged_over_the_nights_that_confirmed():
    assert summarise_winners([score(GOOD, GOOD, 4), score(GOOD, GOOD, 6), score(NOTHING, NOTHING, 0)]).boots == 5


@pytest.mark.parametrize("confirmation_boots", [0, 6])
def test_a_large_true_gain_is_found_and_confirmed_where_boots_are_given_for_it(confirmation_boots: int):
    night = WinnerNight(METHODS["grid"], "h200-small", 1, 4, NoiseSettings(between=0.005), confirmation_boots)

    played = play_winner_night(night)

    assert played.key == night.key
    assert played.searched.gain is not None
    assert played.searched.gain > 0.1
    assert played.confirmed.gain == played.searched.gain
    assert (0 < played.boots <= confirmation_boots) == (confirmation_boots > 0)
    assert summarise_winners([played]).confirmed == (confirmation_boots > 0)
