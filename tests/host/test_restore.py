"""A tuner that dies, sleeps or loses its host: the host, or the next command, puts the service back from any state."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from autotune.deployment.base import Occupant
from autotune.deployment.unit_record import load_record, save_record
from autotune.errors import HostError, LeaseLostError, RestoreError
from tests.host.container import Container
from tests.host.inside_host import InsideHost
from tests.host.service import UNIT, is_serving, start_stand_in, wait_until_serving
from tests.host.systemd_study import TRIAL, open_systemd

_SCRIPT = str(Path(__file__).with_name("dying_systemd_tuner.py"))
_EVERYTHING = 10_000
_SEED = 20


def wait_until(is_so: Callable[[], bool], patience_s: float = 60) -> None:
    deadline = time.monotonic() + patience_s
    while not is_so():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)


def picture(host: Container) -> str:
    """Return everything about the service that must be as before."""
    return host.shell(
        f"systemctl show -p Restart,TimeoutStopUSec,DropInPaths,NeedDaemonReload,ActiveState {UNIT}; "
        f"tr '\\0' ' ' </proc/$(systemctl show -p MainPID --value {UNIT})/cmdline; "
        "find /etc/systemd/system /run/systemd/system -type f -printf '%p %m\\n' -exec md5sum {} + 2>/dev/null; "
        "ls -d /run/systemd/system/*.d",
        check=False,
    )


def list_ours(host: Container) -> str:
    """Return what of a tuner is on the host: units and files."""
    units = host.shell("systemctl list-units --all --plain --no-legend 'autotune*'")
    return units + host.shell("find /run/autotune -mindepth 1 2>/dev/null", check=False)


def budget(host: Container) -> str:
    line = host.shell(f"tr '\\0' ' ' </proc/$(systemctl show -p MainPID --value {UNIT})/cmdline", check=False)
    words = line.split()
    return words[words.index("--speculative-ddtree-budget") + 1] if "--speculative-ddtree-budget" in words else ""


@contextlib.contextmanager
def tuner(
    host: Container, folder: Path, *, lease_s: float = 600, limit: int | str = _EVERYTHING, last: str = "trial"
) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, _SCRIPT, str(host.init_pid), str(folder), str(lease_s), str(limit), last],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def read_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()


def test_a_host_whose_tuner_was_killed_restores_itself_when_the_lease_is_over(host: Container, tmp_path: Path):
    """Case 70 (b): nobody comes back."""
    start_stand_in(host)
    before = picture(host)
    with tuner(host, tmp_path, lease_s=5) as process:
        assert read_line(process) == "started\n"
        wait_until_serving(host)
        during = budget(host)
        kill(process)
        killed_at = time.monotonic()
        wait_until(lambda: budget(host) == "16")
        took_s = time.monotonic() - killed_at
    wait_until_serving(host)

    assert during == "8"
    assert 2 < took_s < 30
    assert picture(host) == before
    restored = host.shell(f"cat /run/autotune/{UNIT}/restored")
    assert "server=started" in restored
    assert "drop_in=removed" in restored
    assert not [line for line in list_ours(host).splitlines() if line.endswith(("timer", "lease", "/drop-in"))]


@pytest.mark.campaign
def test_a_service_that_was_off_is_stopped_by_its_host_whatever_ran_last(host: Container, tmp_path: Path):
    start_stand_in(host)
    host.shell(f"systemctl stop {UNIT}")
    with tuner(host, tmp_path, lease_s=5, last="baseline") as process:
        assert read_line(process) == "started\n"
        kill(process)
    wait_until(lambda: "server=stopped" in host.shell(f"cat /run/autotune/{UNIT}/restored", check=False))

    assert host.shell(f"systemctl is-active {UNIT}", check=False) == "inactive\n"


@pytest.mark.campaign
def test_a_service_that_was_off_and_that_somebody_has_started_since_goes_on(host: Container, tmp_path: Path):
    start_stand_in(host)
    host.shell(f"systemctl stop {UNIT}")
    with tuner(host, tmp_path, lease_s=5) as process:
        assert read_line(process) == "started\n"
        kill(process)
    wait_until(lambda: "server=stopped" in host.shell(f"cat /run/autotune/{UNIT}/restored", check=False))
    host.shell(f"systemctl start {UNIT}")
    wait_until_serving(host)
    with open_systemd(InsideHost(host), tmp_path) as opened:
        opened.stop()
        opened.start(TRIAL, tmp_path / "boot.log")
        opened.restore()

    assert host.shell(f"systemctl is-active {UNIT}", check=False) == "active\n"
    assert budget(host) == "16"


def test_the_next_command_says_what_the_host_has_done_and_checks_it(host: Container, tmp_path: Path):
    start_stand_in(host)
    with tuner(host, tmp_path, lease_s=5) as process:
        assert read_line(process) == "started\n"
        kill(process)
    wait_until(lambda: budget(host) == "16")
    wait_until_serving(host)
    checks: list[str] = []
    with open_systemd(InsideHost(host), tmp_path) as opened:
        seen = opened.observe().occupant
        was = opened.was_serving
        findings = opened.findings
        opened.restore(lambda: checks.append("checked"))

    assert "the host put itself back at" in findings[0]
    assert "the baseline was started" in findings[0]
    assert (seen, was, checks) == (Occupant.BASELINE, True, ["checked"])
    assert list_ours(host) == ""
    assert not (tmp_path / "host.json").exists()


def test_the_next_command_takes_over_at_once_and_uses_the_trial_that_runs(host: Container, tmp_path: Path):
    start_stand_in(host)
    before = picture(host)
    with tuner(host, tmp_path) as process:
        assert read_line(process) == "started\n"
        kill(process)
    with open_systemd(InsideHost(host), tmp_path) as opened:
        seen = opened.observe()
        alive = opened.poll()
        findings = opened.findings
        opened.stop()
        opened.start(TRIAL, tmp_path / "again.log")
        wait_until_serving(host)
        again = budget(host)
        opened.restore()
    wait_until_serving(host)

    assert (seen.occupant, seen.launch, alive) == (Occupant.OURS, TRIAL, None)
    assert "an earlier tuner of this study has ended without restoring" in findings[0]
    assert again == "8"
    assert picture(host) == before
    assert list_ours(host) == ""


def test_another_study_first_puts_back_what_a_dead_one_left(host: Container, tmp_path: Path):
    start_stand_in(host)
    with tuner(host, tmp_path / "a") as process:
        assert read_line(process) == "started\n"
        wait_until_serving(host)
        kill(process)
    with open_systemd(InsideHost(host), tmp_path / "b") as opened:
        seen = opened.observe()
        findings = opened.findings
    wait_until_serving(host)
    record = load_record(tmp_path / "a" / "host.json")
    with open_systemd(InsideHost(host), tmp_path / "a") as opened:
        later = opened.findings

    assert seen.occupant is Occupant.BASELINE
    assert "was put back" in findings[0]
    assert record is None, "a restore would be asked for that has nothing to do"
    assert later == ()
    assert budget(host) == "16"
    assert list_ours(host) == ""


def test_a_service_that_was_removed_with_its_trial_in_place_leaves_nothing(host: Container, tmp_path: Path):
    start_stand_in(host)
    with tuner(host, tmp_path) as process:
        assert read_line(process) == "started\n"
        kill(process)
    host.shell(f"systemctl disable --quiet --now {UNIT}; rm -r /etc/systemd/system/{UNIT}*; systemctl daemon-reload")
    with pytest.raises(RestoreError, match="was removed by somebody"), open_systemd(InsideHost(host), tmp_path):
        pass

    assert not (tmp_path / "host.json").exists()
    assert "zzz-autotune-trial" not in host.shell("find /run/systemd/system")
    assert list_ours(host) == ""


def test_a_host_that_was_started_anew_is_recognised(host: Container, tmp_path: Path):
    """Case 70: ``/run`` is empty after a reboot, which is itself a restore."""
    start_stand_in(host)
    with tuner(host, tmp_path) as process:
        assert read_line(process) == "started\n"
        kill(process)
    host.crash()
    host.boot()
    wait_until_serving(host)
    checks: list[str] = []
    with open_systemd(InsideHost(host), tmp_path) as opened:
        seen = opened.observe().occupant
        findings = opened.findings
        opened.restore(lambda: checks.append("checked"))

    assert "the host was started anew" in findings[0]
    assert (seen, checks) == (Occupant.BASELINE, ["checked"])
    assert budget(host) == "16"


def test_the_host_waits_until_systemd_reads_its_files_again(host: Container, tmp_path: Path):
    """It refuses with less than 16 MiB free in ``/run``; a restart would start the trial and call it the baseline."""
    start_stand_in(host)
    with tuner(host, tmp_path, lease_s=5) as process:
        assert read_line(process) == "started\n"
        kill(process)
    trial = host.shell(f"systemctl show -p InvocationID --value {UNIT}")
    size = host.shell("df --output=size -k /run | tail -n 1").strip()
    host.shell("mount -o remount,size=$(($(df --output=used -k /run | tail -n 1) + 4096))k /run")
    try:
        wait_until(lambda: "cannot read its files again" in host.shell("journalctl -q -o cat -u 'autotune-*'"))
        meanwhile = host.shell(f"systemctl show -p InvocationID --value {UNIT}")
    finally:
        host.shell(f"mount -o remount,size={size}k /run")
    wait_until(lambda: budget(host) == "16")
    wait_until(lambda: "server=" in host.shell(f"cat /run/autotune/{UNIT}/restored", check=False))

    assert meanwhile == trial
    assert "server=started" in host.shell(f"cat /run/autotune/{UNIT}/restored")


def test_what_was_left_on_another_machine_is_not_put_back_on_this_one(host: Container, tmp_path: Path):
    start_stand_in(host)
    with open_systemd(InsideHost(host), tmp_path) as opened:
        opened.stop()
        record = load_record(tmp_path / "host.json")
    wait_until_serving(host)
    assert record is not None
    save_record(tmp_path / "host.json", replace(record, machine="another start", host_id="another machine"))
    host.shell(f"systemctl stop {UNIT}")

    with pytest.raises(HostError, match="on another machine"), open_systemd(InsideHost(host), tmp_path):
        pass

    assert record.host_id == host.inside("/etc/machine-id").read_text().strip()
    assert host.shell(f"systemctl show -p ActiveState --value {UNIT}") == "inactive\n"
    assert list_ours(host) == ""
    assert (tmp_path / "host.json").exists()


def test_a_service_that_a_reboot_does_not_start_is_started_by_the_next_command(host: Container, tmp_path: Path):
    start_stand_in(host)
    host.shell(f"systemctl disable --quiet {UNIT}")
    with tuner(host, tmp_path) as process:
        assert read_line(process) == "started\n"
        kill(process)
    host.crash()
    host.boot()
    with open_systemd(InsideHost(host), tmp_path) as opened:
        before = opened.observe().occupant
        was = opened.was_serving
        opened.restore()
    wait_until_serving(host)

    assert (before, was) == (Occupant.NOBODY, True)
    assert budget(host) == "16"


def test_a_tuner_that_slept_longer_than_its_lease_changes_and_measures_nothing(host: Container, tmp_path: Path):
    start_stand_in(host)
    with open_systemd(InsideHost(host), tmp_path, lease_s=5) as opened:
        opened.stop()
        opened.start(TRIAL, tmp_path / "boot.log")
        opened._lease.stop_renewing()  # as good as asleep
        wait_until(lambda: budget(host) == "16")
        invocation = host.shell(f"systemctl show -p InvocationID --value {UNIT}")
        opened._lease._renewed_at = 0.0  # so long ago
        for change in (opened.poll, opened.stop, lambda: opened.start(TRIAL, tmp_path / "boot.log")):
            with pytest.raises(LeaseLostError):
                change()
        answers: list[int | None] = []
        opened.restore(lambda: answers.append(opened.poll()))
        with pytest.raises(LeaseLostError):  # nor is the baseline measured once more: another tuner may be at work
            opened.poll()
        findings = opened.findings

    assert host.shell(f"systemctl show -p InvocationID --value {UNIT}") == invocation
    assert answers == [None]
    assert "the host put itself back" in findings[-1]
    wait_until_serving(host)


def test_a_stopped_tuner_that_wakes_up_ends_by_itself(host: Container, tmp_path: Path):
    start_stand_in(host)
    with tuner(host, tmp_path, lease_s=5, last="restore") as process:
        assert read_line(process) == "started\n"
        os.kill(process.pid, signal.SIGSTOP)
        wait_until(lambda: "restored" in host.shell(f"ls /run/autotune/{UNIT}", check=False))
        wait_until_serving(host)
        invocation = host.shell(f"systemctl show -p InvocationID --value {UNIT}")
        os.kill(process.pid, signal.SIGCONT)
        process.wait(60)

    assert host.shell(f"systemctl show -p InvocationID --value {UNIT}") == invocation
    assert budget(host) == "16"
    assert is_serving(host)


def count_changes(host: Container, folder: Path) -> int:
    """Return how many changing commands a trial and its restore take."""
    with tuner(host, folder, last="restore") as process:
        assert read_line(process) == "started\n"
        return int(read_line(process))


def die_after(host: Container, folder: Path, limit: int) -> None:
    with tuner(host, folder, limit=limit, last="restore") as process:
        assert process.wait(120) == -signal.SIGKILL


def see_restored_by_host(host: Container) -> None:
    """Let the host's timer fire now."""
    words = host.shell("systemctl list-units --plain --no-legend 'autotune-*.timer'").split()
    for timer in (word for word in words if word.endswith(".timer")):
        service = timer.replace(".timer", ".service")
        host.shell(f"systemctl start {service} || {{ journalctl -o cat -u {service} >&2; false; }}")


