from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from autotune.cli.record_place import open_record_place
from autotune.errors import UserError


def test_records_lie_beside_the_result_without_lines_of_an_earlier_command(tmp_path: Path):
    (tmp_path / "a.json.requests.jsonl").write_text("old")

    with open_record_place(tmp_path / "a.json", "requests.jsonl") as place:
        assert not place.exists()
        place.write_text("new")

    assert (tmp_path / "a.json.requests.jsonl").read_text() == "new"


def test_records_that_nobody_keeps_are_gone_afterwards():
    with open_record_place(None, "answers.jsonl") as place:
        place.write_text("x")

    assert not place.parent.exists()


def test_a_disk_without_room_is_named_with_what_helps(tmp_path: Path):
    with pytest.raises(UserError) as caught, open_record_place(tmp_path / "a.json", "requests.jsonl"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/other/file")

    assert caught.value.message == "a file cannot be written: No space left on device"
    assert caught.value.where == "/other/file"
    assert "TMPDIR" in str(caught.value.hint)


def test_a_machine_without_a_temporary_folder_is_said_so(monkeypatch: pytest.MonkeyPatch):
    def refuse(**_words: object) -> None:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr("tempfile.TemporaryDirectory", refuse)

    with pytest.raises(UserError, match="No usable temporary directory"), open_record_place(None, "answers.jsonl"):
        pass


def test_a_device_is_refused_before_anything_is_measured(tmp_path: Path):
    os.mkfifo(tmp_path / "null")

    with pytest.raises(UserError, match="regular file"), open_record_place(tmp_path / "null", "requests.jsonl"):
        pytest.fail("something was measured")
