"""The same service reached over SSH, as root and as a user with sudo, with a cable that is pulled at every phase."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from autotune.deployment.base import Occupant
from autotune.deployment.ssh import SshHost
from autotune.deployment.systemd import SystemdDeployment
from autotune.errors import HostError, PermissionDenied, RestoreError, SshError
from tests.host.container import Container
from tests.host.lab import Lab
from tests.host.service import UNIT, start_stand_in, wait_until_serving
from tests.host.systemd_study import TRIAL, open_systemd
from tests.host.test_restore import budget, list_ours, picture

PUTS_ITSELF_BACK = r"puts {0} back by itself at \d\d:\d\d:\d\d|is over, so it has put {0} back by itself".format(
    re.escape(UNIT)
)
"""What is said while the lease still runs, or when the restore has waited for the link until it was over."""


def connect(lab: Lab, host: Container, user: str = "root") -> SshHost:
    config = lab.ssh_config(host, is_forwarded=True)
    return SshHost(host.alias(user), config=str(config), keepalive_s=1)


def over_ssh(lab: Lab, host: Container, folder: Path, *, user: str = "root", lease_s: float = 600) -> SystemdDeployment:
    return open_systemd(connect(lab, host, user), folder, lease_s=lease_s)


def wait_until(is_so: Callable[[], bool], patience_s: float = 60) -> None:
    deadline = time.monotonic() + patience_s
    while not is_so():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)


def go_on_for_ever(opened: SystemdDeployment, folder: Path) -> None:
    while True:
        opened.stop()
        opened.start(TRIAL, folder / "boot.log")


@pytest.mark.parametrize("user", [pytest.param("root", marks=pytest.mark.campaign), "ubuntu"])
def test_a_trial_runs_and_the_service_is_put_back(lab: Lab, host: Container, tmp_path: Path, user: str):
    """Case 70."""
    start_stand_in(host)
    before = picture(host)
    with over_ssh(lab, host, tmp_path, user=user) as opened:
        found = opened.observe()
        opened.stop()
        pid = opened.start(TRIAL, tmp_path / "boot.log")
        wait_until_serving(host)
        seen = opened.observe()
        alive = opened.poll()
        differences = opened.verify(TRIAL)
        environment = opened.read_environment()
        log = opened.read_log()
        opened.restore()
    wait_until_serving(host)

    assert (found.occupant, found.is_listening) == (Occupant.BASELINE, True)
    assert (seen.occupant, seen.pid, seen.is_listening, alive, differences) == (Occupant.OURS, pid, True, None, ())
    assert environment["SGLANG_DDTREE_MAX_TOPK"] == "2"
    assert any("ready to roll" in line for line in log)
    assert picture(host) == before
    assert list_ours(host) == ""


def test_a_user_who_may_not_do_one_thing_is_told_which(lab: Lab, host: Container, tmp_path: Path):
    start_stand_in(host)
    before = picture(host)
    tools = [f"/usr/bin/{name}" for name in ("cat", "install", "mv", "rm", "rmdir", "mkdir", "systemctl", "journalctl")]
    host.allow("ubuntu", tools)

    with (
        pytest.raises(PermissionDenied, match=r"sudo does not run: systemd-run"),
        over_ssh(lab, host, tmp_path, user="ubuntu"),
    ):
        pass

    assert picture(host) == before


def test_a_pulled_cable_is_the_links_fault_and_the_trial_goes_on_when_it_is_plugged_again(
    lab: Lab, host: Container, tmp_path: Path
):
    """Case 48: losing the link is a host error; the same deployment goes on afterwards."""
    start_stand_in(host)
    before = picture(host)
    with over_ssh(lab, host, tmp_path) as opened:
        opened.stop()
        opened.start(TRIAL, tmp_path / "boot.log")
        wait_until_serving(host)
        opened.read_log()
        host.link(is_up=False)
        for question in (opened.poll, opened.read_log):
            with pytest.raises(SshError):
                question()
        host.link(is_up=True)
        alive = opened.poll()
        log = opened.read_log()
        opened.restore()
    wait_until_serving(host)

    assert alive is None
    assert any("ready to roll" in line for line in log)
    assert picture(host) == before


def test_a_restore_waits_for_the_cable(lab: Lab, host: Container, tmp_path: Path):
    start_stand_in(host)
    before = picture(host)
    with over_ssh(lab, host, tmp_path) as opened:
        opened.stop()
        opened.start(TRIAL, tmp_path / "boot.log")
        host.link(is_up=False)
        plug = threading.Timer(8, host.link, args=(True,))
        plug.start()
        opened.restore()
        plug.join()
    wait_until_serving(host)

    assert picture(host) == before
    assert list_ours(host) == ""


@pytest.mark.parametrize(
    "phase",
    [pytest.param("stop", marks=pytest.mark.campaign), "load", pytest.param("serve", marks=pytest.mark.campaign)],
)
def test_a_host_that_cannot_be_reached_any_more_puts_itself_back(lab: Lab, host: Container, tmp_path: Path, phase: str):
    """Case 70 (b): the cable is pulled and stays out."""
    start_stand_in(host)
    before = picture(host)
    with over_ssh(lab, host, tmp_path, lease_s=6) as opened:
        opened.stop()
        if phase != "stop":
            opened.start(TRIAL, tmp_path / "boot.log")
        if phase == "serve":
            wait_until_serving(host)
        host.link(is_up=False)
        with pytest.raises(RestoreError, match=PUTS_ITSELF_BACK):
            opened.restore()
    wait_until(lambda: budget(host) == "16")
    wait_until_serving(host)
    put_back = picture(host)
    host.link(is_up=True)
    checks: list[str] = []
    with over_ssh(lab, host, tmp_path) as again:
        again.restore(lambda: checks.append("checked"))
        findings = again.findings

    assert put_back == before
    assert picture(host) == before
    assert "the host put itself back" in findings[0]
    assert checks == ["checked"]
    assert list_ours(host) == ""
    assert not (tmp_path / "host.json").exists()


def test_a_cable_pulled_in_the_middle_of_a_stop_blames_the_host(lab: Lab, host: Container, tmp_path: Path):
    start_stand_in(host)
    with over_ssh(lab, host, tmp_path) as opened:
        pull = threading.Timer(0.5, host.link, args=(False,))
        pull.start()
        with pytest.raises(HostError):
            go_on_for_ever(opened, tmp_path)
        pull.join()
        host.link(is_up=True)
    wait_until_serving(host)

    assert budget(host) == "16"
    assert host.shell(f"systemctl show -p Restart --value {UNIT}") == "always\n"
