from __future__ import annotations

import math
import random
import re
from collections.abc import Mapping
from pathlib import Path

import optuna
import pytest
from optuna.study import StudyDirection

from autotune.errors import UserError
from autotune.optuna_sampler import GreyboxOptunaSampler
from autotune.sampling.greybox.sampler import GreyboxSampler
from autotune.search_space import search_space_of
from autotune.settings import SamplerSettings, StudySettings
from autotune.simulation.catalogue import open_surface
from autotune.simulation.night import simulate_night
from autotune.storage import sqlite_url
from autotune.study_view import DATABASE_NAME, load_study
from autotune.suggestion import read_history
from autotune.trial import TrialState
from tests.records import make_settings
from tests.test_pruning import speeds

ROOT = Path(__file__).parents[1]
SETTINGS = make_settings()
SPACE = search_space_of(SETTINGS)


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """A night of five trials that autotune stored."""
    simulate_night(open_surface("h200-small"), SamplerSettings(), 1, 5, directory=tmp_path / "night")
    return tmp_path / "night"


def ask(study: optuna.Study) -> optuna.Trial:
    assert isinstance(study.sampler, GreyboxOptunaSampler)
    return study.ask(study.sampler.find_distributions(study))


def make(settings: StudySettings | None = SETTINGS, seed: int | None = None, objectives: int = 2) -> optuna.Study:
    return optuna.create_study(directions=["maximize"] * objectives, sampler=GreyboxOptunaSampler(settings, seed=seed))


def load(folder: Path, sampler: GreyboxOptunaSampler) -> optuna.Study:
    return optuna.load_study(study_name=None, storage=sqlite_url(folder / DATABASE_NAME), sampler=sampler)


def law_of(params: Mapping[str, object]) -> tuple[float, float, float]:
    """Both speeds and the accept length of a machine on which only the budget matters."""
    budget = int(str(params["budget"]))
    length = 1 + 4 * budget / (budget + 8)
    return length / (0.010 + 0.00002 * budget), 32 * length / (0.10 + 0.004 * budget), length


def test_a_stored_study_gets_proposals_that_are_new(stored: Path):
    view = load_study(stored)
    measured = {view.space.key(trial.configuration) for trial in view.trials if trial.state.counts}

    study = load(stored, GreyboxOptunaSampler())
    asked = [ask(study) for _ in range(3)]

    keys = [view.space.key(view.space.resolve(trial.params)) for trial in asked]
    assert not measured & set(keys)
    assert len(set(keys)) == 3, "open trials are not proposed again"


def test_it_proposes_what_our_own_sampler_would(tmp_path: Path):
    """The same model, the same history and the same chance."""
    surface = open_surface("h200-small")
    simulate_night(surface, SamplerSettings(), 1, 6, directory=tmp_path / "night")
    view = load_study(tmp_path / "night")
    rng = random.Random(f"{view.settings.seed}:{len(view.trials)}")  # noqa: S311  # chance, not secrecy
    wanted = GreyboxSampler().propose(read_history(view.trials, view.settings, view.space), view.space, (), rng)

    assert ask(load(tmp_path / "night", GreyboxOptunaSampler())).params == wanted


def test_a_loop_of_ones_own_on_a_plain_study_finds_the_better_budgets():
    study = make(seed=3)
    for _ in range(12):
        trial = ask(study)
        c1, c32, length = law_of(trial.params)
        if trial.params["budget"] != 0:
            trial.set_user_attr("accept_length", length)
        study.tell(trial, [c1, c32])

    for axis in (0, 1):
        best = max(law_of(configuration)[axis] for configuration in SPACE.configurations)
        assert max(trial.values[axis] for trial in study.best_trials) > 0.97 * best


def test_the_first_proposal_of_a_plain_study_is_the_baseline():
    study = make(objectives=3)

    assert ask(study).params == SPACE.resolve(SETTINGS.baseline)


