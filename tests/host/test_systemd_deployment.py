"""A service on a real host, started, watched, stopped and put back."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from autotune.deployment import systemd
from autotune.deployment.base import Occupant
from autotune.deployment.systemd import SystemdDeployment
from autotune.deployment.unit_record import UnitRecord
from autotune.errors import (
    HostError,
    LeaseLostError,
    PortTakenError,
    ServerDisturbed,
    UnitStateError,
    UnitUnsupportedError,
)
from autotune.servers.base import LaunchSpec
from tests.host.container import Container
from tests.host.inside_host import InsideHost
from tests.host.service import PORT, UNIT, UNIT_PATH, is_serving, set_faults, start_stand_in, wait_until_serving
from tests.host.systemd_study import BASELINE_LAUNCH, TRIAL, launch, open_systemd

DROP_IN = f"/run/systemd/system/{UNIT}.d/zzz-autotune-trial.conf"


def wait_until(is_so: Callable[[], bool], patience_s: float = 30) -> None:
    deadline = time.monotonic() + patience_s
    while not is_so():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def picture(host: Container) -> str:
    """Return everything about the service that must be as before."""
    return host.shell(
        f"systemctl show -p Restart,TimeoutStopUSec,DropInPaths,NeedDaemonReload,ActiveState {UNIT}; "
        f"tr '\\0' ' ' </proc/$(systemctl show -p MainPID --value {UNIT})/cmdline; "
        "find /etc/systemd/system /run/systemd/system /run/autotune -type f -printf '%p %m\\n' -exec md5sum {} + 2>/dev/null; "
        "systemctl list-units --all --plain --no-legend 'autotune*'",
        check=False,
    )


def command(host: Container) -> str:
    return host.shell(f"tr '\\0' ' ' </proc/$(systemctl show -p MainPID --value {UNIT})/cmdline")


def invocation(host: Container) -> str:
    return host.shell(f"systemctl show -p InvocationID --value {UNIT}")


def deployment(
    host: Container, folder: Path, *, lease_s: float = 600.0, stop_timeout_s: float = 10.0
) -> SystemdDeployment:
    return open_systemd(InsideHost(host), folder, lease_s=lease_s, stop_timeout_s=stop_timeout_s)


def test_looking_changes_nothing(host: Container, tmp_path: Path):
    start_stand_in(host)
    before = picture(host)
    with deployment(host, tmp_path) as opened:
        seen = opened.observe()
        alive = opened.poll()
        log = opened.read_log()

    assert seen.occupant is Occupant.BASELINE
    assert seen.launch == BASELINE_LAUNCH
    assert seen.is_listening
    assert "--speculative-ddtree-budget 16" in " ".join(seen.command)
    assert alive is None
    assert log == ()
    assert opened.was_serving
    assert before == picture(host)
    assert not (tmp_path / "host.json").exists()


def test_a_trial_runs_and_the_service_is_put_back_byte_for_byte(host: Container, tmp_path: Path):
    """Case 70: leave the host as it was."""
    start_stand_in(host)
    before = picture(host)
    checks: list[str] = []
    with deployment(host, tmp_path) as opened:
        opened.stop()
        between = opened.observe().occupant
        pid = opened.start(TRIAL, tmp_path / "trials/1/server.log")
        wait_until_serving(host)
        seen = opened.observe()
        alive = opened.poll()
        running = command(host)
        differences = opened.verify(TRIAL)
        others = opened.verify(launch("--speculative-ddtree-budget", "9", topk="2"))
        environment = opened.read_environment()
        log = opened.read_log()
        restart = host.shell(f"systemctl show -p Restart --value {UNIT}")
        opened.restore(lambda: checks.append("checked"))
        opened.restore(lambda: checks.append("checked again"))
        after = opened.observe()

    wait_until_serving(host)
    assert between is Occupant.NOBODY
    assert (seen.occupant, seen.pid, seen.launch, alive) == (Occupant.OURS, pid, TRIAL, None)
    assert "--speculative-ddtree-budget 8 " in running + " "
    assert "--speculative-num-draft-tokens 16" in running
    assert differences == ()
    assert "--speculative-ddtree-budget is 8, not 9" in others
    assert environment["SGLANG_DDTREE_MAX_TOPK"] == "2"
    assert any("ready to roll" in line for line in log)
    assert "ready to roll" in (tmp_path / "trials/1/server.log").read_text()
    assert restart == "no\n"
    assert checks == ["checked"]
    assert after.occupant is Occupant.BASELINE
    assert before == picture(host)
    assert not (tmp_path / "host.json").exists()


def test_one_trial_follows_the_other_and_each_log_has_its_own_lines(host: Container, tmp_path: Path):
    start_stand_in(host)
    with deployment(host, tmp_path) as opened:
        logs = []
        for number, budget in enumerate(("4", "12")):
            opened.stop()
            opened.start(launch("--speculative-ddtree-budget", budget, topk="2"), tmp_path / f"{number}.log")
            wait_until_serving(host)
            logs.append(opened.read_log())
            running = command(host)

    assert "--speculative-ddtree-budget 12" in running
    assert sum("ready to roll" in line for line in logs[1]) == 1
    wait_until_serving(host)
    assert "--speculative-ddtree-budget 16" in command(host)


def test_the_baseline_booted_again_counts_as_the_baseline(host: Container, tmp_path: Path):
    start_stand_in(host)
    with deployment(host, tmp_path) as opened:
        opened.stop()
        opened.start(BASELINE_LAUNCH, tmp_path / "boot.log")
        wait_until_serving(host)
        differences = opened.verify(BASELINE_LAUNCH)
        launch_seen = opened.observe().launch
        during = invocation(host)
        opened.restore()
        restart = host.shell(f"systemctl show -p Restart --value {UNIT}")

    assert differences == ()
    assert launch_seen == BASELINE_LAUNCH
    assert invocation(host) == during
    assert restart == "always\n"


@pytest.mark.parametrize("last", [TRIAL, BASELINE_LAUNCH], ids=["trial", "baseline"])
def test_a_service_that_was_off_is_off_again(host: Container, tmp_path: Path, last: LaunchSpec):
    start_stand_in(host)
    host.shell(f"systemctl stop {UNIT}")
    checks: list[str] = []
    with deployment(host, tmp_path) as opened:
        was = opened.was_serving
        opened.stop()
        opened.start(last, tmp_path / "boot.log")
        wait_until_serving(host)
        opened.restore(lambda: checks.append("checked"))
        after = opened.observe().occupant

    assert not was
    assert after is Occupant.NOBODY
    assert checks == []
    assert host.shell(f"systemctl is-active {UNIT}", check=False) == "inactive\n"
    assert host.shell(f"ls {DROP_IN} 2>&1", check=False) != f"{DROP_IN}\n"


def test_a_crash_at_the_start_is_seen_at_once_and_not_repeated(host: Container, tmp_path: Path):
    """Case 5: the unit says Restart=always, yet a trial that crashes stays down, with its exit code and its last words."""
    start_stand_in(host)
    set_faults(host, {"budgets": [8], "fault": "crash"})
    with deployment(host, tmp_path) as opened:
        opened.stop()
        opened.start(TRIAL, tmp_path / "boot.log")
        wait_until(lambda: opened.poll() is not None)
        code = opened.poll()
        log = opened.read_log()
        restarts = host.shell(f"systemctl show -p NRestarts --value {UNIT}")

    assert code not in (None, 0)
    assert log
    assert restarts == "0\n"
    wait_until_serving(host)


def test_starts_that_systemd_counts_keep_neither_trials_nor_the_baseline_down(host: Container, tmp_path: Path):
    """The unit may start five times a minute; four are used up, and three more are needed."""
    start_stand_in(host)
    for _ in range(3):
        host.shell(f"systemctl restart {UNIT}")
    with deployment(host, tmp_path) as opened:
        for budget in ("4", "12"):
            opened.stop()
            opened.start(launch("--speculative-ddtree-budget", budget, topk="2"), tmp_path / f"{budget}.log")
            wait_until_serving(host)
        opened.restore(lambda: wait_until_serving(host))

    assert "--speculative-ddtree-budget 16" in command(host)
    assert host.shell(f"systemctl show -p Result --value {UNIT}") == "success\n"


def test_a_server_that_crashes_while_it_serves_is_seen(host: Container, tmp_path: Path):
    start_stand_in(host)
    with deployment(host, tmp_path) as opened:
        opened.stop()
        pid = opened.start(TRIAL, tmp_path / "boot.log")
        wait_until_serving(host)
        before = opened.poll()
        host.shell(f"kill -9 {pid}")
        wait_until(lambda: opened.poll() is not None)
        code = opened.poll()

    assert (before, code) == (None, -9)


def test_a_baseline_that_systemd_restarts_meanwhile_is_seen(host: Container, tmp_path: Path):
    """Case 5: a new process under the same name is not the one that was measured."""
    start_stand_in(host)
    with deployment(host, tmp_path) as opened:
        before = opened.poll()
        host.shell(f"kill -9 $(systemctl show -p MainPID --value {UNIT})")
        wait_until(lambda: opened.poll() is not None)

    assert before is None
    wait_until_serving(host)


def test_a_foreign_server_on_the_port_is_named_and_left_alone(host: Container, tmp_path: Path):
    start_stand_in(host)
    host.shell(f"systemctl stop {UNIT}")
    host.shell(f"systemd-run --quiet --unit=stranger python3 -m http.server {PORT}")
    host.wait_for_port(PORT)
    with deployment(host, tmp_path) as opened:
        seen = opened.observe()
        with pytest.raises(PortTakenError, match=r"http\.server"):
            opened.stop()
        with pytest.raises(PortTakenError, match=r"http\.server"):
            opened.start(TRIAL, tmp_path / "boot.log")

    assert seen.occupant is Occupant.FOREIGN
    assert "stranger.service" in seen.differences[0]
    assert host.shell("systemctl is-active stranger") == "active\n"


def test_gpu_memory_held_by_an_escaped_process_ends_the_study_with_its_name(
    host: Container, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("autotune.deployment.stopping._GPU_PATIENCE_S", 2.0)
    start_stand_in(host)
    set_faults(host, {"budgets": [8], "fault": "escapes"})
    with deployment(host, tmp_path) as opened:
        opened.stop()
        opened.start(TRIAL, tmp_path / "boot.log")
        wait_until_serving(host)
        with pytest.raises(HostError, match=r"GPU memory is still held.*process \d+ .*not ours to kill"):
            opened.stop()

    wait_until_serving(host)
    assert "--speculative-ddtree-budget 16" in command(host)


def test_somebody_else_on_the_gpus_is_refused_before_the_first_stop(host: Container, tmp_path: Path):
    start_stand_in(host)
    before = invocation(host)
    other = int(host.shell("setsid sleep 600 >/dev/null 2>&1 & echo $!"))
    host.shell(f"echo 0 5000 >/run/fake-gpu/{other}")
    with (
        pytest.raises(
            HostError, match=rf"process {other} \(sleep 600\) holds 5000 MiB of GPU 0, and is not of the service"
        ),
        deployment(host, tmp_path),
    ):
        pass
    host.shell(f"kill {other}")

    assert invocation(host) == before
    assert host.shell("ls -A /run/autotune") == ""


def test_a_server_that_drains_is_waited_for(host: Container, tmp_path: Path):
    start_stand_in(host)
    set_faults(host, {"budgets": [8], "fault": "drains", "seconds": 4})
    with deployment(host, tmp_path, stop_timeout_s=30) as opened:
        opened.stop()
        opened.start(TRIAL, tmp_path / "boot.log")
        wait_until_serving(host)
        started = time.monotonic()
        opened.stop()
        took_s = time.monotonic() - started
        result = host.shell(f"systemctl show -p Result --value {UNIT}")

    assert took_s > 3
    assert result == "success\n"


def test_what_somebody_else_changed_is_left_and_said(host: Container, tmp_path: Path):
    start_stand_in(host)
    with deployment(host, tmp_path) as opened:
        opened.stop()
        opened.start(TRIAL, tmp_path / "boot.log")
        host.put(DROP_IN, "[Service]\nEnvironment=MINE=1\n")
        with pytest.raises(HostError, match="was changed by somebody else"):
            opened.restore()
        host.shell(f"rm {DROP_IN}; systemctl daemon-reload")
        opened.restore()

    assert not (tmp_path / "host.json").exists()


def test_a_drop_in_that_somebody_adds_meanwhile_is_not_blamed_on_the_trial(host: Container, tmp_path: Path):
    start_stand_in(host)
    with deployment(host, tmp_path) as opened:
        opened.stop()
        opened.start(TRIAL, tmp_path / "boot.log")
        line = host.shell(f"grep ^ExecStart= {UNIT_PATH}")
        host.put(f"{UNIT_PATH}.d/zzzz.conf", f"[Service]\nExecStart=\n{line}")
        host.shell(f"systemctl daemon-reload; systemctl restart {UNIT}")
        with pytest.raises(UnitStateError, match=r"zzzz\.conf is read after our drop-in"):
            opened.verify(TRIAL)


def test_a_baseline_that_somebody_has_edited_meanwhile_is_said(host: Container, tmp_path: Path):
    start_stand_in(host)
    with deployment(host, tmp_path) as opened:
        opened.stop()
        opened.start(TRIAL, tmp_path / "boot.log")
        host.shell(f"sed -i 's/budget 16/budget 12/' {UNIT_PATH}; systemctl daemon-reload")
        opened.restore()
        findings = "; ".join(opened.findings)

    assert "--speculative-ddtree-budget 12" in command(host)
    assert f"somebody has changed {UNIT} meanwhile" in findings
    assert "--speculative-ddtree-budget is 12, not 16" in findings


def test_a_later_drop_in_of_somebody_else_is_found_before_anything_is_changed(host: Container, tmp_path: Path):
    start_stand_in(host)
    host.put(f"{UNIT_PATH}.d/zzzz-late.conf", "[Service]\nRestart=always\n")
    host.shell("systemctl daemon-reload")

    with pytest.raises(UnitStateError, match=r"zzzz-late\.conf"), deployment(host, tmp_path):
        pass

    assert is_serving(host)
    assert "autotune" not in host.shell(
        "ls /run/autotune/* 2>&1; systemctl list-units --all 'autotune*' --no-legend", check=False
    ).replace("/run/autotune", "")


def test_a_unit_that_takes_no_other_variables_is_refused_before_it_is_stopped(host: Container, tmp_path: Path):
    host.put("/etc/llm.env", "SGLANG_DDTREE_MAX_TOPK=4\n")
    start_stand_in(host, extra="EnvironmentFile=/etc/llm.env\n")
    before = invocation(host)

    with pytest.raises(UnitUnsupportedError, match=r"/etc/llm\.env sets"), deployment(host, tmp_path):
        pass

    assert invocation(host) == before
    assert "autotune" not in host.shell("systemctl list-units --all 'autotune*' --no-legend")


def test_a_shortened_flag_is_refused_before_anything_is_changed(host: Container, tmp_path: Path):
    start_stand_in(host)
    host.shell(f"systemctl stop {UNIT}; sed -i 's/ddtree-budget/ddtree-bud/' {UNIT_PATH}; systemctl daemon-reload")

    with (
        pytest.raises(UnitUnsupportedError, match="--speculative-ddtree-bud is short for"),
        deployment(host, tmp_path),
    ):
        pass


def test_a_service_that_would_start_something_else_than_it_runs_is_refused(host: Container, tmp_path: Path):
    start_stand_in(host)
    unit = host.shell(f"cat {UNIT_PATH}")
    host.put(UNIT_PATH, unit.replace("budget 16", "budget 12"))
    with pytest.raises(UnitStateError, match="daemon-reload"), deployment(host, tmp_path):
        pass
    host.shell("systemctl daemon-reload")

    with pytest.raises(UnitStateError, match="--speculative-ddtree-budget is 16, not 12"), deployment(host, tmp_path):
        pass

    assert is_serving(host)


def test_a_full_disk_under_the_study_does_not_keep_the_service_from_being_put_back(
    host: Container, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    start_stand_in(host)
    before = picture(host)

    def refuse(path: Path, _record: UnitRecord) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    with deployment(host, tmp_path) as opened:
        opened.stop()
        opened.start(TRIAL, tmp_path / "boot.log")
        wait_until_serving(host)
        monkeypatch.setattr(systemd, "save_record", refuse)
        with pytest.raises(OSError, match="No space left"):
            opened.stop()
        opened.restore()

    wait_until_serving(host)
    assert before == picture(host)
    assert not (tmp_path / "host.json").exists()


@pytest.mark.parametrize("removed", ["/run/autotune", f"/run/autotune/{UNIT}", f"/run/autotune/{UNIT}/lease"])
def test_a_service_whose_lease_somebody_has_removed_is_put_back_all_the_same(
    host: Container, tmp_path: Path, removed: str
):
    start_stand_in(host)
    before = picture(host)
    with deployment(host, tmp_path) as opened:
        opened.stop()
        opened.start(TRIAL, tmp_path / "boot.log")
        host.shell(f"rm -r {removed}")
        with pytest.raises(LeaseLostError):
            opened.stop()
        opened.restore()
        findings = opened.findings

    wait_until_serving(host)
    assert "our lease had been removed" in findings[-1]
    assert before == picture(host)
    assert not (tmp_path / "host.json").exists()


def test_a_stop_by_somebody_else_is_not_taken_for_a_crash(host: Container, tmp_path: Path):
    start_stand_in(host)
    with deployment(host, tmp_path) as opened:
        opened.stop()
        opened.start(TRIAL, tmp_path / "boot.log")
        wait_until_serving(host)
        host.shell(f"systemctl stop {UNIT}")
        with pytest.raises(ServerDisturbed, match="somebody else has stopped"):
            opened.poll()
        opened.restore(lambda: None)

    wait_until_serving(host)


def test_a_restart_by_somebody_else_is_not_taken_for_a_crash(host: Container, tmp_path: Path):
    start_stand_in(host)
    with deployment(host, tmp_path) as opened:
        opened.stop()
        opened.start(TRIAL, tmp_path / "boot.log")
        wait_until_serving(host)
        host.shell(f"systemctl restart {UNIT}")
        for _ in range(2):
            with pytest.raises(ServerDisturbed, match="somebody else has restarted"):
                opened.poll()
        opened.stop()
        opened.start(TRIAL, tmp_path / "boot.log")
        wait_until_serving(host)
        alive = opened.poll()
        opened.restore(lambda: None)

    assert alive is None
    wait_until_serving(host)
    assert "--speculative-ddtree-budget 16" in command(host)


def test_a_failed_check_leaves_the_rest_to_the_next_command(host: Container, tmp_path: Path):
    start_stand_in(host)

    def refuse() -> None:
        raise HostError("it does not serve")

    checks: list[str] = []
    with deployment(host, tmp_path) as opened:
        opened.stop()
        with pytest.raises(HostError, match="it does not serve"):
            opened.restore(refuse)
    left = (tmp_path / "host.json").exists()
    with deployment(host, tmp_path) as opened:
        opened.restore(lambda: checks.append("checked"))

    assert left
    assert checks == ["checked"]
    assert not (tmp_path / "host.json").exists()
