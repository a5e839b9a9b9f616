from __future__ import annotations

import math
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.errors import (
    HostBusyError,
    ImpossibleMetric,
    ProblemSetChanged,
    SearchSpaceError,
    StudyMismatchError,
    UserError,
)
from autotune.settings import ProfileSettings, SamplerSettings, SamplingSettings, StudySettings
from autotune.study import Study, Suggestion, load_study
from autotune.trial import Figure, TrialKind, TrialRecord, TrialState
from tests.records import STUDY, make_boot, make_cell, make_evaluation, make_settings

FOUR_POINTS = """
name = "four"

[parameters.budget]
kind = "int"
low = 1
high = 4
default = 2
flag = "--speculative-ddtree-budget"
"""


def measure(study: Study, suggestion: Suggestion, c1: float = 100.0, c32: float = 400.0) -> TrialRecord:
    """Drive one trial to its end as the trial loop does."""
    number = study.begin(suggestion)
    study.set_state(number, TrialState.DEPLOYING)
    study.record_boot(number, make_boot())
    study.set_state(number, TrialState.MEASURING)
    study.record_cell(number, make_cell(32, c32))
    study.record_cell(number, make_cell(1, c1))
    study.record_evaluation(number, make_evaluation())
    return study.complete(number)


def speeds(suggestion: Suggestion) -> tuple[float, float]:
    """A smooth landscape with a trade-off between the two concurrencies."""
    budget = float(suggestion.configuration["budget"] or 0)
    return 60 + 40 * math.log1p(budget), 900 - 9 * budget


@pytest.fixture
def study(tmp_path: Path) -> Iterator[Study]:
    with Study.open(make_settings(sampler=SamplerSettings(name="random")), tmp_path / "test") as study:
        yield study


@pytest.fixture
def four_points(tmp_path: Path) -> StudySettings:
    path = tmp_path / "four.toml"
    path.write_text(FOUR_POINTS)
    return make_settings(search_space=str(path), baseline={"budget": 2}, sampler=SamplerSettings(name="random"))


def test_everything_recorded_is_read_back_equal_by_a_second_reader(study: Study, tmp_path: Path):
    number = study.begin(study.suggest_baseline())
    study.set_state(number, TrialState.DEPLOYING)
    study.record_boot(number, make_boot())
    study.set_state(number, TrialState.MEASURING)
    cell = make_cell(32, 400.0, spread=0.1, prompts={"p1": 1.5})
    study.record_cell(number, cell)
    study.record_attributes(number, {"canary": 12.5})

    seen = load_study(tmp_path / "test").trials

    assert len(seen) == 1
    assert seen[0] == study.trial(number)
    assert seen[0].cells == (cell,)
    assert seen[0].boot == make_boot()
    assert seen[0].state is TrialState.MEASURING
    assert seen[0].attributes["canary"] == 12.5
    assert seen[0].attributes["sampling"] == SamplingSettings().model_dump(mode="json")
    assert list(seen[0].configuration) == ["budget", "topk", "window"]


def test_the_baseline_is_measured_first_and_never_counted(study: Study):
    baseline = measure(study, study.suggest_baseline())

    assert baseline.number == 0
    assert baseline.kind is TrialKind.BASELINE
    assert study.baseline() == baseline
    assert study.counted() == 0


def test_baseline_boots_are_pooled(study: Study):
    measure(study, study.suggest_baseline(), c1=100.0)
    measure(study, study.suggest_baseline(), c1=121.0)

    baseline = study.baseline()

    assert baseline is not None
    assert baseline.objectives.tokens_per_s_c1 is not None
    assert baseline.objectives.tokens_per_s_c1.value == pytest.approx(110.0)


def test_listed_configurations_come_before_the_sampler_in_their_order(tmp_path: Path):
    listed = ({"budget": 0}, {"budget": 7, "topk": 1})
    with Study.open(make_settings(try_=listed, sampler=SamplerSettings(name="random")), tmp_path / "s") as study:
        measure(study, study.suggest_baseline())
        asked = []
        for _ in range(3):
            suggestion = study.next_suggestion()
            assert suggestion is not None
            asked.append((suggestion.kind, suggestion.configuration["budget"]))
            measure(study, suggestion)

        assert asked[:2] == [(TrialKind.LISTED, 0), (TrialKind.LISTED, 7)]
        assert asked[2][0] is TrialKind.SEARCH
        assert study.counted() == 3


