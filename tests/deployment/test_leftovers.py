"""A record of a study says what is left to put back, and goes when nothing is."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.deployment.lease_holder import LeaseHolder, parse_holder, render_holder
from autotune.deployment.leftovers import forget_record
from autotune.deployment.unit_record import UnitRecord, load_record, save_record

UNIT = "llm.service"


def hold(study: str, token: str = "a1") -> LeaseHolder:  # noqa: S107  # of a lease, no secret
    return parse_holder(render_holder(token, UNIT, study, 600, "autotune-llm.timer"))


def leave_record(folder: Path, token: str = "a1") -> Path:  # noqa: S107  # of a lease, no secret
    path = folder / "host.json"
    save_record(path, UnitRecord("gpu1", "boot", UNIT, str(folder), token, True, True, ("i1",)))
    return path


def test_the_record_of_a_dead_tuner_goes_when_its_leftovers_were_put_back(tmp_path):
    path = leave_record(tmp_path)
    forget_record(hold(str(tmp_path)))

    assert load_record(path) is None


def test_the_record_of_another_lease_stays(tmp_path):
    path = leave_record(tmp_path, token="b2")
    forget_record(hold(str(tmp_path)))

    assert load_record(path) is not None


@pytest.mark.parametrize("content", [None, "{"])
def test_what_is_no_record_is_left_alone(tmp_path, content):
    path = tmp_path / "host.json"
    if content is not None:
        path.write_text(content)
    forget_record(hold(str(tmp_path)))

    assert path.exists() == (content is not None)


def test_a_study_that_is_only_named_has_no_folder_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = leave_record(tmp_path / "mine")
    forget_record(hold("mine"))

    assert path.exists()
