"""Where may the file of a trial be put?"""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.deployment import trial_drop_in
from autotune.deployment.lease import Lease
from autotune.deployment.local_host import LocalHost
from autotune.deployment.trial_drop_in import TrialDropIn
from autotune.errors import UnitStateError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of the drop-in, which is not there yet."""
    folder = tmp_path / "llm.service.d"
    monkeypatch.setattr(trial_drop_in, "trial_drop_in_path", lambda _unit: str(folder / "trial.conf"))
    return folder


def has_folder() -> bool:
    host = LocalHost()
    return TrialDropIn(host, Lease(host, "llm.service", lease_s=60, study="x"), "llm.service").has_folder()


def test_a_folder_is_found_or_not(folder):
    assert not has_folder()
    folder.mkdir()
    assert has_folder()


@pytest.mark.parametrize("target", [".", "nowhere"])
def test_a_link_in_place_of_the_folder_is_named_as_the_cause(folder, target):
    folder.symlink_to(target)

    with pytest.raises(UnitStateError, match=r"is a link.*outlive a reboot"):
        has_folder()
