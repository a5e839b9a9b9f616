"""What a night does on a server that works for others, on an imaginary host and an imaginary clock."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.deployment.base import Occupant
from autotune.errors import (
    ImpossibleMetric,
    LiveTrafficError,
    PortTakenError,
)
from autotune.events import (
    Noted,
)
from autotune.settings import CellSettings
from autotune.trial import Configuration
from autotune.tuner.limits import Limits
from tests.tuner.imaginary import Imagined


def test_a_foreign_server_ends_the_study_before_it_begins(tmp_path: Path):
    night = Imagined(tmp_path, found=Occupant.FOREIGN)
    with pytest.raises(PortTakenError):
        night(Limits(trials=2))

    assert night.trials == ()
    assert night.deployment.occupant is Occupant.FOREIGN


def test_a_server_that_works_for_others_is_not_stopped(tmp_path: Path):
    night = Imagined(tmp_path, found=Occupant.BASELINE)
    night.dialect.requests = [2]

    with pytest.raises(LiveTrafficError, match="2 requests of others"):
        night(Limits(trials=1))

    assert night.states() == [("baseline", "complete"), ("listed", "interrupted")]
    assert night.deployment.stops == 0
    assert night.deployment.occupant is Occupant.BASELINE


def test_with_drain_a_server_that_works_for_others_finishes_and_is_stopped(tmp_path: Path):
    night = Imagined(tmp_path, found=Occupant.BASELINE, drain=True)
    night.dialect.requests = [2]
    night(Limits(trials=1))

    assert night.states()[:2] == [("baseline", "complete"), ("listed", "complete")]


def test_a_server_that_does_not_say_what_it_works_on_is_noted_once(tmp_path: Path):
    night = Imagined(tmp_path, found=Occupant.BASELINE)
    night.dialect.requests = [None] * 20
    night(Limits(trials=2))

    told = [event.sentence for event in night.events if isinstance(event, Noted)]
    assert sum("live users cannot be seen" in sentence for sentence in told) == 1


def test_a_cell_in_which_others_were_served_is_measured_again_when_they_are_done(tmp_path: Path):
    night = Imagined(tmp_path)
    night.foreign = ["the server generated 90 tokens while 50 were received"]
    night.dialect.requests = [1, 1]
    started = night.clock.seconds
    night(Limits(trials=0))
    cells = night.trials[0].cells

    assert night.measured[0] == night.measured[1]
    assert cells[0].foreign is None
    assert "measured again" in " ".join(cells[0].notes)
    assert "90 tokens while 50" in " ".join(cells[0].notes)
    assert night.clock.seconds - started > 4
    assert not cells[1].notes


def test_figures_that_cannot_be_trusted_are_measured_again_in_the_same_boot(tmp_path: Path):
    night = Imagined(tmp_path)
    trouble = [ImpossibleMetric("decode speed is infinite")]

    def fail_once(_configuration: Configuration, _cell: CellSettings) -> None:
        if trouble:
            raise trouble.pop()

    night.trouble = fail_once
    night(Limits(trials=0))

    assert night.states()[0] == ("baseline", "complete")
    assert "decode speed is infinite" in " ".join(night.trials[0].cells[0].notes)
    assert len(night.deployment.starts) == len(night.trials)


def test_a_study_among_live_users_ends_and_keeps_what_was_measured(tmp_path: Path):
    night = Imagined(tmp_path, found=Occupant.BASELINE)
    night.foreign = [None, "the server worked on 3 requests while 1 were in flight"] + ["again"] * 2

    with pytest.raises(LiveTrafficError, match="in 3 measurements"):
        night(Limits(trials=1))

    assert night.states() == [("baseline", "interrupted")]
    assert len(night.trials[0].cells) == 1
    assert night.deployment.occupant is Occupant.BASELINE
