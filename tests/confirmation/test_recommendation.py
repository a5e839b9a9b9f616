"""Which trial is recommended when leaders were booted again."""

from __future__ import annotations

from autotune.baseline import pool_baseline, with_one_baseline
from autotune.confirmation.plan import Plan
from autotune.confirmation.recommendation import recommend
from autotune.confirmation.verdict import judge_all
from autotune.pareto import Choice, choose
from autotune.settings import ExportSettings
from autotune.trial import TrialRecord, TrialState
from tests.confirmation.boots import PLAN, confirm, make_baseline, make_boot, soaked
from tests.records import make_settings

SETTINGS = make_settings()
SEARCH = [make_baseline(), make_boot(1, 130, 520), make_boot(2, 110, 440)]
GAIN: list[dict[int | None, float]] = [{None: 100, 1: 120}, {None: 101, 1: 121}]
NO_GAIN: list[dict[int | None, float]] = [{None: 100, 1: 104}, {None: 108, 1: 106}, {None: 100, 1: 103}]


def choice_of(trials: list[TrialRecord], rule: ExportSettings = SETTINGS.export) -> Choice:
    baseline = pool_baseline(trials, SETTINGS)
    assert baseline is not None
    return recommend(with_one_baseline(trials, SETTINGS), baseline, trials, judge_all(trials, SETTINGS), rule)


def test_without_a_confirmation_the_rule_chooses():
    baseline = pool_baseline(SEARCH, SETTINGS)
    assert baseline is not None

    assert choice_of(SEARCH) == choose(with_one_baseline(SEARCH, SETTINGS), baseline, SETTINGS.export)
    assert choice_of([*SEARCH, *confirm(PLAN, GAIN[:1])]).trial.number == 1


def test_a_confirmed_trial_is_recommended_with_its_gain_in_fresh_boots():
    choice = choice_of([*SEARCH, *confirm(PLAN, GAIN)])

    assert choice.trial.number == 1
    assert "confirmed" in choice.reason
    assert "in fresh boots" in choice.reason


def test_the_figures_of_a_confirmed_trial_are_those_of_all_its_boots():
    choice = choice_of([*SEARCH, *confirm(PLAN, GAIN)])
    speed = choice.trial.objectives.tokens_per_s_c1

    assert speed is not None
    assert round(speed.value, 1) == round((130 * 120 * 121) ** (1 / 3), 1)


def test_without_a_significant_gain_the_baseline_stays_and_says_why():
    choice = choice_of([*SEARCH, *confirm(PLAN, NO_GAIN)])

    assert choice.trial.number == 0
    assert "trial 1: no significant gain" in choice.reason


def test_a_trial_that_lay_behind_a_refuted_leader_is_not_recommended_in_its_place():
    choice = choice_of([*SEARCH, *confirm(PLAN, [{None: 120, 1: 100}, {None: 121, 1: 101}])])

    assert choice.trial.number == 0
    assert "refuted" in choice.reason


def test_a_trial_measured_since_is_chosen_by_the_rule_where_nothing_is_confirmed():
    choice = choice_of([*SEARCH, *confirm(PLAN, NO_GAIN), make_boot(200, 140, 560)])

    assert choice.trial.number == 200


def test_what_is_confirmed_stays_until_another_is_and_says_what_looks_faster():
    trials = [*SEARCH, *confirm(PLAN, GAIN), make_boot(200, 140, 560)]
    second = Plan(1, (200,), 3, 0.05, "balanced")
    refuted = [*trials, *confirm(second, [{None: 100, 200: 90}, {None: 100.5, 200: 90.5}], first=300)]
    confirmed = [*trials, *confirm(second, [{None: 100, 200: 139}, {None: 100.5, 200: 140}], first=300)]

    assert choice_of(trials).trial.number == 1
    assert "trial 200, measured since, looks faster" in choice_of(trials).reason
    assert choice_of(refuted).trial.number == 1
    assert choice_of(confirmed).trial.number == 200


def test_a_leader_that_did_not_survive_its_soak_is_not_recommended():
    boots = confirm(PLAN, GAIN)
    choice = choice_of([*SEARCH, *boots, soaked(PLAN, 1, 150, TrialState.INFEASIBLE, "illegal memory access")])

    assert choice.trial.number == 0
    assert "illegal memory access" in choice.reason


def test_a_confirmation_by_another_rule_asked_another_question():
    trials = [*SEARCH, *confirm(PLAN, NO_GAIN)]

    assert choice_of(trials, ExportSettings(rule="c1")).trial.number == 1