def see_restored_by_next_command(host: Container, folder: Path) -> None:
    with open_systemd(InsideHost(host), folder) as opened:
        opened.restore(lambda: wait_until_serving(host))


def walk(host: Container, tmp_path: Path, share: float) -> list[str]:
    """Kill the tuner before changing commands, a share of them all; return what was not put back."""
    start_stand_in(host)
    before = picture(host)
    count = count_changes(host, tmp_path / "whole")
    chosen = sorted(random.Random(_SEED).sample(range(count), max(int(count * share), 1)))  # noqa: S311  # chosen, not secret
    wrong = []
    for number, limit in enumerate(chosen):
        folder = tmp_path / str(limit)
        die_after(host, folder, limit)
        if number % 2 == 0:
            see_restored_by_host(host)
            wait_until_serving(host)
            if picture(host) != before:
                wrong.append(f"by the host, before change {limit}: {picture(host)}")
        see_restored_by_next_command(host, folder)
        wait_until_serving(host)
        if picture(host) != before or list_ours(host):
            wrong.append(f"by the next command, before change {limit}: {picture(host)} {list_ours(host)}")
    return wrong


def test_wherever_a_tuner_is_killed_the_service_is_put_back(host: Container, tmp_path: Path):
    """Case 70, at some of the moments; ``-m campaign`` takes them all."""
    assert walk(host, tmp_path, 0.06) == []


@pytest.mark.campaign
def test_wherever_at_all_a_tuner_is_killed_the_service_is_put_back(host: Container, tmp_path: Path):
    """Case 70, before each command that changes the host."""
    assert walk(host, tmp_path, 1.0) == []
