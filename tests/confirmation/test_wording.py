"""How a confirmation reads."""

from __future__ import annotations

from autotune.confirmation.verdict import judge_plan
from autotune.confirmation.wording import describe_verdict
from autotune.trial import TrialState
from tests.confirmation.boots import PLAN, confirm, make_baseline, make_boot, soaked
from tests.records import make_settings

SEARCH = [make_baseline(), make_boot(1, 130, 520)]


def said(*boots) -> str:
    return describe_verdict(judge_plan(PLAN, [*SEARCH, *boots], make_settings()))


def test_a_confirmed_gain_has_its_lower_bound_beside_it():
    sentence = said(*confirm(PLAN, [{None: 100, 1: 120}, {None: 100.2, 1: 120.4}]))

    assert sentence.startswith("trial 1: confirmed, +20.1% in fresh boots, at least +1")


def test_no_significant_gain_keeps_the_baseline():
    sentence = said(*confirm(PLAN, [{None: 100, 1: 104}, {None: 108, 1: 106}, {None: 100, 1: 103}]))

    assert "no significant gain" in sentence
    assert sentence.endswith("the baseline stays")


def test_an_open_one_says_how_far_it_is():
    assert "1 of 3 rounds" in said(*confirm(PLAN, [{None: 100, 1: 104}]))


def test_a_soak_that_was_not_survived_refutes():
    boots = confirm(PLAN, [{None: 100, 1: 120}, {None: 100.2, 1: 120.4}])
    sentence = said(*boots, soaked(PLAN, 1, 150, TrialState.INFEASIBLE, "illegal memory access"))

    assert sentence.startswith("trial 1: refuted")
    assert "illegal memory access" in sentence
