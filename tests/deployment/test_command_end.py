"""All processes of one command are ended, and no others."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from autotune.deployment import local_host
from autotune.deployment.command_end import MARK, describe_left, end_command
from autotune.deployment.local_host import LocalHost
from autotune.errors import RemoteTimeout
from tests.deployment.processes import wait_until

TREE = 'sleep 300 & setsid sleep 300 & (sleep 300 & sleep 300 & wait) & touch "$1"; wait; :'


def start_tree(folder: Path, token: str) -> subprocess.Popen[bytes]:
    ready = folder / f"ready-{token}"
    process = subprocess.Popen(["sh", "-c", f"shift; {TREE}", MARK + token, "x", str(ready)])
    wait_until(ready.exists)
    wait_until(lambda: len(tree(process.pid)) == 6)
    return process


def tree(root: int) -> list[int]:
    """The living processes below one, itself included."""
    found = [root]
    for pid in found:
        answer = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
        found += [int(word) for word in answer.stdout.split()]
    return found


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.mark.parametrize("by", ["token", "pid"])
def test_the_whole_tree_is_ended_and_no_other(tmp_path, by):
    mine, other = start_tree(tmp_path, "aaaa"), start_tree(tmp_path, "aaab")
    members, strangers = tree(mine.pid), tree(other.pid)
    command = end_command(token="aaaa") if by == "token" else end_command(pid=mine.pid)
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (ended.stdout, ended.stderr) == ("", "")
    assert [pid for pid in members if not is_gone(pid)] == []
    assert [pid for pid in strangers if is_gone(pid)] == []
    subprocess.run(end_command(pid=other.pid), check=True)
    mine.wait()
    other.wait()


def test_a_process_may_call_itself_anything(tmp_path):
    program = "import ctypes,time,sys,pathlib;ctypes.CDLL(None).prctl(15,b') R 1 (x',0,0,0);pathlib.Path(sys.argv[1]).touch();time.sleep(300)"
    ready = tmp_path / "ready"
    process = subprocess.Popen(["sh", "-c", '"$@"; :', MARK + "cccc", sys.executable, "-c", program, str(ready)])
    wait_until(ready.exists)
    members = tree(process.pid)
    assert len(members) == 2
    subprocess.run(end_command(token="cccc"), check=True, capture_output=True)
    process.wait()
    assert [pid for pid in members if not is_gone(pid)] == []


def test_a_child_that_its_parent_left_to_others_is_found_by_its_session(tmp_path):
    process = subprocess.Popen(
        ["sh", "-c", 'sh -c "sleep 300 & echo \\$! > $1"; sleep 300; :', "x", str(tmp_path / "pid")],
        start_new_session=True,
    )
    path = tmp_path / "pid"
    wait_until(lambda: path.exists() and path.read_text().endswith("\n"))
    orphan = int(path.read_text())
    wait_until(lambda: orphan not in tree(process.pid))
    subprocess.run(end_command(pid=process.pid), check=True, capture_output=True)
    process.wait()
    assert is_gone(orphan)


def test_a_command_that_has_ended_already_is_no_error():
    ended = subprocess.run(end_command(token="dddd"), capture_output=True, text=True, check=True)
    assert ended.stdout == ""
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert subprocess.run(end_command(pid=gone.pid), capture_output=True, text=True, check=True).stdout == ""


def test_each_process_that_is_left_is_printed_once_and_looking_stays_cheap(tmp_path):
    """Signals that change nothing stand for a process of somebody else."""
    process = start_tree(tmp_path, "eeee")
    members = tree(process.pid)
    shell, option, script, *rest = end_command(pid=process.pid)
    started = time.monotonic()
    ended = subprocess.run(
        (shell, option, f"kill() {{ :; }}; sudo() {{ :; }}\n{script}", *rest),
        capture_output=True,
        text=True,
        check=True,
    )
    assert sorted(map(int, ended.stdout.split())) == sorted(members)
    assert ended.stderr == ""
    assert time.monotonic() - started < 15
    subprocess.run(end_command(pid=process.pid), check=True)
    process.wait()


def test_a_host_that_cannot_be_looked_at_is_no_host_without_processes():
    process = subprocess.Popen(["sleep", "300"])
    shell, option, script, *rest = end_command(pid=process.pid)
    ended = subprocess.run((shell, option, f"awk() {{ return 1; }}\n{script}", *rest), capture_output=True, check=False)
    process.kill()
    process.wait()
    assert ended.returncode != 0


def test_nobody_waits_for_a_process_that_cannot_be_ended(monkeypatch, tmp_path):
    monkeypatch.setattr(local_host, "end_command", lambda *, pid: ("echo", str(pid)))
    monkeypatch.setattr(local_host, "_REAP_S", 0.1)
    started = time.monotonic()
    with pytest.raises(RemoteTimeout, match=r"process \d+, of another user perhaps, could not be ended"):
        LocalHost().run(["sh", "-c", 'echo $$ > "$1"; sleep 9; :', "x", str(tmp_path / "pid")], timeout_s=1)
    assert time.monotonic() - started < 7
    os.kill(int((tmp_path / "pid").read_text()), 9)
    wait_until(lambda: is_gone(int((tmp_path / "pid").read_text())))


def test_what_is_left_is_said_in_words():
    assert describe_left(0, "\n") == ""
    assert "process 12, 13, of" in describe_left(0, "12 13\n")
    assert "unknown" in describe_left(1, "")
