"""How a night begins with the server it found and ends with it, on an imaginary host and an imaginary clock."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from autotune.deployment.base import Observation, Occupant
from autotune.errors import (
    ConnectionLostError,
    RestoreError,
)
from autotune.events import (
    Activity,
    Event,
    Noted,
    PhaseChanged,
    StudyEnded,
)
from autotune.settings import CellSettings
from autotune.trial import Configuration, TrialKind, TrialState
from autotune.tuner.limits import Limits
from tests.tuner.imaginary import Imagined


def test_a_found_baseline_serves_again_and_an_empty_host_is_empty(tmp_path: Path):
    """Case 70."""
    for found in (Occupant.BASELINE, Occupant.NOBODY):
        night = Imagined(tmp_path / found.value, found=found)
        outcome = night(Limits(trials=2))

        assert night.deployment.occupant is found
        assert outcome.restored.startswith("the baseline serves again" if found is Occupant.BASELINE else "no server")


def test_the_last_boot_of_the_baseline_is_the_restored_server(tmp_path: Path):
    night = Imagined(tmp_path, found=Occupant.BASELINE)
    night(Limits(trials=2))

    last = night.trials[-1]
    assert last.kind is TrialKind.BASELINE
    assert last.boot is not None
    assert last.boot.reused
    assert night.deployment.restores == 1


def test_no_boot_starts_that_cannot_end_before_the_moment(tmp_path: Path):
    night = Imagined(tmp_path, found=Occupant.BASELINE)
    until = night.clock.now() + timedelta(seconds=150)
    outcome = night(Limits(until=until))

    assert "too long for" in outcome.reason
    assert night.clock.now() <= until
    assert night.deployment.occupant is Occupant.BASELINE
    assert sum(trial.state is TrialState.COMPLETE for trial in night.trials) >= 3
    assert all(trial.state is not TrialState.INTERRUPTED for trial in night.trials)


def test_a_slow_trial_is_interrupted_for_the_moment_and_taken_up_next_time(tmp_path: Path):
    night = Imagined(tmp_path)

    def slow(configuration: Configuration, cell: CellSettings) -> None:
        if configuration["budget"] == 0 and cell.concurrency == 32:
            night.clock.sleep(500)

    night.trouble = slow
    outcome = night(Limits(trials=2, duration_s=300))

    assert outcome.exit_code == 0
    assert night.states()[1] == ("listed", "interrupted")
    assert len(night.trials[1].cells) == 1
    again = Imagined(tmp_path)
    again(Limits(trials=1))
    assert again.states()[2] == ("listed", "complete")
    assert (again.space.key(again.trials[2].configuration), "ctx128-c32") not in again.measured


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_restores_the_host_and_says_so_by_its_exit_code(tmp_path: Path, number: int, exit_code: int):
    """Case 70 (a), (c): a second signal changes nothing."""
    night = Imagined(tmp_path, found=Occupant.BASELINE)

    def interrupt(configuration: Configuration, _cell: CellSettings) -> None:
        if configuration["budget"] == 0:
            os.kill(os.getpid(), number)
            os.kill(os.getpid(), number)

    night.trouble = interrupt
    with night.interruption:
        outcome = night(Limits(trials=5))

    assert outcome.exit_code == exit_code
    assert night.states() == [("baseline", "complete"), ("listed", "interrupted")]
    assert night.deployment.occupant is Occupant.BASELINE


def test_a_signal_during_the_restore_lets_it_finish(tmp_path: Path):
    night = Imagined(tmp_path, found=Occupant.BASELINE)

    def interrupt(event: Event) -> None:
        night.events.append(event)
        if isinstance(event, PhaseChanged) and event.activity.name == "RESTORING":
            os.kill(os.getpid(), signal.SIGTERM)

    night.observer = interrupt
    with night.interruption:
        outcome = night(Limits(trials=2))

    assert outcome.exit_code == 143
    assert night.deployment.occupant is Occupant.BASELINE
    assert [kind for kind, _ in night.states()].count("baseline") == 1


def test_a_restored_server_that_does_not_serve_is_an_error_that_says_so(tmp_path: Path):
    night = Imagined(tmp_path, found=Occupant.BASELINE)

    def break_host(event: Event) -> None:
        night.events.append(event)
        if isinstance(event, PhaseChanged) and event.activity.name == "RESTORING":
            night.dialect.ready_after_s = 1e9

    night.observer = break_host
    with pytest.raises(RestoreError, match="not ready"):
        night(Limits(trials=1))

    assert isinstance(night.events[-1], StudyEnded)


def test_a_link_that_drops_after_the_restore_does_not_spoil_a_finished_night(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    night = Imagined(tmp_path, found=Occupant.BASELINE)
    restore = night.deployment.restore

    def lose_the_way() -> Observation:
        raise ConnectionLostError("10.0.0.2:22 did not answer within 10 s", where="gpu1")

    def restore_and_lose_the_way(check: Callable[[], None] | None = None) -> None:
        restore(check)
        monkeypatch.setattr(night.deployment, "observe", lose_the_way)

    monkeypatch.setattr(night.deployment, "restore", restore_and_lose_the_way)

    outcome = night(Limits(trials=1))

    assert (outcome.exit_code, outcome.restored) == (0, "the baseline serves again")
    assert night.deployment.occupant is Occupant.BASELINE
    assert any(isinstance(event, Noted) and "did not answer within 10 s" in event.sentence for event in night.events)


def test_a_signal_that_comes_while_a_configuration_is_chosen_begins_no_trial(tmp_path: Path):
    night = Imagined(tmp_path)
    night(Limits(trials=0))
    again = Imagined(tmp_path)
    tell = again.events.append

    def interrupt(event: Event) -> None:
        tell(event)
        if isinstance(event, PhaseChanged) and event.activity is Activity.ASKING:
            again.interruption.received = signal.SIGINT

    again.observer = interrupt
    outcome = again(Limits(trials=9))

    assert outcome.exit_code == 130
    assert len(again.trials) == len(night.trials)
