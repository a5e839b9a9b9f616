"""What a night makes of a server that runs with other flags, on an imaginary host and an imaginary clock."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from autotune.deployment.base import Occupant
from autotune.errors import (
    BaselineError,
    LeaseLostError,
)
from autotune.suggestion import measured_as, settled_keys
from autotune.trial import ParameterValue
from autotune.tuner.limits import Limits
from tests.tuner.imaginary import Imagined


def test_every_boot_is_proved_and_its_flags_are_stored(tmp_path: Path):
    night = Imagined(tmp_path)
    night(Limits(trials=1))

    boot = night.trials[1].boot
    assert boot is not None
    assert boot.effective_flags["key"] == night.space.key(night.trials[1].configuration)
    assert boot.ready_after_s == pytest.approx(10, abs=1)
    assert boot.version == "1.0"
    assert not boot.reused


def test_a_server_that_runs_the_wanted_configuration_is_used_as_it_is(tmp_path: Path):
    night = Imagined(tmp_path, found=Occupant.BASELINE)
    night(Limits(trials=0))

    boot = night.trials[0].boot
    assert boot is not None
    assert boot.reused
    assert boot.ready_after_s is None
    assert len(night.deployment.starts) == 1


def test_flags_of_no_configuration_are_never_measured(tmp_path: Path):
    """Case 34."""
    night = Imagined(tmp_path)
    read = night.dialect.fetch_effective_flags

    def report(url: str, environment: Mapping[str, str]) -> Mapping[str, ParameterValue]:
        flags = dict(read(url, environment))
        return flags | ({"key": "budget=3"} if "budget=0" in str(flags["key"]) else {})

    night.dialect.fetch_effective_flags = report  # type: ignore[method-assign]
    night(Limits(trials=0))

    assert night.states() == [("baseline", "complete"), ("listed", "infeasible")]
    assert "asked for" in (night.trials[1].reason or "")
    assert night.trials[1].cells == ()


def test_a_server_that_makes_a_measured_configuration_of_it_is_answered_by_that(tmp_path: Path):
    """Case 34."""
    night = Imagined(tmp_path)
    night.dialect.reports = {"key": night.space.key(night.space.resolve(night.settings.baseline))}
    night(Limits(trials=0))

    assert night.states() == [("baseline", "complete"), ("listed", "duplicate")]
    trial = night.trials[1]
    assert trial.cells == ()
    assert "the baseline has measured" in (trial.reason or "")
    assert trial.attributes["duplicate_of"] == night.trials[0].number
    assert night.space.key(trial.configuration) == night.space.key(night.trials[0].configuration)


def test_a_trial_is_recorded_under_the_flags_that_the_server_made_of_it(tmp_path: Path):
    """Case 34."""
    night = Imagined(tmp_path)
    read = night.dialect.fetch_effective_flags
    effective = night.space.resolve({"budget": 8, "topk": 1})
    asked = night.space.resolve({"budget": 0})

    def report(url: str, environment: Mapping[str, str]) -> Mapping[str, ParameterValue]:
        flags = dict(read(url, environment))
        return flags | ({"key": night.space.key(effective)} if flags["key"] == night.space.key(asked) else {})

    night.dialect.fetch_effective_flags = report  # type: ignore[method-assign]
    night(Limits(trials=0))
    night(Limits(trials=0))  # neither what was asked for nor what became of it is booted again

    assert night.states() == [("baseline", "complete"), ("listed", "complete")]
    trial = night.trials[1]
    assert night.space.key(trial.configuration) == night.space.key(effective)
    assert dict(trial.attributes["asked"]) == dict(asked)  # type: ignore[call-overload]
    assert measured_as(asked, night.trials, night.space) == trial
    assert measured_as(effective, night.trials, night.space) == trial
    assert {night.space.key(asked), night.space.key(effective)} <= settled_keys(night.trials, night.space)


def test_a_baseline_that_runs_as_something_else_is_no_baseline(tmp_path: Path):
    """Case 34."""
    night = Imagined(tmp_path)
    night.dialect.reports = {"key": night.space.key(night.space.resolve({"budget": 8, "topk": 1}))}
    with pytest.raises(BaselineError):
        night(Limits(trials=0))


def test_flags_of_a_server_that_is_not_ours_any_more_blame_no_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The tuner slept past its lease, and the host has put the baseline back: its flags are not those of the trial."""
    night = Imagined(tmp_path, found=Occupant.BASELINE)
    fetch, poll = night.dialect.fetch_effective_flags, night.deployment.poll

    def lose() -> int | None:
        monkeypatch.setattr(night.deployment, "poll", poll)
        raise LeaseLostError("the lease is not ours any more")

    def wake_up(url: str, environment: Mapping[str, str]) -> Mapping[str, ParameterValue]:
        if night.deployment.starts:
            monkeypatch.setattr(night.deployment, "poll", lose)
            return {"key": "the baseline"}
        return fetch(url, environment)

    monkeypatch.setattr(night.dialect, "fetch_effective_flags", wake_up)
    with pytest.raises(LeaseLostError):
        night(Limits(trials=2))

    assert night.states() == [("baseline", "complete"), ("listed", "interrupted")]


def test_a_server_with_other_flags_than_the_baseline_is_refused_before_it_is_stopped(tmp_path: Path):
    night = Imagined(tmp_path, found=Occupant.BASELINE)
    night.dialect.reports = {"key": "budget=15"}

    with pytest.raises(BaselineError, match="is not the baseline of this study: key is budget=15"):
        night(Limits(trials=1))

    assert night.states() == []
    assert (night.deployment.stops, night.deployment.starts) == (0, [])
