"""The page on units shows what is written: its example is what a deployment writes for the unit above it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from autotune.deployment.host import CommandOutput
from autotune.deployment.lease_holder import find_timer
from autotune.deployment.systemd import SystemdDeployment
from autotune.deployment.unit_record import UnitRecord
from autotune.servers.base import LaunchSpec
from autotune.settings import DeploymentSettings, ServerSettings
from tests.deployment.scripted_host import ScriptedHost
from tests.deployment.units import TUNED, make_unit
from tests.records import make_settings

PAGE = Path(__file__).parents[2] / "docs" / "units.md"
NAME = "sglang-ddtree.service"


def test_the_drop_in_on_the_page_is_the_one_that_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    unit, shown = re.findall(r"```ini\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[:2]
    written: list[str] = []
    launch = LaunchSpec((), {"SGLANG_DDTREE_MAX_TOPK": "2"}, ("--speculative-ddtree-budget", "8"))
    deployment = SystemdDeployment(
        ScriptedHost(lambda _command, _stdin: CommandOutput(0, b"", b"")),
        settings=make_settings(
            name="kimi",
            deployment=DeploymentSettings(kind="systemd", unit=NAME),
            server=ServerSettings(ready_timeout_s=1800, stop_timeout_s=600),
        ),
        baseline=launch,
        tuned_flags=TUNED,
        folder=tmp_path,
    )
    monkeypatch.setattr(deployment._lease, "timer", find_timer(NAME, "5d0e7a41"))
    monkeypatch.setattr(deployment, "_unit", make_unit(unit, name=NAME))
    monkeypatch.setattr(deployment, "_remember", lambda _record: None)
    monkeypatch.setattr(deployment._drop_in, "write", written.append)

    deployment._write_drop_in(UnitRecord("", "", NAME, "", "", was_up=True, made_folder=True, baselines=()), launch)

    assert written == [shown]
