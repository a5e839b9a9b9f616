"""Every kind of launch on a real host: what the drop-in of a trial asks for is what the kernel says that runs."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import NamedTuple

import pytest

from autotune.deployment.running_command import find_command_differences, find_hidden_flags, tuned_part
from autotune.deployment.systemd_unit import render_trial_drop_in, trial_drop_in_path
from autotune.deployment.unit import LaunchKind
from autotune.deployment.unit_process import read_process
from autotune.deployment.unit_reader import read_state, read_unit
from autotune.errors import UnitUnsupportedError
from autotune.servers.base import LaunchSpec
from tests.host.inside_host import InsideHost

TUNED = {"--page-size": True, "--note": True, "--enable-x": False}
PATH = "/etc/systemd/system/x.service"
NASTY = ("5 %", "%i", "$HOME", "${HOME}", "$$", '{"a": "b\'c"}', "", '"', "a\\", "-5", "*", "`id`", ";", "中")
SERVER = "/usr/bin/python3 /opt/server.py"
ENDS = "--port 1 --page-size 1 --enable-x"
KINDS = {
    "direct": (LaunchKind.DIRECT, f"ExecStart={SERVER} {ENDS}"),
    "prefixes": (LaunchKind.DIRECT, f"ExecStart=-@/usr/bin/python3 zzz /opt/server.py {ENDS}"),
    "literal": (LaunchKind.DIRECT, f"ExecStart=:{SERVER} {ENDS}"),
    "wrappers": (LaunchKind.DIRECT, f"ExecStart=/usr/bin/env B=1 nice -n 5 -- {SERVER} {ENDS}"),
    "shell": (
        LaunchKind.SHELL,
        f"ExecStart=/bin/bash -lc 'cd / && ulimit -c 0; exec {SERVER} {ENDS} >>/dev/null 2>&1'",
    ),
    "dash": (LaunchKind.SHELL, f'ExecStart=:/bin/sh -c "exec {SERVER} {ENDS}"'),
    "script": (LaunchKind.SCRIPT, "Environment='AUTOTUNE_ARGUMENTS=--page-size 1 --enable-x'\nExecStart=/opt/start.sh"),
}


class Started(NamedTuple):
    """The server's process; its environment could be read."""

    command: tuple[str, ...]
    environment: Mapping[str, str]


def start(host, machine) -> Started:
    host.run(["systemctl", "daemon-reload"])
    host.run(["systemctl", "restart", "x"])
    deadline = time.monotonic() + 20
    while True:
        state = read_state(machine, "x")
        facts = None if state.main_pid is None else read_process(machine, state.main_pid)
        if facts is not None and facts.environment is not None and "/opt/server.py" in facts.command:
            return Started(facts.command, facts.environment)
        assert time.monotonic() < deadline, (state, facts)
        time.sleep(0.05)


@pytest.mark.parametrize("name", KINDS)
def test_a_trial_runs_what_it_asks_for_and_the_baseline_comes_back(host, name):
    """Cases 50, 63 and 65, by every kind of launch."""
    machine = InsideHost(host)
    kind, service = KINDS[name]
    host.put("/opt/server.py", "import time\ntime.sleep(1000)\n")
    host.put("/opt/start.sh", f"#!/bin/sh\ncd /\nexec {SERVER} --port 1 $AUTOTUNE_ARGUMENTS\n", 0o755)
    host.put(
        PATH,
        f"[Service]\nEnvironment=A=old KEPT=1 GONE=1\nUnsetEnvironment=B2\nRestart=always\nRestartForceExitStatus=3\n{service}\n",
    )
    before = start(host, machine)
    unit = read_unit(machine, "x")
    notes = () if kind is LaunchKind.SCRIPT else tuple(word for value in NASTY for word in ("--note", value))
    launch = LaunchSpec((), {"A": 'x "y" %n $Z \\', "B2": "", "GONE": None}, ("--page-size", "64", *notes))

    def render(launch: LaunchSpec | None) -> str:
        return render_trial_drop_in(
            unit, launch, TUNED, stop_timeout_s=600.0, start_timeout_s=math.inf, arguments_variable="AUTOTUNE_ARGUMENTS"
        )

    host.put(trial_drop_in_path("x.service"), render(launch))
    trial = start(host, machine)
    loaded = read_unit(machine, "x")
    restarts = host.shell("systemctl show x -p Restart -p TimeoutStopUSec -p RestartForceExitStatus")
    host.put(trial_drop_in_path("x.service"), render(None))
    baseline = start(host, machine)

    assert unit.launch_kind is loaded.launch_kind is kind
    if kind is LaunchKind.DIRECT:
        written = [word.replace("$", "$$") if unit.expands_variables else word for word in launch.arguments]
        assert list(loaded.argv[-len(written) :]) == written
    assert trial.command[-len(launch.arguments) :] == launch.arguments
    assert tuned_part(trial.command, TUNED) == launch.arguments
    assert {key: trial.environment.get(key) for key in ("A", "B2", "GONE", "KEPT")} == {
        "A": 'x "y" %n $Z \\',
        "B2": "",
        "GONE": None,
        "KEPT": "1",
    }
    assert restarts.splitlines() == ["Restart=no", "TimeoutStopUSec=10min", "RestartForceExitStatus="]
    assert find_command_differences(unit, launch, TUNED, trial.command) == ()
    assert find_command_differences(unit, launch, TUNED, before.command) != ()
    assert find_command_differences(unit, None, TUNED, before.command) == ()
    assert find_hidden_flags(unit, TUNED, before.command) == ()
    assert (baseline.command, baseline.environment["A"]) == (before.command, "old")


def test_a_variable_of_a_file_that_would_win_is_refused_and_does_win(host):
    machine = InsideHost(host)
    host.put("/opt/server.py", "import time\ntime.sleep(1000)\n")
    host.put("/etc/llm.env", "A=file\n", 0o600)
    host.put(PATH, f"[Service]\nEnvironment=A=unit\nEnvironmentFile=/etc/llm.env\nExecStart={SERVER}\n")
    assert start(host, machine).environment["A"] == "file"
    unit = read_unit(machine, "x")

    with pytest.raises(UnitUnsupportedError, match=r"/etc/llm\.env sets A too"):
        render_trial_drop_in(
            unit, LaunchSpec((), {"A": "1"}), TUNED, stop_timeout_s=1, start_timeout_s=1, arguments_variable="V"
        )


def test_flags_that_a_variable_of_a_file_brings_are_seen_in_the_process(host):
    machine = InsideHost(host)
    host.put("/opt/server.py", "import time\ntime.sleep(1000)\n")
    host.put("/etc/llm.env", "OPTS='--port 1 --page-size 8'\n", 0o600)
    host.put(PATH, f"[Service]\nEnvironmentFile=/etc/llm.env\nExecStart={SERVER} $OPTS\n")
    facts = start(host, machine)

    assert find_hidden_flags(read_unit(machine, "x"), TUNED, facts.command) == ("--page-size",)
