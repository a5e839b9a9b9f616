"""A stored study in a working directory of its own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from autotune import measuring_mark
from autotune.cli import main
from tests.stored_study import write_study


@pytest.fixture(autouse=True)
def _marks_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests, and other people, may measure on this machine at the same time."""
    monkeypatch.setattr(measuring_mark, "PREFIX", f"autotune-test-{os.getpid()}")


@pytest.fixture(scope="session")
def stored(tmp_path_factory):
    """Make the sample study once; tests read it, or copy it."""
    root = tmp_path_factory.mktemp("stored")
    write_study(root / "studies" / "sample")
    return root


@pytest.fixture
def run(stored, monkeypatch):
    """Run a command in the folder that holds ./studies/sample."""
    monkeypatch.chdir(stored)
    return run_command


@pytest.fixture
def run_elsewhere(tmp_path, monkeypatch):
    """Run a command in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return run_command


def run_command(*words: str | Path) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])
