"""What a restore tells of what it found."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune import tuner
from autotune.deployment.base import Occupant
from autotune.errors import RestoreError
from autotune.tuner.limits import Limits
from tests.tuner.imaginary import Imagined


@pytest.fixture
def night(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Imagined:
    night = Imagined(tmp_path)
    monkeypatch.setattr(tuner, "open_dialect", lambda *_: night.dialect)
    monkeypatch.setattr(tuner, "open_deployment", lambda *_, **__: night.deployment)
    return night


def test_what_a_restore_found_is_told_and_counts_as_something_left(night: Imagined, tmp_path: Path):
    night.deployment.found_out = ("router.service ran before and does not run now",)
    told: list[str] = []

    was_left = tuner.restore(night.settings, night.space, directory=tmp_path, on_finding=told.append)

    assert was_left
    assert told == ["router.service ran before and does not run now"]


def test_what_was_found_is_told_of_a_restore_that_fails_too(night: Imagined, tmp_path: Path):
    night.deployment.found_out = ("the host was started anew",)
    night.deployment.occupant = Occupant.FOREIGN
    told: list[str] = []

    with pytest.raises(RestoreError):
        tuner.restore(night.settings, night.space, directory=tmp_path, on_finding=told.append)

    assert told == ["the host was started anew"]


def test_nothing_found_and_no_record_is_nothing_left(night: Imagined, tmp_path: Path):
    assert not tuner.restore(night.settings, night.space, directory=tmp_path)


def test_a_server_that_ended_by_itself_is_not_said_to_serve_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    night = Imagined(tmp_path, found=Occupant.BASELINE)

    def find_nobody(_check: object = None) -> None:
        night.deployment.occupant = Occupant.NOBODY

    monkeypatch.setattr(night.deployment, "restore", find_nobody)

    assert night(Limits(trials=1)).restored.startswith("no server runs: the one that was found had ended by itself")
