from __future__ import annotations

import random
from pathlib import Path

import optuna
import pytest
from optuna.distributions import CategoricalDistribution, IntDistribution

from autotune.sampling.base import History
from autotune.sampling.observation import observe
from autotune.sampling.stock import StockSampler, distributions_of
from autotune.search_space import SearchSpace, load_search_space
from autotune.search_space_file import parse_search_space_file
from autotune.settings import SamplerSettings
from autotune.trial import Configuration, TrialKind, TrialRecord, TrialState
from tests.records import make_settings, make_trial

SPACE = load_search_space("ddtree", proofs=frozenset({"best-first-tree"}))
SETTINGS = make_settings()
BASELINE = make_trial(0, 100, 400, kind=TrialKind.BASELINE)
NAMES = ["gp", "tpe", "nsga2", "qmc", "random"]


def make(name: str, startup: int = 4) -> StockSampler:
    return StockSampler(SamplerSettings.model_validate({"name": name, "startup_trials": startup}))


def trial_at(number: int, budget: int, c1: float, c32: float, state: TrialState = TrialState.COMPLETE) -> TrialRecord:
    return make_trial(number, c1, c32, state=state, configuration=SPACE.resolve({"budget": budget, "topk": 4}))


def make_history(*more: TrialRecord) -> History:
    """Both speeds rise with the budget up to 32: a model must want more of it."""
    trials = [
        trial_at(index + 1, budget, 60 + budget, 300 + 5 * budget)
        for index, budget in enumerate((2, 8, 14, 20, 26, 32))
    ]
    return History(SETTINGS, (BASELINE, *trials, *more), BASELINE)


def propose(name: str, history: History, seed: int = 1, pending: tuple[Configuration, ...] = ()) -> Configuration:
    return make(name).propose(history, SPACE, pending, random.Random(seed))  # noqa: S311


@pytest.mark.parametrize("name", NAMES)
def test_the_same_history_and_seed_give_the_same_proposal_inside_the_space(name: str):
    first, second = propose(name, make_history()), propose(name, make_history())

    assert first == second
    assert first in SPACE.configurations


@pytest.mark.parametrize("name", NAMES)
def test_a_study_without_any_history_is_asked_as_well(name: str):
    empty = History(SETTINGS, (), None)

    assert propose(name, empty) in SPACE.configurations


@pytest.mark.parametrize("name", ["tpe", "nsga2", "random"])
def test_another_seed_gives_another_proposal(name: str):
    assert len({SPACE.key(propose(name, make_history(), seed)) for seed in range(4)}) > 1


def test_a_quasi_random_sequence_moves_on_with_every_trial():
    trials = [trial_at(number, 2 + number, 100, 400) for number in range(6)]
    asked = [propose("qmc", History(SETTINGS, tuple(trials[:count]), BASELINE)) for count in range(1, 7)]

    assert len({SPACE.key(configuration) for configuration in asked}) >= 5


def wanted_budget(history: History) -> int:
    budget = propose("gp", history)["budget"]
    assert isinstance(budget, int)
    return budget


def test_the_gp_learns_from_trials_that_did_not_start():
    """case 8: out of memory at large budgets: without a lesson it goes there again, with one it stays away."""
    crashed = [
        make_trial(
            10 + index,
            None,
            None,
            state=TrialState.INFEASIBLE,
            pass_at_1=None,
            configuration=SPACE.resolve({"budget": budget}),
        )
        for index, budget in enumerate((40, 48, 56, 64))
    ]

    assert wanted_budget(make_history()) >= 40
    assert wanted_budget(make_history(*crashed)) < 40


def test_the_gp_learns_from_pruned_trials():
    pruned = [
        make_trial(
            10 + index,
            None,
            80.0,
            state=TrialState.PRUNED,
            pass_at_1=None,
            configuration=SPACE.resolve({"budget": budget}),
        )
        for index, budget in enumerate((40, 48, 56, 64))
    ]

    assert wanted_budget(make_history(*pruned)) < 40


def test_the_gp_learns_nothing_from_failed_trials():
    failed = [trial_at(10 + index, budget, 1, 1, TrialState.FAILED) for index, budget in enumerate((40, 48, 56, 64))]

    assert wanted_budget(make_history(*failed)) == wanted_budget(make_history())


def test_a_configuration_that_is_being_measured_is_stayed_away_from():
    wanted = propose("gp", make_history())

    assert propose("gp", make_history(), pending=(wanted,)) != wanted


def test_the_study_that_a_sampler_sees_has_two_objectives_and_no_intermediate_values(monkeypatch: pytest.MonkeyPatch):
    """case 44: neither report nor should_prune is called, and nothing is stored that they would have stored."""
    seen: list[optuna.Study] = []
    original = optuna.create_study

    def remember(**arguments: object) -> optuna.Study:
        study = original(**arguments)  # type: ignore[arg-type]
        seen.append(study)
        return study

    monkeypatch.setattr(optuna, "create_study", remember)
    propose("tpe", make_history())

    assert len(seen[0].directions) == 2
    assert all(not trial.intermediate_values for trial in seen[0].trials)
    told = [trial for trial in seen[0].trials if trial.state.is_finished()]
    assert [tuple(trial.values) for trial in told] == [item.log_speeds for item in observe(make_history())]


def test_distributions_are_flat_and_hold_exactly_the_domains():
    distributions = distributions_of(SPACE)

    assert distributions["budget"] == IntDistribution(0, 64)
    assert distributions["topk"] == IntDistribution(1, 8)
    assert distributions["window"] == CategoricalDistribution([32, 64, 128, 256, 512, None])


def test_a_proposal_that_breaks_a_rule_of_the_space_is_replaced(tmp_path: Path):
    text = """
name = "narrow"
[parameters.a]
kind = "int"
low = 1
high = 9
default = 9
flag = "--a"
[[rules]]
require = "a == 9"
because = "everything else is refused"
"""
    space = SearchSpace(parse_search_space_file(text, str(tmp_path)))

    for seed in range(5):
        assert make("random").propose(History(SETTINGS, (), None), space, (), random.Random(seed)) == {"a": 9}  # noqa: S311
