"""Recorded and rehearsed hosts: what counts as a change, and reads that answer as if it had happened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from autotune.deployment.host import CommandOutput
from autotune.deployment.host_files import read_file, remove_file, write_file
from autotune.deployment.lease import fence
from autotune.deployment.local_host import LocalHost
from autotune.deployment.recorded_host import RecordedHost, RehearsedHost, is_read
from autotune.deployment.unit_reader import read_state

UNIT = "x.service"
STATE = """LoadState=loaded
ActiveState=active
SubState=running
Result=success
NRestarts=2
MainPID=7
ExecMainCode=0
ExecMainStatus=0
InvocationID=aa
ControlGroup=/x
"""


class Told(LocalHost):
    """Runs nothing, keeps what it was told."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, ...]] = []

    @property
    def user_id(self) -> int:
        return 1000

    def run(self, command: Sequence[str], **_: Any) -> CommandOutput:
        self.ran.append(tuple(command))
        return CommandOutput(0, STATE.encode() if "show" in command else b"real", b"")


@pytest.mark.parametrize(
    "line",
    [
        "systemctl stop x",
        "systemctl",
        "systemctl daemon-reload",
        "busctl call a b",
        "find /run -delete",
        "find /run -exec rm {} +",
        "journalctl --rotate",
        "sh -c true",
        "somebody --unknown",
    ],
)
def test_a_command_that_is_not_known_to_read_counts_as_a_change(line):
    assert not is_read(line.split())


def test_a_recorded_host_runs_what_it_records():
    told = Told()
    host = RecordedHost(told)

    host.run(("cat", "/x"))
    host.run_as_root(("rm", "/x"))

    assert [(change.command, change.is_fenced) for change in host.changes] == [(("rm", "/x"), False)]
    assert told.ran == [("cat", "/x"), ("sudo", "-n", "--", "rm", "/x")]


def test_a_fenced_command_is_recorded_as_root_has_it():
    host = RecordedHost(Told())

    host.run(fence("/run/autotune/x.service", "token", host.as_root(("rm", "-f", "/x"))))

    assert [(change.command, change.is_fenced) for change in host.changes] == [(("rm", "-f", "/x"), True)]


def test_a_rehearsed_host_runs_no_change_and_reads_as_if():
    told = Told()
    host = RehearsedHost(told, UNIT)

    write_file(host.run_as_root, "/etc/x", b"new")
    assert read_file(host, "/etc/x") == b"new"

    remove_file(host.run_as_root, "/etc/x")
    assert read_file(host, "/etc/x") is None
    assert told.ran == []
    assert read_file(host, "/etc/y") == b"real"


def test_a_rehearsed_service_stands_as_it_was_told_to():
    host = RehearsedHost(Told(), UNIT)
    assert read_state(host, UNIT).invocation_id == "aa"

    host.run_as_root(("systemctl", "stop", "--", UNIT))
    stopped = read_state(host, UNIT)
    host.run_as_root(("systemctl", "start", "--no-block", "--", UNIT))
    started = read_state(host, UNIT)

    assert (stopped.active_state, stopped.main_pid, stopped.invocation_id) == ("inactive", None, "aa")
    assert (started.active_state, started.main_pid, started.restarts) == ("active", 7, 0)
    assert started.invocation_id not in {"aa", ""}
