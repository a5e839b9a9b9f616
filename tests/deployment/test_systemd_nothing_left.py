"""A restore that has nothing to do does not mind what the unit has become since."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from autotune.deployment.host import CommandOutput
from autotune.deployment.systemd import SystemdDeployment
from autotune.errors import PermissionDenied, UnitStateError
from autotune.servers.base import LaunchSpec
from autotune.settings import DeploymentSettings
from tests.deployment.scripted_host import ScriptedHost
from tests.records import make_settings


def open_removed(folder: Path, *, only_restores: bool) -> tuple[ScriptedHost, SystemdDeployment]:
    """Return a host that has no such unit any more, to a user who may read only."""

    def answer(command: Sequence[str], _stdin: bytes) -> CommandOutput:
        if command[0] == "find":
            return CommandOutput(0, b"", b"")
        raise UnitStateError("there is no unit llm.service")

    host = ScriptedHost(answer)
    settings = make_settings(name="kimi", deployment=DeploymentSettings(kind="systemd", unit="llm.service"))
    deployment = SystemdDeployment(
        host,
        settings=settings,
        baseline=LaunchSpec((), {}, ()),
        tuned_flags={},
        folder=folder,
        only_restores=only_restores,
    )
    return host, deployment


def test_nothing_is_asked_of_the_unit_when_nothing_was_left_on_its_host(tmp_path: Path):
    host, deployment = open_removed(tmp_path, only_restores=True)

    with deployment:
        deployment.restore()

    assert {command[0] for command in host.commands} == {"find"}
    assert deployment.findings == ()


def test_a_night_on_the_same_unit_is_refused(tmp_path: Path):
    _, deployment = open_removed(tmp_path, only_restores=False)

    with pytest.raises((UnitStateError, PermissionDenied)), deployment:
        pass
