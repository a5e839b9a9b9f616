"""A folder of their own for the temporary folders of judged programs."""

from __future__ import annotations

import tempfile

import pytest


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    """A folder for temporary folders, empty again in the end."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield tmp_path
    assert not list(tmp_path.iterdir())
