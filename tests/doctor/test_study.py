"""The study's own preconditions, looked at without writing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import sqlalchemy

from autotune.doctor.examination import Examination
from autotune.doctor.finding import Level
from autotune.doctor.study import (
    examine_study,
    judge_holder,
    judge_left_behind,
    judge_listed,
    judge_space,
    judge_storage,
    look_at_storage,
    look_for_holder,
)
from autotune.errors import SearchSpaceError, SettingsError, UserError
from autotune.search_space import search_space_of
from autotune.settings import SamplerSettings, StudySettings
from autotune.study_lock import StudyLock
from autotune.tuner.limits import Limits
from tests.fake_clock import FakeClock
from tests.records import make_settings
from tests.stored_study import sample_settings, write_study


def examine(settings: StudySettings, directory: Path) -> dict[str, tuple[Level, str, int]]:
    exam = Examination(FakeClock())
    examine_study(exam, settings, directory, Limits(trials=20))
    return {
        finding.check: (finding.judgement.level, finding.judgement.found, finding.exit_code)
        for finding in exam.findings()
    }


def list_files(folder: Path) -> list[tuple[str, int, int]]:
    return sorted((str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in (folder, *folder.rglob("*")))


def test_a_new_study_is_in_order_and_no_file_is_made(tmp_path):
    before = list_files(tmp_path)

    found = examine(make_settings(), tmp_path / "studies" / "test")

    assert {level for level, _, _ in found.values()} <= {Level.OK, Level.WARNING}
    assert list_files(tmp_path) == before


@pytest.fixture(scope="module")
def stored(tmp_path_factory) -> Path:
    folder: Path = tmp_path_factory.mktemp("stored")
    write_study(folder)
    return folder


def test_a_stored_study_that_fits_can_go_on_and_is_left_as_it_is(stored):
    before = list_files(stored)

    found = examine(sample_settings(), stored)

    assert found["stored study"] == (Level.OK, "6 trials are counted so far", 0)
    assert list_files(stored) == before


def test_other_settings_than_the_stored_ones_are_the_file_s_fault(stored):
    settings = sample_settings().model_copy(update={"sampler": SamplerSettings(name="tpe", startup_trials=9)})

    level, words, code = examine(settings, stored)["stored study"]

    assert (level, code) == (Level.PROBLEM, 2)
    assert "sampler.startup_trials was" in words


def test_a_search_space_that_is_not_there_hides_only_what_needs_it(tmp_path):
    found = examine(make_settings(search_space="nowhere"), tmp_path)

    assert found["search space"][0] is Level.PROBLEM
    assert found["listed"] == (Level.SKIPPED, "needs search space", 0)
    assert found["storage"][0] is Level.OK
    assert found["holder"][0] is Level.OK


def test_a_holder_is_named_without_taking_its_lock(tmp_path):
    assert look_for_holder(tmp_path) is None
    lock = StudyLock(tmp_path)
    try:
        assert look_for_holder(tmp_path) == f"process {os.getpid()}"
    finally:
        lock.release()
    assert look_for_holder(tmp_path) is None


def test_who_works_on_the_study_is_waited_for():
    assert judge_holder(None).level is Level.OK
    assert "process 7" in judge_holder("process 7").found


def test_what_a_killed_command_left_is_said_with_the_command_that_mends_it():
    assert judge_left_behind("kimi", is_left=False).level is Level.OK
    assert "autotune restore kimi" in (judge_left_behind("kimi", is_left=True).advice or "")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_said(tmp_path):
    tmp_path.chmod(0o500)

    assert judge_storage(look_at_storage(None, tmp_path / "x")).level is Level.PROBLEM


def test_a_file_in_the_place_of_the_folder_is_said(tmp_path):
    (tmp_path / "studies").write_text("")

    judged = judge_storage(look_at_storage(None, tmp_path / "studies" / "x"))

    assert (judged.level, judged.branch) == (Level.PROBLEM, UserError)
    assert "is no folder" in judged.found


def test_no_table_is_made_in_a_database_that_is_there(tmp_path):
    path = tmp_path / "mine.db"
    engine = sqlalchemy.create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("create table other (x)"))
    before = path.read_bytes()

    found = examine(make_settings(storage=f"sqlite:///{path}"), tmp_path)

    assert path.read_bytes() == before
    assert sqlalchemy.inspect(engine).get_table_names() == ["other"]
    assert found["storage"][0] is Level.OK
    assert found["stored study"][0] is Level.OK
    engine.dispose()


def test_a_file_that_is_no_database_is_said(tmp_path):
    (tmp_path / "study.db").write_text("something else, and long enough to be looked at by whoever opens it")

    level, words, code = examine(make_settings(), tmp_path)["storage"]

    assert (level, code) == (Level.PROBLEM, 2)
    assert "cannot be read" in words


def test_a_storage_that_does_not_answer_is_said_without_its_password(tmp_path):
    level, words, code = examine(make_settings(storage="postgresql://ann:hunter2@127.0.0.1:1/x"), tmp_path)["storage"]

    assert (level, code) == (Level.PROBLEM, 2)
    assert "hunter2" not in words


def test_a_storage_that_is_no_url_is_refused(tmp_path):
    with pytest.raises(SettingsError, match="is no URL"):
        look_at_storage("nonsense", tmp_path)


def test_more_trials_than_configurations_are_said():
    space = search_space_of(make_settings())

    assert judge_space(space, 20).level is Level.OK
    assert judge_space(space, None).level is Level.OK
    assert judge_space(space, space.size + 1).level is Level.WARNING


def test_a_listed_configuration_outside_the_space_is_refused():
    settings = make_settings(try_=({"budget": 999},))

    with pytest.raises(SearchSpaceError, match="999"):
        judge_listed(search_space_of(settings), settings)
