"""What a lease says about its holder."""

from __future__ import annotations

import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from autotune.deployment import lease, lease_holder
from autotune.deployment.lease import fence, find_folder
from autotune.deployment.lease_holder import LeaseHolder, find_timer, parse_holder, render_holder
from autotune.deployment.process import Identity, identify


def holder_of_this_process() -> LeaseHolder:
    return parse_holder(render_holder("t0ken", "x.service", "/studies/a", 600, "autotune-x-t0ken.timer"))


def test_a_lease_names_its_holder():
    holder = holder_of_this_process()

    assert (holder.token, holder.unit, holder.study, holder.timer) == (
        "t0ken",
        "x.service",
        "/studies/a",
        "autotune-x-t0ken.timer",
    )
    assert f"process {holder.process.pid}" in holder.holder
    assert not holder.is_gone


def test_timers_of_long_units_have_names_that_systemd_takes_and_that_differ():
    names = [find_timer(f"llm-{'b' * 240}{letter}.service", "0123456789") for letter in "ab"]

    assert len(set(names)) == 2
    assert all(len(name.replace(".timer", ".service")) <= 255 for name in names)


def test_the_token_is_the_first_line():
    assert render_holder("t0ken", "x.service", "/a\nb", 600, "t").startswith(b"token=t0ken\n")
    assert parse_holder(render_holder("t", "x.service", "/a\ntoken=evil", 600, "t")).token == "t"


def test_a_dead_process_of_this_machine_is_gone():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        identity = identify(process.pid)
        assert identity is not None
        living = replace(holder_of_this_process(), process=identity)
        was_gone = living.is_gone
    assert not was_gone
    assert living.is_gone


@pytest.mark.parametrize(
    ("position", "is_gone"),
    [(0, False), (1, True), (2, False)],
    ids=["of another machine", "of an earlier start of this machine", "of another namespace"],
)
def test_a_process_that_cannot_be_seen_is_gone_only_if_its_machine_was_started_anew(position: int, is_gone: bool):
    holder = holder_of_this_process()
    if not holder.place[0]:
        pytest.skip("this machine has no id")
    place = [*holder.place]
    place[position] = "other"

    seen = replace(holder, process=Identity(1, 1), place=(place[0], place[1], place[2]))

    assert seen.is_gone == is_gone


def test_a_clone_of_the_machine_of_the_holder_does_not_take_it_for_gone(monkeypatch: pytest.MonkeyPatch):
    """Both have the machine id of their image, and each its own start, as one machine has before and after a reboot."""
    holder = holder_of_this_process()
    if not holder.place[0]:
        pytest.skip("this machine has no id")
    monkeypatch.setattr(lease_holder, "read_machine", lambda: "the start of the clone")
    seen_after_a_reboot = holder.is_gone
    monkeypatch.setattr(socket, "gethostname", lambda: "clone-2")

    assert seen_after_a_reboot
    assert not holder.is_gone


def test_a_damaged_lease_still_names_whom_it_can():
    holder = parse_holder(b"holder=me@there\npid=x\n\xff=\n")

    assert (holder.token, holder.holder, holder.is_gone) == ("", "me@there", False)


def test_names_survive_what_systemd_does_to_transient_units():
    assert find_folder(r"a\x2db.service") == "/run/autotune/a_x2db.service"
    assert find_timer(r"a\x2db@1.service", "0123456789") == "autotune-a_x2db:1-01234567.timer"


@pytest.mark.parametrize(
    ("content", "expected", "code"),
    [
        ("token=mine\nx=1\n", "mine", 0),
        ("token=other\n", "mine", 75),
        ("token=host-mine\n", "mine", 75),
        (None, "mine", 75),
        (None, "", 0),
        ("token=other\n", "", 75),
        ("", "mine", 75),
    ],
)
def test_the_fence_lets_only_the_holder_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None, expected: str, code: int
):
    monkeypatch.setattr(lease, "RUN_FOLDER", str(tmp_path))
    folder = tmp_path / "x.service"
    folder.mkdir()
    if content is not None:
        (folder / "lease").write_text(content)

    done = subprocess.run(fence(str(folder), expected, ["touch", str(tmp_path / "changed")]), check=False)

    assert done.returncode == code
    assert (tmp_path / "changed").exists() == (code == 0)


def test_the_hosts_restore_is_plain_shell():
    assert subprocess.run(["sh", "-n", str(lease.RESTORE_SCRIPT)], check=False).returncode == 0
