"""`autotune restore` finds what was left, whatever the study is called."""

from __future__ import annotations

import shutil
import socket

import pytest

from autotune.deployment.host_record import HostRecord, read_machine, save_record
from autotune.settings import StudySettings
from autotune.study import Study
from tests.cli.conftest import run_command
from tests.stored_study import sample_settings


@pytest.fixture
def left(tmp_path, monkeypatch):
    """A study whose tuner was killed: its record says that no server ran before."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    settings = sample_settings("other").model_dump(by_alias=True)
    settings["server"] |= {"host": "127.0.0.1", "port": port}
    directory = tmp_path / "studies" / "other"
    with Study.open(StudySettings.model_validate(settings), directory):
        save_record(directory / "host.json", HostRecord(read_machine(), None))
    return directory


def test_without_a_name_every_study_that_left_something_is_put_back(left):
    result = run_command("restore")

    assert (result.exit_code, result.stderr) == (0, "other: the server is as it was found\n")
    assert not (left / "host.json").exists()
    assert "nothing was left to put back by any study in" in run_command("restore").stderr


@pytest.mark.parametrize("word", ["other", "studies/other"])
def test_a_study_is_named_as_it_is_stored(left, word):
    result = run_command("restore", word)

    assert (result.exit_code, result.stderr) == (0, "other: the server is as it was found\n")
    assert "other: nothing was left to put back" in run_command("restore", word).stderr
    assert not (left / "host.json").exists()


def test_a_study_directory_is_enough(left):
    moved = left.parent.parent / "elsewhere"
    shutil.move(left, moved)

    assert run_command("restore", "--study-directory", moved).exit_code == 0
    assert not (moved / "host.json").exists()


def test_a_study_that_cannot_be_put_back_does_not_keep_the_others_from_it(left):
    broken = left.parent / "broken"
    broken.mkdir()
    (broken / "host.json").write_text("{}")

    result = run_command("restore")

    assert result.exit_code == 2
    assert "broken:\nerror: there is no study here" in result.stderr
    assert not (left / "host.json").exists()


def test_status_says_that_the_server_has_not_been_put_back(left):
    assert "without putting back what was found: run autotune restore other\n" in run_command("status", "other").stdout
    assert '"restore_command": "autotune restore other"' in run_command("status", "other", "--json").stdout