def test_with_listed_only_nothing_else_is_asked(tmp_path: Path):
    with Study.open(make_settings(try_=({"budget": 0},)), tmp_path / "s") as study:
        measure(study, study.suggest_baseline())
        suggestion = study.next_suggestion(listed_only=True)
        assert suggestion is not None
        measure(study, suggestion)

        assert study.next_suggestion(listed_only=True) is None


def test_a_listed_configuration_that_is_the_baseline_is_answered_from_history_once(tmp_path: Path):
    settings = make_settings(try_=({"budget": 16, "topk": 4},))
    with Study.open(settings, tmp_path / "s") as study:
        measure(study, study.suggest_baseline())

        assert study.next_suggestion(listed_only=True) is None
        assert study.next_suggestion(listed_only=True) is None
        assert [trial.state for trial in study.trials()] == [TrialState.COMPLETE, TrialState.DUPLICATE]
        assert study.trials()[1].reason == "the same configuration as the baseline (complete)"
        assert study.counted() == 0


def test_a_small_space_is_measured_once_each_and_then_ends_early(four_points: StudySettings, tmp_path: Path):
    """case 37: a space of 4 points, budget 10: each point once, repeats answered from history."""
    with Study.open(four_points, tmp_path / "s") as study:
        measure(study, study.suggest_baseline())
        booted = []
        while study.counted() < 10 and (suggestion := study.next_suggestion()) is not None:
            booted.append(suggestion.configuration["budget"])
            measure(study, suggestion)

        assert sorted(str(budget) for budget in booted) == ["1", "3", "4"]
        assert study.next_suggestion() is None
        assert study.counted() == 3
        repeats = [trial for trial in study.trials() if trial.state is TrialState.DUPLICATE]
        assert all(trial.cells == () and trial.boot is None for trial in repeats)


class Stubborn:
    """Proposes one configuration for ever."""

    def propose(self, history, space, pending, rng):  # noqa: ARG002  # the interface of a sampler
        return space.resolve({"budget": 2})


def test_a_sampler_that_repeats_itself_is_answered_from_history_and_then_replaced(
    four_points: StudySettings, tmp_path: Path
):
    """case 37: the sampler may repeat; no repeat is booted and the study still gets through its space."""
    with Study.open(four_points, tmp_path / "s", sampler=Stubborn()) as study:
        measure(study, study.suggest_baseline())
        suggestion = study.next_suggestion()

        assert suggestion is not None
        assert suggestion.configuration["budget"] in (1, 3, 4)
        states = [trial.state for trial in study.trials()]
        assert states == [TrialState.COMPLETE] + [TrialState.DUPLICATE] * 3
        assert study.counted() == 0


@pytest.mark.parametrize("value", [math.inf, math.nan, -1.0])
def test_an_impossible_speed_is_refused_before_it_is_stored(study: Study, value: float):
    """case 39: infinite, not a number or negative: refused with the metric named, front unchanged."""
    number = study.begin(study.suggest_baseline())

    with pytest.raises(ImpossibleMetric, match="decode_tokens_per_s"):
        study.record_cell(number, make_cell(32, value))
    ended = study.fail(number, "decode_tokens_per_s is impossible")

    assert ended.state is TrialState.FAILED
    assert ended.cells == ()
    assert study.baseline() is None


def test_a_trial_without_all_its_cells_cannot_complete(study: Study):
    """case 39: an unknown objective is refused before Optuna is told."""
    number = study.begin(study.suggest_baseline())
    study.record_cell(number, make_cell(32, 400.0))
    study.record_evaluation(number, make_evaluation())

    with pytest.raises(ImpossibleMetric, match="tokens_per_s_c1 is unknown"):
        study.complete(number)

    assert not study.trial(number).state.is_final


def test_a_trial_whose_objective_is_not_finite_cannot_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """case 39: with a weight that no study file can hold, the mean of finite speeds is not a number."""
    settings = make_settings()
    unchecked = settings.objectives.model_copy(update={"context_weights": {"128": math.inf}})
    with Study.open(settings, tmp_path / "test") as study:
        monkeypatch.setattr(study, "settings", settings.model_copy(update={"objectives": unchecked}))

        with pytest.raises(ImpossibleMetric, match="tokens_per_s_c1 is nan"):
            measure(study, study.suggest_baseline())

        assert study.trials()[0].state is TrialState.MEASURING


