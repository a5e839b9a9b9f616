"""Apply and rollback on a real host: afterwards it is what was asked for, or byte for byte what it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.host.applied import (
    DROP_IN,
    RECOMMENDED,
    autotune,
    finished_study,
    look,
    running_command,
)
from tests.host.container import Container
from tests.host.lab import Lab
from tests.host.service import UNIT, start_stand_in


@pytest.mark.parametrize("user", ["root", "ubuntu"])
def test_an_apply_puts_the_result_into_service_and_a_rollback_takes_it_back(
    lab: Lab, host: Container, tmp_path: Path, user: str
):
    """Case 70: the absence of files and folders comes back too. Case 63: one command, unchanged flags in order."""
    start_stand_in(host)
    folder = finished_study(tmp_path, lab, host, user)
    before, command = look(host), running_command(host)

    applied = autotune(folder, "export", "sample", "--apply", "--yes")

    assert f"{UNIT} serves trial 3" in applied.stderr
    assert set(RECOMMENDED) <= set(running_command(host))
    assert host.shell(f"stat -c %a {DROP_IN}").strip() == "644"
    assert "-ExecStart" not in applied.stderr

    back = autotune(folder, "rollback", "sample")

    assert "serves, checked by a generation" in back.stderr
    assert look(host) == before
    assert running_command(host) == command
