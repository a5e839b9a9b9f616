"""The sample study as a reader sees it."""

from __future__ import annotations

import pytest

from autotune.export.findings import find
from autotune.study_view import load_study
from tests.stored_study import write_study


@pytest.fixture(scope="session")
def view(tmp_path_factory):
    directory = tmp_path_factory.mktemp("studies") / "sample"
    write_study(directory)
    return load_study(directory)


@pytest.fixture(scope="session")
def findings(view):
    return find(view)
