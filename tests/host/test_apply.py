"""Apply and rollback on a real host: afterwards it is what was asked for, or byte for byte what it was."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import sys
import threading
import urllib.request
from pathlib import Path

import pytest

from tests.host.applied import (
    ARCHIVE,
    DROP_IN,
    ON_HOST,
    RECOMMENDED,
    active_state,
    finished_study,
    finished_study_on_host,
    run_autotune,
    run_command,
)
from tests.host.container import Container
from tests.host.lab import CHECKOUT, Lab
from tests.host.service import (
    BASELINE,
    BLOCK,
    PORT,
    STAND_IN_COMMAND,
    UNIT,
    UNIT_PATH,
    render_unit,
    set_faults,
    start_service,
    start_stand_in,
    wait_until_serving,
)
from tests.host.state import HostSnapshot, compare, ignore_files, snapshot, wait_until_none
from tests.host.tuner_process import Place, Tuner, run_tuner

SYSTEMD_OWN = "/run/systemd/transient"
"""Made by systemd itself when the first transient unit comes; it stays."""

ALL = os.environ.get("AUTOTUNE_ALL_FAULTS") == "1"
KILLED_AFTER = range(1, 18) if ALL else (8,)
"""Numbers of changing commands before which an apply is killed; all of them with AUTOTUNE_ALL_FAULTS=1.

