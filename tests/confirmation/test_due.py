"""Which confirmation is to be run now."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autotune.confirmation.due import find_asked, find_due
from autotune.settings import ConfirmationSettings
from autotune.trial import TrialState
from tests.confirmation.boots import PLAN, confirm, make_baseline, make_boot, soaked
from tests.records import make_settings

SETTINGS = make_settings(confirmation=ConfirmationSettings(boots=6, alpha=0.05))
SOAKED = make_settings(confirmation=ConfirmationSettings(boots=6, alpha=0.05, soak_s=60.0))
SEARCH = [make_baseline(), make_boot(1, 130, 520), make_boot(2, 110, 440)]
GAIN: list[dict[int | None, float]] = [{None: 100, 1: 120}, {None: 101, 1: 121}]
NO_GAIN: list[dict[int | None, float]] = [{None: 100, 1: 104}, {None: 108, 1: 106}, {None: 100, 1: 103}]


def test_after_the_search_the_leader_is_confirmed():
    assert find_due(SEARCH, SETTINGS) == PLAN


def test_a_study_without_boots_for_it_confirms_nothing_by_itself():
    assert find_due(SEARCH, make_settings()) is None


def test_a_confirmation_that_was_cut_off_goes_on():
    assert find_due([*SEARCH, *confirm(PLAN, GAIN[:1])], SETTINGS) == PLAN


def test_a_decided_confirmation_is_over_but_for_its_soak():
    trials = [*SEARCH, *confirm(PLAN, GAIN)]

    assert find_due(trials, SETTINGS) is None
    assert find_due(trials, SOAKED) == PLAN
    assert find_due([*trials, soaked(PLAN, 1, 150, TrialState.COMPLETE, "it survived")], SOAKED) is None


def test_a_leader_that_was_judged_is_not_asked_about_again_by_itself():
    trials = [*SEARCH, *confirm(PLAN, NO_GAIN), make_boot(200, 90, 360)]

    assert find_due(trials, SETTINGS) == replace(PLAN, number=1, leaders=(2,))
    assert find_due([*SEARCH, *confirm(PLAN, GAIN), make_boot(200, 90, 360)], SETTINGS) is None


def test_a_new_leader_gets_a_confirmation_of_its_own():
    for rounds in (GAIN[:1], GAIN, NO_GAIN):
        trials = [*SEARCH, *confirm(PLAN, rounds), make_boot(200, 160, 640)]

        assert find_due(trials, SETTINGS) == replace(PLAN, number=1, leaders=(200,))


def test_somebody_may_ask_again_and_gets_fresh_boots():
    trials = [*SEARCH, *confirm(PLAN, NO_GAIN)]

    assert find_asked(trials, SETTINGS, (1,), 16) == replace(PLAN, number=1, rounds=8)
    assert find_asked(trials, SETTINGS, (2,), None) == replace(PLAN, number=1, leaders=(2,))


def test_what_somebody_asked_for_and_was_cut_off_goes_on():
    trials = [*SEARCH, *confirm(PLAN, GAIN[:1])]

    assert find_asked(trials, SETTINGS, (), None) == PLAN
    assert find_asked(trials, SETTINGS, (1,), 6) == PLAN
    assert find_asked(trials, SETTINGS, (), 16) == replace(PLAN, number=1, rounds=8)
    assert find_asked(trials, SETTINGS, (2,), None) == replace(PLAN, number=1, leaders=(2,))


def test_a_study_that_confirms_nothing_by_itself_has_six_boots_when_asked():
    assert find_asked(SEARCH, make_settings(confirmation=ConfirmationSettings(alpha=0.05)), (), None) == PLAN


def test_nothing_is_confirmed_where_nothing_is_ahead():
    assert find_asked([make_baseline(), make_boot(1, 90, 360)], SETTINGS, (), None) is None


def test_too_few_boots_for_the_trials_that_are_named_are_refused():
    with pytest.raises(ValueError, match="too few"):
        find_asked(SEARCH, SETTINGS, (1, 2), 4)
