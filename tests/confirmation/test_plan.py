"""Which trials are booted again, how often and in which order."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.confirmation.plan import Plan, choose_leaders, find_plans, is_stale, make_plan
from autotune.settings import ConfirmationSettings, ExportSettings
from tests.confirmation.boots import PLAN, confirm, make_baseline, make_boot
from tests.records import make_settings

SETTINGS = make_settings()


@given(leaders=st.integers(1, 3), rounds=st.integers(2, 9))
def test_every_round_boots_each_once_and_neighbours_go_the_other_way_round(leaders: int, rounds: int):
    plan = Plan(0, tuple(range(1, leaders + 1)), rounds, 0.05, "balanced")
    orders = [plan.order(index) for index in range(rounds)]

    assert all(Counter(order) == Counter((None, *plan.leaders)) for order in orders)
    assert all(later == earlier[::-1] for earlier, later in itertools.pairwise(orders))
    assert orders[-1][-1] == plan.leaders[0]
    assert plan.boots == sum(map(len, orders))


@given(rounds=st.integers(1, 4))
def test_a_steady_drift_of_the_machine_favours_nobody_after_an_even_number_of_rounds(rounds: int):
    plan = Plan(0, (1,), 2 * rounds, 0.05, "balanced")
    order = [who for index in range(plan.rounds) for who in plan.order(index)]
    moments = {who: sum(moment for moment, booted in enumerate(order) if booted == who) for who in (None, 1)}

    assert moments[None] == moments[1]


def test_six_boots_are_for_one_leader_and_more_for_near_ties():
    trials = [
        make_baseline(),
        make_boot(1, 110, 440),
        make_boot(2, 112, 436),
        make_boot(3, 108, 442),
        make_boot(4, 80, 320),
    ]

    assert choose_leaders(trials, SETTINGS, 6) == (2,)
    assert choose_leaders(trials, SETTINGS, 9) == (2, 1)
    assert choose_leaders(trials, SETTINGS, 40) == (2, 1, 3)


def test_what_lies_far_behind_the_leader_is_no_near_tie():
    trials = [make_baseline(), make_boot(1, 130, 540), make_boot(2, 102, 560)]

    assert choose_leaders(trials, SETTINGS, 40) == (1,)


def test_there_is_no_leader_without_a_baseline_or_a_gain():
    assert choose_leaders([make_boot(1, 110, 440)], SETTINGS, 6) == ()
    assert choose_leaders([make_baseline(), make_boot(1, 90, 440)], SETTINGS, 6) == ()


def test_the_rule_of_the_study_names_the_leader():
    trials = [make_baseline(), make_boot(1, 120, 410), make_boot(2, 105, 600)]
    by_c1 = SETTINGS.model_copy(update={"export": ExportSettings(rule="c1")})

    assert choose_leaders(trials, SETTINGS, 6) == (2,)
    assert choose_leaders(trials, by_c1, 6) == (1,)
    assert choose_leaders(trials, SETTINGS, 6, without=frozenset({2})) == (1,)


def test_boots_that_do_not_fill_a_round_are_left_out():
    assert make_plan([make_baseline()], SETTINGS, (1,), 7).boots == 6


def test_too_few_boots_are_refused():
    with pytest.raises(ValueError, match="too few"):
        make_plan([make_baseline()], SETTINGS, (1, 2), 5)


def test_a_plan_is_found_again_by_what_is_stored_with_its_boots():
    settings = SETTINGS.model_copy(update={"confirmation": ConfirmationSettings(alpha=0.1)})
    first = make_plan([make_baseline()], settings, (1,), 6)
    trials = [make_baseline(), make_boot(1, 110, 440), *confirm(first, [{None: 100, 1: 110}])]

    assert find_plans(trials) == (first,)
    assert make_plan(trials, settings, (1,), 6).number == 1


def test_a_confirmation_is_stale_when_the_search_went_on():
    trials = [make_baseline(), make_boot(1, 110, 440), *confirm(PLAN, [{None: 100, 1: 110}])]

    assert not is_stale(PLAN, trials)
    assert is_stale(PLAN, [*trials, make_boot(200, 115, 460)])
    assert not is_stale(PLAN, [*trials, make_baseline(200)])
