"""A dry run prints what a real trial does: the same commands with the same files, and nothing happens."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import autotune.tuner
from autotune.deployment.open_host import open_host
from autotune.deployment.recorded_host import ChangingCommand, RecordedHost
from autotune.search_space import search_space_of
from autotune.settings import DeploymentSettings, parse_settings
from autotune.tuner import Limits, open_dialect, run
from autotune.tuner.rehearsal import choose_configuration, rehearse, render_rehearsal
from tests.host.container import Container
from tests.host.faults import SLOW_STEPS
from tests.host.lab import Lab
from tests.host.service import set_faults, start_stand_in
from tests.host.state import compare, ignore_files, snapshot, wait_until_none
from tests.host.study_file import render_study
from tests.host.tuner_process import Place


def normalise(changes: list[ChangingCommand]) -> list[tuple[tuple[str, ...], str, bool]]:
    """Name tokens, starts and moments by the order in which they come: they differ from night to night."""
    names: dict[str, str] = {}

    def rename(text: str) -> str:
        text = re.sub(r"(?m)^(ticks|taken_at|holder)=.*$", r"\1=", text)
        for token in re.findall(r"\b[0-9a-f]{32}\b", text):
            names.setdefault(token, f"<{len(names)}>")
            names.setdefault(token[:8], f"{names[token]}[:8]")
        for token in sorted(names, key=len, reverse=True):
            text = text.replace(token, names[token])
        return text

    return [(tuple(map(rename, change.command)), rename(change.stdin.decode()), change.is_fenced) for change in changes]


@pytest.mark.parametrize("user", ["root", pytest.param("ubuntu", marks=pytest.mark.campaign)])
def test_the_commands_of_a_dry_run_are_those_of_a_real_trial(
    lab: Lab, host: Container, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: str
):
    set_faults(host, SLOW_STEPS)
    start_stand_in(host)
    text = render_study(lab, host, Place.ROOT, tries=({"budget": 8, "topk": 4},))
    text = text.replace(str(lab.ssh_config(host)), str(lab.ssh_config(host, is_forwarded=True)))
    text = text.replace('"gpu1"', f'"{host.alias(user)}"').replace("lease_s = 30.0", "lease_s = 600.0")
    settings = parse_settings(text, "study")
    space = search_space_of(settings)
    before = ignore_files(snapshot(host), "/run/systemd/transient", "/run/autotune")

    rehearsal = rehearse(
        settings, space, open_dialect(settings, space), choose_configuration(space, settings), tmp_path / "study"
    )

    assert compare(before, ignore_files(snapshot(host), "/run/systemd/transient", "/run/autotune")) == []
    assert not (tmp_path / "study").exists()

    recorded: list[RecordedHost] = []

    def open_recorded(deployment: DeploymentSettings) -> RecordedHost:
        recorded.append(RecordedHost(open_host(deployment)))
        return recorded[-1]

    monkeypatch.setattr(autotune.tuner, "open_host", open_recorded)
    lab.ssh_config(host, is_forwarded=True)
    outcome = run(settings, Limits(trials=0), directory=tmp_path / "study")

    assert outcome.exit_code == 0
    planned = normalise([change for _, changes in rehearsal.phases for change in changes])
    done = normalise(recorded[0].changes)
    for plan, deed in zip(planned, done, strict=False):
        assert plan[0] == deed[0]
        assert plan[1].splitlines() == deed[1].splitlines()
    assert len(planned) == len(done)
    after = wait_until_none(
        lambda: compare(before, ignore_files(snapshot(host), "/run/systemd/transient", "/run/autotune"))
    )
    assert after == []
    shown = "\n".join(render_rehearsal(rehearsal))
    assert ("sudo -n -- systemctl daemon-reload" in shown) == (user == "ubuntu")
    assert "    | ExecStart=" in shown
