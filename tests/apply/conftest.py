"""The folders of an apply inside a test's own folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.apply import archive, export_file
from tests.apply.plain_host import PlainHost


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PlainHost:
    """A host whose units lie in ``tmp_path/units`` and whose history lies in ``tmp_path/history``."""
    (tmp_path / "units").mkdir()
    monkeypatch.setattr(export_file, "UNIT_FOLDER", str(tmp_path / "units"))
    monkeypatch.setattr(archive, "FOLDER", str(tmp_path / "history"))
    return PlainHost()
