"""How a night boots its leaders again, on an imaginary host and an imaginary clock."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from autotune.confirmation.verdict import Outcome, judge_all
from autotune.errors import BaselineError, NothingSucceeded
from autotune.events import Activity, Noted, PhaseChanged, TrialStarted
from autotune.settings import CellSettings, ConfirmationSettings, StudySettings, parse_settings
from autotune.trial import Configuration, TrialKind, TrialRecord, TrialState
from autotune.tuner.limits import Limits
from autotune.tuner.soak_run import for_soak
from tests.deployment.fake import Fate
from tests.tuner.imaginary import STUDY, Imagined


def settings_with(boots: int = 6, soak_s: float = 0.0) -> StudySettings:
    """A study whose only listed trial is budget 0; the baseline has budget 16."""
    settings = parse_settings(STUDY, "study.toml")
    return settings.model_copy(update={"confirmation": ConfirmationSettings(boots=boots, soak_s=soak_s)})


@dataclass
class Speeds:
    """Speeds of budget 0 (the leader) over those of the baseline: one for each boot, the last one from then on."""

    gains: list[float]
    boots: int = 0

    def __call__(self, configuration: Configuration, concurrency: int) -> float:
        if configuration["budget"] != 0:
            return 100.0 * concurrency
        gain = self.gains[min(self.boots // 2, len(self.gains) - 1)]  # a boot measures two cells
        self.boots += 1
        return 100.0 * concurrency * gain


def night_of(folder: Path, gains: list[float], **settings: float) -> Imagined:
    return Imagined(folder, settings=settings_with(**settings), speed=Speeds(gains))  # type: ignore[arg-type]


def confirmations(trials: tuple[TrialRecord, ...]) -> list[tuple[int, int | None]]:
    """Round and leader of each boot of a confirmation."""
    return [
        (trial.confirmation.round, trial.confirmation.leader)
        for trial in trials
        if trial.confirmation is not None and not trial.confirmation.is_soak
    ]


def test_leader_and_baseline_take_turns_after_the_search_and_are_not_counted(tmp_path: Path):
    night = night_of(tmp_path, [1.1, 1.0, 1.05, 1.0])
    outcome = night(Limits(trials=1))

    assert confirmations(night.trials) == [(0, None), (0, 1), (1, 1), (1, None), (2, None), (2, 1)]
    assert sum(trial.is_counted for trial in night.trials) == 1
    assert "1 of 1 trials are done; trial 1: no significant gain" in outcome.reason


def test_a_clear_gain_ends_it_early_and_says_so(tmp_path: Path):
    night = night_of(tmp_path, [1.5])
    outcome = night(Limits(trials=1))

    assert len(confirmations(night.trials)) == 4
    assert "trial 1: confirmed, +50.0% in fresh boots" in outcome.reason


def test_every_boot_of_a_confirmation_is_a_fresh_one(tmp_path: Path):
    night = night_of(tmp_path, [1.1, 1.0, 1.05, 1.0])
    night(Limits(trials=1))
    again = [trial for trial in night.trials if trial.kind is TrialKind.CONFIRMATION]

    assert len(again) == 6
    assert all(trial.boot is not None and not trial.boot.reused for trial in again)


def test_coding_problems_are_not_asked_again(tmp_path: Path):
    night = night_of(tmp_path, [1.5])
    night(Limits(trials=1))

    assert all((trial.evaluation is None) == (trial.kind is TrialKind.CONFIRMATION) for trial in night.trials)


def test_nothing_is_confirmed_where_nothing_is_ahead_or_nobody_wants_it(tmp_path: Path):
    behind = night_of(tmp_path / "behind", [0.9])
    behind(Limits(trials=1))
    unwanted = night_of(tmp_path / "unwanted", [1.5], boots=0)
    unwanted(Limits(trials=1))

    assert confirmations(behind.trials) == confirmations(unwanted.trials) == []


def test_a_confirmation_that_was_cut_off_goes_on_with_the_next_command(tmp_path: Path):
    first = night_of(tmp_path, [1.1, 1.0, 1.05, 1.0])

    def interrupt(configuration: Configuration, cell: CellSettings) -> None:
        if sum(trial is TrialKind.CONFIRMATION for trial in kinds(first)) == 4 and cell.concurrency == 1:
            os.kill(os.getpid(), signal.SIGTERM)

    first.trouble = interrupt
    with first.interruption:
        outcome = first(Limits(trials=1))
    assert outcome.exit_code == 143
    second = night_of(tmp_path, [1.0, 1.05, 1.0])
    second(Limits(trials=1))

    states = [trial.state for trial in second.trials if trial.kind is TrialKind.CONFIRMATION]
    assert states.count(TrialState.INTERRUPTED) == 1
    assert confirmations(second.trials) == [(0, None), (0, 1), (1, 1), (1, None), (1, None), (2, None), (2, 1)]
    assert judge_all(second.trials, second.settings)[0].is_decided


def kinds(night: Imagined) -> list[TrialKind]:
    return [event.kind for event in night.events if isinstance(event, TrialStarted)]


def test_the_same_command_again_boots_nothing_more_once_it_is_decided(tmp_path: Path):
    night_of(tmp_path, [1.5])(Limits(trials=1))
    night = night_of(tmp_path, [1.5])
    night(Limits(trials=1))

    assert len(confirmations(night.trials)) == 4


def test_time_is_kept_for_the_confirmation_and_the_host_is_back_in_time(tmp_path: Path):
    night = night_of(tmp_path, [1.1])
    started = night.clock.now()
    until = started + timedelta(seconds=300)
    night(Limits(until=until))
    with_it = [trial.kind for trial in night.trials]

    assert night.clock.now() <= until
    assert TrialKind.CONFIRMATION in with_it
    assert with_it.index(TrialKind.CONFIRMATION) > with_it.index(TrialKind.SEARCH)


def test_the_time_that_is_left_holds_the_confirmation(tmp_path: Path):
    without, with_it = night_of(tmp_path / "without", [1.1], boots=0), night_of(tmp_path / "with", [1.1], boots=16)
    for night in (without, with_it):
        night(Limits(trials=2))
    left = [
        next(
            event.progress.study_left_s
            for event in night.events
            if isinstance(event, TrialStarted) and event.kind is TrialKind.LISTED
        )
        for night in (without, with_it)
    ]

    assert left[0] is not None
    assert left[1] is not None
    assert left[1] > 4 * left[0]


def test_a_leader_that_does_not_come_up_again_is_refuted(tmp_path: Path):
    night = night_of(tmp_path, [1.5])
    oom = {1.0: "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."}
    night.deployment.fates = [Fate(), Fate(), Fate(), Fate(ends_after_s=5, log=oom)]
    outcome = night(Limits(trials=1))

    verdict = judge_all(night.trials, night.settings)[0]
    assert verdict.of(1).outcome is Outcome.REFUTED
    assert "out of memory" in outcome.reason
    assert "the baseline stays" in outcome.reason


def test_a_baseline_that_does_not_serve_in_a_confirmation_ends_the_study(tmp_path: Path):
    night = night_of(tmp_path, [1.5])
    night.deployment.fates = [Fate(), Fate(), Fate(ends_after_s=5), Fate(ends_after_s=5)]

    with pytest.raises(BaselineError):
        night(Limits(trials=1))


def test_a_confirmed_leader_is_loaded_on_the_server_of_its_last_boot(tmp_path: Path):
    night = night_of(tmp_path, [1.1, 1.09, 1.1, 1.3], boots=6, soak_s=60.0)
    night.settings = night.settings.model_copy(
        update={"confirmation": ConfirmationSettings(boots=6, soak_s=60.0, alpha=0.4)}
    )
    outcome = night(Limits(trials=1))
    soaks = [trial for trial in night.trials if trial.is_soak]

    assert len(soaks) == 1
    assert soaks[0].state is TrialState.COMPLETE
    assert soaks[0].boot is not None
    assert len(soaks[0].cells) == 12
    assert {item.cell.concurrency for item in soaks[0].cells} == {32}
    assert "it survived 60 s" in outcome.reason
    assert any(isinstance(event, PhaseChanged) and event.activity is Activity.SOAKING for event in night.events)


def test_a_crash_in_the_soak_takes_the_recommendation_back(tmp_path: Path):
    night = night_of(tmp_path, [1.5], soak_s=100.0)
    passes = 0

    def die(configuration: Configuration, _cell: CellSettings) -> None:
        nonlocal passes
        if night.events and any(
            isinstance(event, PhaseChanged) and event.activity is Activity.SOAKING for event in night.events
        ):
            passes += 1
            if passes == 5:
                night.deployment._fate = Fate(ends_after_s=0, log={0.0: "Illegal memory access"})

    night.trouble = die
    outcome = night(Limits(trials=1))

    verdict = judge_all(night.trials, night.settings)[0]
    assert verdict.chosen == 1
    assert verdict.recommended is None
    assert "refuted" in outcome.reason
    assert outcome.exit_code == 0
    soak = next(trial for trial in night.trials if trial.is_soak)
    assert "Illegal memory access" in str(soak.attributes["log_lines"])


def test_requests_that_fail_in_the_soak_take_it_back_too(tmp_path: Path):
    night = night_of(tmp_path, [1.5], soak_s=100.0)

    def fail(_configuration: Configuration, _cell: CellSettings) -> None:
        if any(isinstance(event, PhaseChanged) and event.activity is Activity.SOAKING for event in night.events):
            raise NothingSucceeded("no request succeeded")

    night.trouble = fail
    night(Limits(trials=1))

    verdict = judge_all(night.trials, night.settings)[0]
    assert verdict.soak is not None
    assert "no request succeeded" in verdict.soak.reason
    assert verdict.recommended is None


def test_a_soak_samples_where_the_study_is_greedy():
    greedy = settings_with().benchmark
    assert for_soak(greedy).sampling.temperature > 0
    sampled = greedy.model_copy(update={"sampling": greedy.sampling.model_copy(update={"temperature": 0.6})})

    assert for_soak(sampled).sampling.temperature == 0.6


def test_what_fresh_boots_say_is_told_after_each_round(tmp_path: Path):
    night = night_of(tmp_path, [1.1, 1.0, 1.05, 1.0])
    night(Limits(trials=1))
    notes = [
        event.sentence for event in night.events if isinstance(event, Noted) and "rounds of boots" in event.sentence
    ]

    assert [note[:6] for note in notes] == ["1 of 3", "2 of 3", "3 of 3"]


def test_one_confirmation_can_be_run_alone(tmp_path: Path):
    night_of(tmp_path, [1.5], boots=0)(Limits(trials=1))
    night = night_of(tmp_path, [1.5], boots=0)
    outcome = night.confirm((), None)

    assert [trial.kind for trial in night.trials[-4:]] == [TrialKind.CONFIRMATION] * 4
    assert "confirmed" in outcome.reason