The host that loses its power below dies before the twelfth, with the drop-in written."""

APPLY = ("export", "sample", "--apply", "--yes")
ROLLBACK = ("rollback", "sample")


def look(host: Container) -> HostSnapshot:
    return ignore_files(snapshot(host), SYSTEMD_OWN)


def find_differences(host: Container, before: HostSnapshot) -> list[str]:
    return wait_until_none(lambda: compare(before, look(host)))


@pytest.mark.parametrize("user", [pytest.param("root", marks=pytest.mark.campaign), "ubuntu"])
def test_an_apply_puts_the_result_into_service_and_a_rollback_takes_it_back(
    lab: Lab, host: Container, tmp_path: Path, user: str
):
    """Case 70: the absence of files and folders comes back too. Case 63: one command, unchanged flags in order."""
    start_stand_in(host)
    folder = finished_study(tmp_path, lab, host, user)
    before = look(host)

    applied = run_autotune(folder, *APPLY)

    assert applied.exit_code == 0, applied.output
    assert f"{UNIT} serves trial 3" in applied.stderr
    assert run_command(host)[-6:] == [*RECOMMENDED, "--speculative-num-draft-tokens", "16"]
    assert host.shell(f"stat -c %a {DROP_IN}").strip() == "644"

    again = run_autotune(folder, *APPLY)

    assert again.exit_code == 0, again.output
    assert f"nothing to do: {UNIT} serves trial 3 already" in again.stderr

    back = run_autotune(folder, *ROLLBACK)

    assert back.exit_code == 0, back.output
    assert "serves, checked by a generation" in back.stderr
    assert find_differences(host, before) == []
    assert "nothing to take back" in run_autotune(folder, *ROLLBACK).stderr
    assert find_differences(host, before) == []


def test_an_apply_on_the_host_itself(lab: Lab, host: Container, tmp_path: Path):
    start_stand_in(host)
    finished_study_on_host(tmp_path, host)
    before = look(host)

    code, said = run_tuner(lab, host, ON_HOST, Place.ON_HOST, APPLY)

    assert code == 0, said
    assert set(RECOMMENDED) <= set(run_command(host))

    code, said = run_tuner(lab, host, ON_HOST, Place.ON_HOST, ROLLBACK)

    assert code == 0, said
    assert find_differences(host, before) == []


@pytest.mark.parametrize(
    ("fault", "exit_code", "words"),
    [("refuse", 4, "the server refused its arguments"), ("crash", 4, "ended"), ("unready", 4, "not ready after")],
)
def test_a_server_that_does_not_come_up_is_put_back(
    lab: Lab, host: Container, tmp_path: Path, fault: str, exit_code: int, words: str
):
    """A crash loop is noticed at its first end, not when the time is over."""
    start_stand_in(host)
    set_faults(host, {"fault": fault, "budgets": [8]})
    folder = finished_study(tmp_path, lab, host, ready_timeout_s=8.0 if fault == "unready" else 600.0)
    before = look(host)

    applied = run_autotune(folder, *APPLY)

    assert applied.exit_code == exit_code, applied.output
    assert words in applied.stderr
    assert "the state before is back" in applied.stderr
    assert find_differences(host, before) == []


def test_an_earlier_export_is_replaced_and_comes_back_with_its_mode(lab: Lab, host: Container, tmp_path: Path):
    """Case 70: a host with an existing drop-in of an earlier export; only root may read it."""
    start_stand_in(host)
    earlier = (
        "# by hand\n[Service]\nUnsetEnvironment=SGLANG_DDTREE_MAX_TOPK\nExecStart=\n"
        f"ExecStart={' '.join(run_command(host)[:7])} --speculative-draft-window-size 512\n"
    )
    host.put(DROP_IN, earlier, 0o600)
    host.shell(f"systemctl daemon-reload; systemctl restart {UNIT}")
    wait_until_serving(host)
    folder = finished_study(tmp_path, lab, host, "ubuntu")
    before = look(host)

    applied = run_autotune(folder, *APPLY)

    assert applied.exit_code == 0, applied.output
    assert "--speculative-draft-window-size" not in run_command(host)
    assert "UnsetEnvironment" not in host.shell(f"cat {DROP_IN}")
    assert host.shell(f"stat -c %a {DROP_IN}").strip() == "600"

    back = run_autotune(folder, *ROLLBACK)

    assert back.exit_code == 0, back.output
    assert host.shell(f"cat {DROP_IN}") == earlier
    assert find_differences(host, before) == []


@pytest.mark.parametrize("kind", ["shell", pytest.param("script", marks=pytest.mark.campaign)])
def test_a_server_behind_a_shell_or_a_script_gets_the_flags_too(lab: Lab, host: Container, tmp_path: Path, kind: str):
    program, baseline = " ".join(STAND_IN_COMMAND), " ".join((*BASELINE, *BLOCK))
    if kind == "shell":
        unit = render_unit(["/bin/bash", "-c", f"'ulimit -c 0; exec {program} {baseline}'"])
    else:
        host.put("/opt/start.sh", f"#!/bin/sh\nexec {program} $AUTOTUNE_ARGUMENTS\n", 0o755)
        unit = render_unit(["/opt/start.sh"], extra=f'Environment="AUTOTUNE_ARGUMENTS={baseline}"')
    start_service(host, unit)
    folder = finished_study(tmp_path, lab, host)
    before = look(host)

    applied = run_autotune(folder, *APPLY)

    assert applied.exit_code == 0, applied.output
    assert run_command(host)[-6:] == [*RECOMMENDED, *BLOCK]
    assert run_autotune(folder, *ROLLBACK).exit_code == 0
    assert find_differences(host, before) == []


def test_a_container_is_refused_before_anything_is_written(lab: Lab, host: Container, tmp_path: Path):
    start_stand_in(host)
    host.put(f"{UNIT_PATH}.d/20-container.conf", "[Service]\nExecStart=\nExecStart=/usr/bin/docker run --rm sglang\n")
    host.shell("systemctl daemon-reload")
    folder = finished_study(tmp_path, lab, host)
    before = look(host)

    refused = run_autotune(folder, *APPLY)

    assert refused.exit_code == 2, refused.output
    assert "container" in refused.stderr
    assert find_differences(host, before) == []


def test_each_rollback_takes_one_apply_back(lab: Lab, host: Container, tmp_path: Path):
    start_stand_in(host)
    folder = finished_study(tmp_path, lab, host)
    before = look(host)

    assert run_autotune(folder, *APPLY).exit_code == 0
    first = look(host)
    assert run_autotune(folder, *APPLY, "--trial", "2").exit_code == 0
    assert run_command(host)[-3:][0] == "7"

    assert run_autotune(folder, *ROLLBACK).exit_code == 0
    assert snapshot(host).command == first.command
    assert run_autotune(folder, *ROLLBACK).exit_code == 0
    assert find_differences(host, before) == []


def test_a_drop_in_that_somebody_changed_is_not_overwritten(lab: Lab, host: Container, tmp_path: Path):
    start_stand_in(host)
    folder = finished_study(tmp_path, lab, host)
    before = look(host)
    assert run_autotune(folder, *APPLY).exit_code == 0
    host.shell(f"echo 'LimitCORE=0' >> {DROP_IN}; systemctl daemon-reload")
    changed = look(host)

    refused = run_autotune(folder, *ROLLBACK)

    assert refused.exit_code == 3, refused.output
    assert "+LimitCORE=0" in refused.stderr
    assert "was changed since it was written" in refused.stderr
    assert find_differences(host, changed) == []

    forced = run_autotune(folder, *ROLLBACK, "--force")

    assert forced.exit_code == 0, forced.output
    assert "LimitCORE=0" in host.shell(f"cat {ARCHIVE}/0001-theirs.conf")
    host.shell(f"rm -r {ARCHIVE}; rmdir /var/lib/autotune")
    assert find_differences(host, before) == []


def test_a_service_that_does_not_run_is_not_started(lab: Lab, host: Container, tmp_path: Path):
    start_stand_in(host)
    host.shell(f"systemctl stop {UNIT}")
    folder = finished_study(tmp_path, lab, host)
    before = look(host)

    applied = run_autotune(folder, *APPLY)

    assert applied.exit_code == 0, applied.output
    assert "did not run and was not started" in applied.stderr
    assert (active_state(host), "ExecStart=" in host.shell(f"cat {DROP_IN}")) == ("inactive", True)

    back = run_autotune(folder, *ROLLBACK)

    assert back.exit_code == 0, back.output
    assert find_differences(host, before) == []


def test_without_somebody_to_ask_nothing_is_changed(lab: Lab, host: Container, tmp_path: Path):
    start_stand_in(host)
    folder = finished_study(tmp_path, lab, host)
    before = look(host)

    refused = run_autotune(folder, "export", "sample", "--apply")

    assert refused.exit_code == 2, refused.output
    assert "+ExecStart=" in refused.stderr
    assert "say --yes" in refused.stderr
    assert find_differences(host, before) == []


def test_a_later_drop_in_that_would_undo_ours_is_found_before_anything_is_written(
    lab: Lab, host: Container, tmp_path: Path
):
    start_stand_in(host)
    command = " ".join(run_command(host))
    host.put(f"/etc/systemd/system/{UNIT}.d/90-local.conf", f"[Service]\nExecStart=\nExecStart={command}\n")
    host.shell("systemctl daemon-reload")
    folder = finished_study(tmp_path, lab, host)
    before = look(host)

    refused = run_autotune(folder, *APPLY)

    assert refused.exit_code == 3, refused.output
    assert "90-local.conf" in refused.stderr
    assert find_differences(host, before) == []

    named = run_autotune(folder, *APPLY, "--name", "95-autotune.conf")

    assert named.exit_code == 0, named.output
    assert set(RECOMMENDED) <= set(run_command(host))
    assert run_autotune(folder, *ROLLBACK).exit_code == 0
    assert find_differences(host, before) == []


def test_ctrl_c_while_the_server_loads_puts_back_what_was_there(lab: Lab, host: Container, tmp_path: Path):
    """Case 70 (a)."""
    start_stand_in(host)
    set_faults(host, {"fault": "slow", "seconds": 60, "budgets": [8]})
    folder = finished_study(tmp_path, lab, host, is_forwarded=False, ready_timeout_s=120.0, stall_timeout_s=100.0)
    before = look(host)

    applied = Tuner(lab, host, folder, Place.ROOT, APPLY)
    try:
        assert applied.wait_until_said(f"restarting {UNIT}"), applied.text
        applied.process.send_signal(signal.SIGINT)

        assert applied.wait(60) == 130, applied.text
    finally:
        applied.close()
    assert "the state before is back" in applied.text
    assert find_differences(host, before) == []


def test_a_connection_that_is_lost_while_the_server_loads_is_made_again_and_the_host_put_back(
    lab: Lab, host: Container, tmp_path: Path
):
    """Case 70 (b)."""
    start_stand_in(host)
    set_faults(host, {"fault": "slow", "seconds": 60, "budgets": [8]})
    folder = finished_study(tmp_path, lab, host, is_forwarded=False, ready_timeout_s=120.0, stall_timeout_s=100.0)
    before = look(host)

    applied = Tuner(lab, host, folder, Place.ROOT, APPLY)
    try:
        assert applied.wait_until_said(f"restarting {UNIT}"), applied.text
        host.shell("systemctl stop ssh; pkill -KILL -f '^sshd: root@'")  # only what runs on the test host
        assert applied.wait_until_said("putting back what was there before"), applied.text
        host.shell("systemctl start ssh")

        assert applied.wait(120) == 3, applied.text
    finally:
        applied.close()
    assert "the state before is back" in applied.text
    assert find_differences(host, before) == []


@pytest.mark.parametrize("after", KILLED_AFTER)
def test_an_apply_that_was_killed_is_finished_by_a_rollback(lab: Lab, host: Container, tmp_path: Path, after: int):
    """Killed before its command number ``after`` that changes something; case 70."""
    start_stand_in(host)
    finished_study_on_host(tmp_path, host)
    before = look(host)

    line = shlex.join([sys.executable, "-m", "tests.host.dying_apply", str(after), *APPLY])
    said = host.shell(f"cd {ON_HOST} && PYTHONPATH={CHECKOUT} {line} 2>&1; echo code $?", timeout_s=90)

    assert said.endswith("code 137\n"), said

    code, said = run_tuner(lab, host, ON_HOST, Place.ON_HOST, APPLY)

    assert code in {0, 3}, said  # 0: killed before anything was begun, or when all was done
    assert code == 0 or "run `autotune rollback sample`" in said

    code, said = run_tuner(lab, host, ON_HOST, Place.ON_HOST, ROLLBACK)

    assert code == 0, said
    assert find_differences(host, before) == []


def test_nothing_else_begins_while_an_apply_that_was_killed_is_open(lab: Lab, host: Container, tmp_path: Path):
    start_stand_in(host)
    finished_study_on_host(tmp_path, host)
    line = shlex.join([sys.executable, "-m", "tests.host.dying_apply", "10", *APPLY])
    host.shell(f"cd {ON_HOST} && PYTHONPATH={CHECKOUT} {line} 2>&1; echo code $?", timeout_s=90)
    before = look(host)

    code, said = run_tuner(lab, host, ON_HOST, Place.ON_HOST, ("restore", "sample"))

    assert code == 3, said
    assert "an apply of trial 3 of study sample" in said
    assert "never ended" in said
    after = look(host)
    assert ignore_files(after, "/run/autotune").files == ignore_files(before, "/run/autotune").files
    assert (after.invocation, after.start_command) == (before.invocation, before.start_command)


@pytest.mark.parametrize("after", [3, 5, 6, 7, 9] if ALL else [6])
def test_a_rollback_that_was_killed_is_finished_by_the_next(lab: Lab, host: Container, tmp_path: Path, after: int):
    start_stand_in(host)
    finished_study_on_host(tmp_path, host)
    before = look(host)
    code, said = run_tuner(lab, host, ON_HOST, Place.ON_HOST, APPLY)
    assert code == 0, said

    line = shlex.join([sys.executable, "-m", "tests.host.dying_apply", str(after), *ROLLBACK])
    said = host.shell(f"cd {ON_HOST} && PYTHONPATH={CHECKOUT} {line} 2>&1; echo code $?", timeout_s=90)

    assert said.endswith("code 137\n"), said

    code, said = run_tuner(lab, host, ON_HOST, Place.ON_HOST, ROLLBACK)

    assert code == 0, said
    assert find_differences(host, before) == []


def test_an_apply_in_the_middle_of_which_the_power_fails_is_finished_after_the_boot(
    lab: Lab, host: Container, tmp_path: Path
):
    start_stand_in(host)
    finished_study_on_host(tmp_path, host)
    before = look(host)
    line = shlex.join([sys.executable, "-m", "tests.host.dying_apply", "12", *APPLY])
    host.shell(f"cd {ON_HOST} && PYTHONPATH={CHECKOUT} {line} 2>&1; echo code $?; sync", timeout_s=90)
    assert "ExecStart=" in host.shell(f"cat {DROP_IN}")

    host.crash()
    host.boot()
    wait_until_serving(host)
    code, said = run_tuner(lab, host, ON_HOST, Place.ON_HOST, ROLLBACK)

    assert code == 0, said
    assert find_differences(host, before) == []


def test_requests_of_others_are_not_cut_off(lab: Lab, host: Container, tmp_path: Path):
    start_stand_in(host)
    folder = finished_study(tmp_path, lab, host)
    before = look(host)
    url = f"http://127.0.0.1:{lab.forward(host.ip, PORT)}/generate"
    body = json.dumps({"text": "x", "sampling_params": {"max_new_tokens": 12000, "ignore_eos": True}}).encode()
    request = urllib.request.Request(url, body, {"content-type": "application/json"})

    def ask() -> None:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(request, timeout=60).read()

    user = threading.Thread(target=ask)
    user.start()
    try:
        refused = run_autotune(folder, *APPLY)

        assert refused.exit_code == 3, refused.output
        assert "1 request of others" in refused.stderr
        assert find_differences(host, before) == []
    finally:
        user.join()