def test_a_trial_that_fails_more_problems_than_the_baseline_is_infeasible(study: Study):
    measure(study, study.suggest_baseline())
    number = study.begin(Suggestion(study.space.parse("budget=8"), TrialKind.SEARCH))
    study.record_cell(number, make_cell(32, 500.0))
    study.record_cell(number, make_cell(1, 150.0))
    study.record_evaluation(number, make_evaluation(20, 20))

    ended = study.complete(number)

    assert ended.state is TrialState.INFEASIBLE
    assert ended.reason is not None
    assert "pass@1 is worse than the baseline's" in ended.reason
    assert ended.objectives.pass_at_1 == Figure(0.5, 40, 0.0, 1.0)


def test_an_ended_trial_cannot_change(study: Study):
    number = measure(study, study.suggest_baseline()).number

    for change in (
        lambda: study.fail(number, "late"),
        lambda: study.record_cell(number, make_cell(1, 1.0)),
        lambda: study.set_state(number, TrialState.MEASURING),
    ):
        with pytest.raises(ValueError, match="has ended as complete"):
            change()


def test_other_problems_than_before_stop_the_study(study: Study):
    measure(study, study.suggest_baseline())
    number = study.begin(Suggestion(study.space.parse("budget=8"), TrialKind.SEARCH))

    with pytest.raises(ProblemSetChanged):
        study.record_evaluation(number, make_evaluation(problem_set="set-2"))


def test_a_second_process_is_refused_and_told_who_holds_the_study(study: Study, tmp_path: Path):
    """case 36: a second process on the same study is refused while the first lives."""
    with pytest.raises(HostBusyError, match=f"process {os.getpid()} is working on this study"):
        Study.open(make_settings(), tmp_path / "test")


def test_the_folder_of_a_study_is_closed_to_others(tmp_path: Path):
    """Commands and logs of a server may hold secrets; a folder that was there keeps the mode that its owner gave it."""
    (tmp_path / "open").mkdir(mode=0o755)
    for name in ("new", "open"):
        Study.open(make_settings(), tmp_path / name).close()

    modes = [(tmp_path / name).stat().st_mode & 0o777 for name in ("new", "open")]
    assert modes == [0o700, 0o755]


def test_the_lock_goes_when_the_study_is_closed(tmp_path: Path):
    for _ in range(2):
        Study.open(make_settings(), tmp_path / "s").close()


def test_a_trial_left_open_is_interrupted_and_tried_once_more_with_its_cells(tmp_path: Path):
    """case 36: resume marks the trial INTERRUPTED, suggests the same again and counts finished trials only."""
    settings = make_settings(sampler=SamplerSettings(name="random"))
    with Study.open(settings, tmp_path / "s") as study:
        measure(study, study.suggest_baseline())
        first = study.next_suggestion()
        assert first is not None
        number = study.begin(first)
        study.set_state(number, TrialState.DEPLOYING)
        study.record_cell(number, make_cell(32, 123.0))
    with Study.open(settings, tmp_path / "s") as study:
        again = study.next_suggestion()

        assert study.trial(number).state is TrialState.INTERRUPTED
        assert study.counted() == 0
        assert again == Suggestion(first.configuration, TrialKind.SEARCH, number, (make_cell(32, 123.0),))
        assert measure(study, again).number == number + 1
        following = study.next_suggestion()
        assert following is not None
        assert following.retries is None
        assert study.counted() == 1