def test_failed_pruned_and_infeasible_trials_are_not_proposed_again():
    study = make()
    study.tell(ask(study), list(speeds(16)))
    ends: list[str] = []
    for end in ("pruned", "constraint", "complete"):
        trial = ask(study)
        ends.append(SPACE.key(SPACE.resolve(trial.params)))
        if end == "pruned":
            study.tell(trial, state=optuna.trial.TrialState.PRUNED)
            continue
        if end == "constraint":
            trial.set_constraint("launch", 1.0)
        study.tell(trial, [1.0, 1.0])

    assert SPACE.key(SPACE.resolve(ask(study).params)) not in ends
    assert len(set(ends)) == 3


def test_proposals_are_the_same_again():
    def ask_again(seed: int) -> list[object]:
        study = make(seed=seed)
        study.tell(ask(study), list(speeds(16)))
        return [ask(study).params for _ in range(4)]

    assert ask_again(1) == ask_again(1)


def test_parameters_of_ones_own_are_drawn_beside_it():
    study = make(seed=1)

    trial = ask(study)

    assert 0 <= trial.suggest_float("mine", 0, 1) <= 1


MAXIMIZE, MINIMIZE = StudyDirection.MAXIMIZE, StudyDirection.MINIMIZE


@pytest.mark.parametrize("directions", [[MAXIMIZE], [MAXIMIZE, MINIMIZE], [MAXIMIZE] * 4])
def test_a_study_of_other_objectives_is_refused(directions: list[StudyDirection]):
    study = optuna.create_study(directions=directions, sampler=GreyboxOptunaSampler(SETTINGS))

    with pytest.raises(UserError, match="maximises something else"):
        ask(study)


def test_a_study_of_an_unknown_search_space_is_refused_with_what_to_pass():
    study = make(None)

    with pytest.raises(UserError, match="search space is not known") as refused:
        ask(study)
    assert "load_settings" in str(refused.value.hint)


def test_the_example_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    page = (ROOT / "docs" / "optuna.md").read_text(encoding="utf-8")
    simulate_night(open_surface("roomy"), SamplerSettings(), 1, 4, directory=tmp_path / "night")
    monkeypatch.chdir(tmp_path)

    for example in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(compile(example, "docs/optuna.md", "exec"), {})  # noqa: S102  # our own page

    assert "budget" in capsys.readouterr().out


def test_what_a_loop_of_ones_own_adds_is_no_trial_of_autotune(stored: Path):
    before = len(load_study(stored).trials)
    study = load(stored, GreyboxOptunaSampler())
    study.tell(ask(study), [100.0, 1000.0, 0.4])

    view = load_study(stored)

    assert len(view.trials) == before
    assert all(isinstance(trial.state, TrialState) for trial in view.trials)


@pytest.mark.parametrize("bad", [[math.inf, 100.0], [10.0, 0.0], [-1.0, 100.0], [10.0, 100.0, math.inf]])
@pytest.mark.parametrize("place", [0, 2])
def test_values_that_nothing_runs_at_teach_nothing(bad: list[float], place: int):
    """case 39: Optuna keeps infinite, zero and negative values as complete."""
    study = make(objectives=len(bad))
    good = [10.0, 100.0, 0.5][: len(bad)]
    for number in range(5):
        trial = ask(study)
        trial.set_user_attr("accept_length", math.inf if number == place + 1 else 3.0)
        study.tell(trial, bad if number == place else good)

    first, second = study.trials[:2]
    assert (first.params == second.params) is (place == 0), "a baseline that was not measured is asked for again"
    assert ask(study).params != study.trials[1].params


def test_what_does_not_start_may_be_told_with_zeros():
    study = make()
    study.tell(ask(study), [10.0, 100.0])
    refused = ask(study)
    refused.set_constraint("launch", 1.0)
    study.tell(refused, [0.0, 0.0])

    assert ask(study).params != refused.params
