"""The drop-in on the host: read with mode and owner, replaced in one step, absent again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from autotune.apply.export_file import ExportFile
from autotune.apply.history import FileState
from autotune.errors import UnitStateError


@pytest.fixture
def file(host) -> ExportFile:
    return ExportFile(host, host.run_as_root, "x.service")


def mine(content: bytes | None, mode: int = 0o644) -> FileState:
    return FileState(content, mode, os.geteuid(), os.getegid())


def test_nothing_is_there_at_first(file):
    assert file.read() == FileState(None)
    assert not file.has_folder()


@pytest.mark.parametrize(("content", "mode"), [(b"[Service]\n", 0o644), (b"", 0o600), (b"\xff\x00\r\n%\\", 0o640)])
def test_what_is_put_is_read_back_byte_for_byte_with_its_mode(file, content, mode):
    """Case 70: bytes and modes."""
    file.put(mine(b"earlier", 0o644))
    file.put(mine(content, mode))

    assert file.read() == mine(content, mode)
    assert [path.name for path in Path(file.folder).iterdir()] == ["50-autotune.conf"]


def test_a_file_that_was_absent_is_absent_again(file):
    """Case 70: the absence of files."""
    file.put(mine(b"x"))
    file.put(FileState(None))

    assert file.read() == FileState(None)
    assert file.remove_folder_if_empty()
    assert not file.has_folder()


def test_a_folder_with_something_of_others_stays(file):
    file.put(mine(b"x"))
    Path(file.folder, "10-other.conf").touch()
    file.put(FileState(None))

    assert not file.remove_folder_if_empty()
    assert [path.name for path in Path(file.folder).iterdir()] == ["10-other.conf"]


def test_a_link_is_no_drop_in_of_ours(file):
    Path(file.folder).mkdir()
    Path(file.path).symlink_to("/dev/null")

    with pytest.raises(UnitStateError, match="no plain file"):
        file.read()


def test_a_file_in_place_of_the_folder_is_refused(file):
    Path(file.folder).touch()

    with pytest.raises(UnitStateError, match="is no folder"):
        file.has_folder()


def test_a_link_in_place_of_the_folder_is_named_as_the_cause(file, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    Path(file.folder).symlink_to(tmp_path / "elsewhere")

    with pytest.raises(UnitStateError, match="is a link"):
        file.has_folder()