KILLED = """
import os, signal, sys
from pathlib import Path
from autotune.settings import SamplerSettings
from autotune.study import Study
from autotune.trial import TrialState
from tests.records import make_settings
from tests.test_study import measure
study = Study.open(make_settings(sampler=SamplerSettings(name="random")), Path(sys.argv[1]))
measure(study, study.suggest_baseline())
for _ in range(2):
    measure(study, study.next_suggestion())
number = study.begin(study.next_suggestion())
study.set_state(number, TrialState.DEPLOYING)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_study_killed_in_trial_three_goes_on_as_if_it_had_not_been(tmp_path: Path):
    """case 36: SIGKILL during trial 3; numbers keep their order, the budget counts finished trials only."""
    settings = make_settings(sampler=SamplerSettings(name="random"))
    with Study.open(settings, tmp_path / "undisturbed") as study:
        measure(study, study.suggest_baseline())
        expected = []
        for _ in range(4):
            suggestion = study.next_suggestion()
            assert suggestion is not None
            expected.append(suggestion.configuration)
            measure(study, suggestion)

    ended = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "killed")], check=False, timeout=120)
    assert ended.returncode == -signal.SIGKILL
    with Study.open(settings, tmp_path / "killed") as study:
        for _ in range(2):
            suggestion = study.next_suggestion()
            assert suggestion is not None
            measure(study, suggestion)
        booted = [trial for trial in study.trials() if trial.kind is TrialKind.SEARCH and trial.state.counts]

        assert study.trial(3).state is TrialState.INTERRUPTED
        assert [trial.number for trial in study.trials()] == list(range(6))
        assert expected == [trial.configuration for trial in booted]
        assert study.counted() == 4


def test_a_trial_killed_between_its_state_and_optuna_keeps_its_state(tmp_path: Path):
    with Study.open(make_settings(), tmp_path / "s") as study:
        number = measure(study, study.suggest_baseline()).number
    with sqlite3.connect(tmp_path / "s" / "study.db") as database:
        database.execute("UPDATE trials SET state = 'RUNNING'")
        database.execute("DELETE FROM trial_values")
    database.close()

    with Study.open(make_settings(), tmp_path / "s") as study:
        assert study.trial(number).state is TrialState.COMPLETE
    assert optuna_states(tmp_path / "s") == ["COMPLETE"]


def test_a_configuration_that_failed_twice_is_left_alone(four_points: StudySettings, tmp_path: Path):
    with Study.open(four_points, tmp_path / "s", sampler=Stubborn()) as study:
        asked = []
        while (suggestion := study.next_suggestion()) is not None:
            asked.append(suggestion.configuration["budget"])
            study.fail(study.begin(suggestion), "nobody knows")

        assert sorted(str(budget) for budget in asked) == ["1", "1", "2", "2", "3", "3", "4", "4"]
        assert study.counted() == 0


def test_the_differences_of_a_changed_study_are_listed(tmp_path: Path):
    """case 27: a study refuses to mix trials with different sampling."""
    Study.open(make_settings(), tmp_path / "s").close()
    changed = make_settings(STUDY.replace("[benchmark]", "[benchmark]\nrepeats = 5\nsampling = { temperature = 0.7 }"))

    with pytest.raises(StudyMismatchError) as caught:
        Study.open(changed, tmp_path / "s")

    assert caught.value.message.splitlines() == [
        "the study 'test' was made with other settings:",
        "  benchmark.repeats was 2 and is now 5",
        "  benchmark.sampling.temperature was 0.0 and is now 0.7",
    ]


def test_ports_time_limits_and_listed_configurations_may_change(tmp_path: Path):
    Study.open(make_settings(), tmp_path / "s").close()
    text = STUDY.replace("[server]", "[server]\nport = 30999\nready_timeout_s = 7")

    with Study.open(make_settings(text, try_=({"budget": 3},)), tmp_path / "s"):
        assert load_study(tmp_path / "s", name="test").settings.server.port == 30999


def test_a_changed_search_space_is_refused(four_points: StudySettings, tmp_path: Path):
    Study.open(four_points, tmp_path / "s").close()
    (tmp_path / "four.toml").write_text(FOUR_POINTS.replace("high = 4", "high = 5"))

    with pytest.raises(StudyMismatchError, match="other configurations or flags"):
        Study.open(four_points, tmp_path / "s")


def test_a_folder_that_holds_another_study_is_refused_and_left_as_it_is(tmp_path: Path):
    Study.open(make_settings(STUDY.replace('name = "test"', 'name = "first"')), tmp_path / "s").close()

    with pytest.raises(StudyMismatchError, match=r"another study is here: first; 'test' cannot be put beside it"):
        Study.open(make_settings(), tmp_path / "s")

    assert load_study(tmp_path / "s").settings.name == "first"


def test_a_listed_configuration_outside_the_space_is_refused_before_anything_is_made(tmp_path: Path):
    with pytest.raises(SearchSpaceError, match="budget=999"):
        Study.open(make_settings(try_=({"budget": 999},)), tmp_path / "s")

    assert not (tmp_path / "s").exists()


def test_reading_or_resuming_what_is_not_there_says_so_and_makes_nothing(tmp_path: Path):
    with pytest.raises(StudyMismatchError, match="no study here"):
        load_study(tmp_path / "s")
    with pytest.raises(StudyMismatchError, match="no study here"):
        Study.open(make_settings(), tmp_path / "s", create=False)

    assert not (tmp_path / "s").exists()


def test_a_folder_with_signs_that_urls_use_works(tmp_path: Path):
    folder = tmp_path / "a b?c#d%20{e}"
    with Study.open(make_settings(), folder) as study:
        measure(study, study.suggest_baseline())

    assert len(load_study(folder, name="test").trials) == 1
    assert (folder / "study.db").is_file()


def optuna_study(folder: Path) -> optuna.Study:
    return optuna.load_study(study_name="test", storage=f"sqlite:///{folder}/study.db")


def optuna_states(folder: Path) -> list[str]:
    study = optuna_study(folder)
    states = [trial.state.name for trial in study.trials]
    study._storage._backend.engine.dispose()  # type: ignore[attr-defined]
    return states


def test_each_state_is_told_to_optuna_as_the_table_says(tmp_path: Path):
    with Study.open(make_settings(), tmp_path / "s") as study:
        measure(study, study.suggest_baseline())
        measure(study, Suggestion(study.space.parse("budget=20"), TrialKind.SEARCH), 110, 410)
        number = study.begin(Suggestion(study.space.parse("budget=21"), TrialKind.SEARCH))
        study.record_cell(number, make_cell(32, 100.0))
        study.prune(number, "hopeless")
        study.mark_infeasible(study.begin(Suggestion(study.space.parse("budget=22"), TrialKind.SEARCH)), "no memory")
        study.fail(study.begin(Suggestion(study.space.parse("budget=23"), TrialKind.SEARCH)), "unexplained")
        study.begin(Suggestion(study.space.parse("budget=24"), TrialKind.SEARCH))

    told = optuna_study(tmp_path / "s")
    assert [t.state.name for t in told.trials] == ["COMPLETE", "COMPLETE", "PRUNED", "PRUNED", "FAIL", "RUNNING"]
    assert told.metric_names == ["tokens_per_s_c1", "tokens_per_s_c32", "pass_at_1"]
    assert told.trials[1].values == pytest.approx([110, 410, 0.75])
    assert list(told.trials[1].constraints) == ["context_loss", "launch", "pass_guard"]
    assert told.trials[3].constraints["launch"] == 1.0
    assert [t.number for t in told.best_trials] == [1]
    assert told.trials[1].params == {"budget": 20, "topk": 4, "window": None}
    told._storage._backend.engine.dispose()  # type: ignore[attr-defined]


def test_a_profile_ends_complete_without_objectives_and_is_told_to_optuna_without_values(tmp_path: Path):
    with Study.open(make_settings(profile=ProfileSettings(enabled=True)), tmp_path / "s") as study:
        measure(study, study.suggest_baseline())
        suggestion = study.suggest_profile()
        assert suggestion is not None
        assert suggestion.kind is TrialKind.PROFILE
        trial = study.complete_profile(study.begin(suggestion))

        assert trial.state is TrialState.COMPLETE
        assert trial.objectives.tokens_per_s_c1 is None
        assert (study.suggest_profile(), study.counted()) == (None, 0)

    told = optuna_study(tmp_path / "s")
    assert [t.state.name for t in told.trials] == ["COMPLETE", "PRUNED"]
    assert [t.number for t in told.best_trials] == [0]
    told._storage._backend.engine.dispose()  # type: ignore[attr-defined]


def test_optunas_report_and_should_prune_are_never_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """case 44: pruning with several objectives is our own rule; a pruned trial keeps its cells and is on no front."""

    def refuse(*_args: object) -> None:
        raise AssertionError

    monkeypatch.setattr(optuna.trial.Trial, "report", refuse)
    monkeypatch.setattr(optuna.trial.Trial, "should_prune", refuse)
    with Study.open(make_settings(sampler=SamplerSettings(name="gp", startup_trials=1)), tmp_path / "s") as study:
        measure(study, study.suggest_baseline())
        for _ in range(3):
            suggestion = study.next_suggestion()
            assert suggestion is not None
            number = study.begin(suggestion)
            study.record_cell(number, make_cell(32, 10.0))
            ended = study.prune(number, "can reach at most 10 tokens/s")

            assert ended.state is TrialState.PRUNED
            assert ended.cells == (make_cell(32, 10.0),)
        assert study.counted() == 3


def test_the_reference_is_fixed_after_the_first_arms_and_never_moves(tmp_path: Path):
    settings = make_settings(try_=({"budget": 0},), sampler=SamplerSettings(name="random"))
    with Study.open(settings, tmp_path / "s") as study:
        measure(study, study.suggest_baseline(), 100, 400)
        assert study.reference() is None
        plain = study.next_suggestion()
        assert plain is not None
        measure(study, plain, 50, 500)
        expected = (45.0, 360.0)

        assert study.reference() == pytest.approx(expected)
        measure(study, study.suggest_baseline(), 10, 40)
        assert study.reference() == pytest.approx(expected)


@pytest.mark.parametrize("name", ["gp", "tpe", "nsga2", "qmc", "random"])
def test_a_resumed_study_is_asked_the_same_as_one_that_never_stopped(tmp_path: Path, name):
    settings = make_settings(sampler=SamplerSettings(name=name, startup_trials=3))

    def run(folder: Path, *, reopen: bool) -> list[object]:
        study = Study.open(settings, folder)
        measure(study, study.suggest_baseline(), 173, 756)
        asked: list[object] = []
        for _ in range(5):
            suggestion = study.next_suggestion()
            assert suggestion is not None
            asked.append(suggestion.configuration)
            measure(study, suggestion, *speeds(suggestion))
            if reopen and len(asked) == 4:
                study.close()
                study = Study.open(settings, folder)
        study.close()
        return asked

    assert run(tmp_path / "a", reopen=False) == run(tmp_path / "b", reopen=True)


@settings(max_examples=8, deadline=None)
@given(endings=st.lists(st.sampled_from(["complete", "prune", "infeasible", "fail", "interrupt", "leave"]), max_size=6))
def test_however_trials_end_no_configuration_is_booted_after_it_was_measured(endings, tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    (folder / "nine.toml").write_text(FOUR_POINTS.replace("high = 4", "high = 9"))
    settings = make_settings(
        search_space=str(folder / "nine.toml"), baseline={"budget": 2}, sampler=SamplerSettings(name="random")
    )
    study = Study.open(settings, folder)
    measure(study, study.suggest_baseline())
    for ending in endings:
        suggestion = study.next_suggestion()
        assert suggestion is not None
        measured = [t.configuration for t in study.trials() if t.state.counts]
        assert suggestion.configuration not in measured
        number = study.begin(suggestion)
        match ending:
            case "complete":
                study.record_cell(number, make_cell(1, 90.0))
                study.record_cell(number, make_cell(32, 390.0))
                study.record_evaluation(number, make_evaluation())
                study.complete(number)
            case "prune":
                study.prune(number, "hopeless")
            case "infeasible":
                study.mark_infeasible(number, "no memory")
            case "fail":
                study.fail(number, "unexplained")
            case "interrupt":
                study.interrupt(number, "stopped by hand")
            case _:
                study.close()
                study = Study.open(settings, folder)
    counted = sum(ending in ("complete", "prune", "infeasible") for ending in endings)
    assert study.counted() == counted
    study.close()


def test_a_folder_that_cannot_be_made_is_named_and_another_is_suggested(tmp_path: Path):
    (tmp_path / "file").write_text("")

    with pytest.raises(UserError, match="cannot be used: Not a directory") as caught:
        Study.open(make_settings(), tmp_path / "file" / "study")

    assert caught.value.where == str(tmp_path / "file" / "study")
    assert "--study-directory" in str(caught.value.hint)


@pytest.mark.parametrize("name", ["study.db", "study.lock"])
def test_a_file_of_the_study_that_cannot_be_opened_is_named(tmp_path: Path, name: str):
    (tmp_path / name).mkdir()

    with pytest.raises(UserError) as caught:
        Study.open(make_settings(), tmp_path)

    assert caught.value.where == str(tmp_path / name)
    assert "--study-directory" in str(caught.value.hint)


def test_a_database_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    Study.open(make_settings(), tmp_path).close()
    monkeypatch.setattr("os.access", lambda path, _mode: Path(path).name != "study.db")

    with pytest.raises(UserError, match="Permission denied") as caught:
        Study.open(make_settings(), tmp_path)

    assert caught.value.where == str(tmp_path / "study.db")
