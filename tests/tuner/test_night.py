"""What a whole night does, on an imaginary host and an imaginary clock."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.cli.display import render_position
from autotune.errors import (
    NothingSucceeded,
)
from autotune.events import (
    CellMeasured,
    FrontChanged,
    Noted,
    StudyEnded,
    StudyStarted,
    TrialEnded,
    TrialStarted,
)
from autotune.settings import CellSettings
from autotune.trial import Configuration, TrialKind, TrialState
from autotune.tuner.limits import Limits
from tests.deployment.fake import Fate
from tests.tuner.imaginary import Imagined


def test_the_baseline_comes_first_then_the_list_then_the_sampler(tmp_path: Path):
    night = Imagined(tmp_path)
    outcome = night(Limits(trials=3))

    assert night.states() == [
        ("baseline", "complete"),
        ("listed", "complete"),
        ("search", "complete"),
        ("search", "complete"),
        ("baseline", "complete"),
    ]
    assert outcome.exit_code == 0
    assert outcome.reason == "3 of 3 trials are done"
    assert night.trials[1].configuration["budget"] == 0


def test_zero_trials_boot_the_list_only(tmp_path: Path):
    night = Imagined(tmp_path)
    night(Limits(trials=0))

    assert night.states() == [("baseline", "complete"), ("listed", "complete")]


def test_the_same_command_again_goes_on_and_counts_all_trials(tmp_path: Path):
    Imagined(tmp_path)(Limits(trials=2))
    night = Imagined(tmp_path)
    night(Limits(trials=4))

    kinds = [kind for kind, _ in night.states()]
    assert kinds.count("baseline") == 3
    assert sum(trial.state.counts and trial.kind is not TrialKind.BASELINE for trial in night.trials) == 4
    assert len({night.space.key(trial.configuration) for trial in night.trials}) == 5


def test_a_long_study_boots_the_baseline_three_times(tmp_path: Path):
    night = Imagined(tmp_path)
    night(Limits(trials=8))

    kinds = [kind for kind, _ in night.states()]
    assert kinds.index("baseline", 1) == 5
    assert [index for index, kind in enumerate(kinds) if kind == "baseline"] == [0, 5, 10]


def test_each_trial_begins_and_ends_once_and_the_front_is_told_when_it_moves(tmp_path: Path):
    night = Imagined(tmp_path)
    night.deployment.fates = [Fate(), Fate(ends_after_s=5)]
    night(Limits(trials=3))

    begun = [event.number for event in night.events if isinstance(event, TrialStarted)]
    ended = [event.trial.number for event in night.events if isinstance(event, TrialEnded)]
    fronts = [event.front for event in night.events if isinstance(event, FrontChanged)]
    cells = [event for event in night.events if isinstance(event, CellMeasured)]
    assert begun == ended == [trial.number for trial in night.trials]
    assert isinstance(night.events[0], StudyStarted)
    assert isinstance(night.events[-1], StudyEnded)
    assert fronts[-1] == night.events[-1].front
    assert len(cells) == 2 * len(night.trials)
    assert any(isinstance(event, Noted) and "once more" in event.sentence for event in night.events)


def test_the_time_that_is_left_is_learned_from_earlier_trials(tmp_path: Path):
    night = Imagined(tmp_path)
    night(Limits(trials=4))

    starts = [event.progress for event in night.events if isinstance(event, TrialStarted)]
    trial_s = 24.0
    assert starts[0].study_left_s is None
    assert starts[2].trial_left_s == pytest.approx(trial_s, rel=0.1)
    assert starts[2].study_left_s == pytest.approx(3 * trial_s + 2 * trial_s, rel=0.15)


def test_a_hopeless_trial_is_pruned_after_its_first_stage(tmp_path: Path):
    hopeless = Imagined(tmp_path)
    hopeless.speed = lambda configuration, c: 100.0 * c if configuration["budget"] in (0, 16) else 20.0 * c
    hopeless.accept_length = 1.1  # what bounds it at C=1
    hopeless(Limits(trials=5))

    trial = hopeless.trials[-2] if hopeless.trials[-1].kind is TrialKind.BASELINE else hopeless.trials[-1]
    assert trial.state is TrialState.PRUNED
    assert [cell.cell.concurrency for cell in trial.cells] == [32]
    assert (trial.reason or "").startswith("after stage busy: ")


def test_a_list_that_goes_beyond_the_trials_is_said_without_nonsense(tmp_path: Path):
    night = Imagined(tmp_path)
    listed = night.settings.model_copy(update={"try_": ({"budget": 0}, {"budget": 32, "topk": 4})})
    night.settings = listed
    outcome = night(Limits(trials=1))

    positions = [
        render_position(event.progress, event.kind) for event in night.events if isinstance(event, TrialStarted)
    ]
    assert positions[:3] == ["baseline", "1 of 1, listed", "2, listed"]
    assert outcome.reason == "2 trials are done, 1 was asked for"


def test_a_listed_configuration_that_was_given_up_is_not_called_measured(tmp_path: Path):
    for _ in range(2):
        night = Imagined(tmp_path)
        night.trouble = night.fail(NothingSucceeded("0 of 8"), budget=0)
        outcome = night(Limits(trials=0))

    assert outcome.reason == "no listed configuration is left: 0 measured, 1 given up"


def test_what_was_found_on_the_host_is_told(tmp_path: Path):
    night = Imagined(tmp_path)
    night.deployment.found_out = ("the host restored itself at 03:12",)

    def find_more(_configuration: Configuration, _cell: CellSettings) -> None:
        night.deployment.found_out = ("the host restored itself at 03:12", "no GPU tool")

    night.trouble = find_more
    night(Limits(trials=0))

    told = [event.sentence for event in night.events if isinstance(event, Noted)]
    assert told == ["the host restored itself at 03:12", "no GPU tool"]
