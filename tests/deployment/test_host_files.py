"""Files on a host, with few commands, in one step, and as root only where that is needed."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

import pytest

from autotune.deployment.host import CommandOutput, Host
from autotune.deployment.host_files import make_folder, read_file, remove_file, write_file
from autotune.errors import HostError, PermissionDenied

ALLOWED_BY_SUDO = {"cat", "install", "mv", "rm", "rmdir", "mkdir"}


class ScriptedHost(Host):
    """Answers commands from a list, and remembers them."""

    name = "gpu1"

    def __init__(self, *answers: CommandOutput, user_id: int = 1000) -> None:
        self.answers = list(answers)
        self.commands: list[tuple[str, ...]] = []
        self.inputs: list[bytes] = []
        self._user_id = user_id

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    @property
    def user_id(self) -> int:
        return self._user_id

    def run(
        self, command: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 30.0, is_idempotent: bool = False
    ) -> CommandOutput:
        assert is_idempotent
        assert timeout_s == 30
        self.commands.append(tuple(command))
        self.inputs.append(stdin)
        return self.answers.pop(0)


OK = CommandOutput(0, b"", b"")
MISSING = CommandOutput(1, b"", b"cat: /a b: No such file or directory\n")
REFUSED = CommandOutput(1, b"", b"cat: /a b: Permission denied\n")


def test_a_readable_file_is_read_without_root():
    host = ScriptedHost(CommandOutput(0, b"\0bytes\n", b""))
    assert read_file(host, "/a b") == b"\0bytes\n"
    assert host.commands == [("cat", "--", "/a b")]


def test_a_file_that_is_not_there_is_none():
    assert read_file(ScriptedHost(MISSING), "/a b") is None


def test_a_file_of_root_is_read_through_sudo():
    host = ScriptedHost(REFUSED, CommandOutput(0, b"secret", b""))
    assert read_file(host, "/a b") == b"secret"
    assert host.commands[1] == ("sudo", "-n", "--", "cat", "--", "/a b")


def test_a_file_below_a_folder_of_root_may_be_missing_too():
    assert read_file(ScriptedHost(REFUSED, MISSING), "/a b") is None


def test_sudo_that_refuses_is_no_missing_file():
    rule = CommandOutput(0, b"ann\n/bin/cat\n", b"")
    host = ScriptedHost(REFUSED, CommandOutput(1, b"", b"sudo: a password is required\n"), rule)
    with pytest.raises(PermissionDenied, match="cat") as caught:
        read_file(host, "/a b")
    assert "`ann ALL=(root) NOPASSWD: /bin/cat`" in str(caught.value.hint)


def test_a_file_longer_than_what_is_kept_is_not_half_read():
    with pytest.raises(HostError, match="too long"):
        read_file(ScriptedHost(CommandOutput(0, b"x", b"", is_truncated=True)), "/a b")


def test_a_folder_is_no_file():
    answer = CommandOutput(1, b"", b"cat: /etc: Is a directory\n")
    with pytest.raises(HostError, match="gpu1: cannot read /etc: cat: /etc: Is a directory"):
        read_file(ScriptedHost(answer, answer), "/etc")


def test_the_bytes_travel_over_standard_input_and_the_file_changes_in_one_step():
    host = ScriptedHost(OK, OK)
    write_file(host.run_as_root, "/run/x y.conf", b"\0content", 0o640)
    assert host.inputs == [b"\0content", b""]
    assert host.commands == [
        ("sudo", "-n", "--", "install", "-m", "0640", "--", "/dev/stdin", "/run/x y.conf.new"),
        ("sudo", "-n", "--", "mv", "-f", "-T", "--", "/run/x y.conf.new", "/run/x y.conf"),
    ]


def test_a_failed_write_leaves_the_old_file_and_says_why():
    host = ScriptedHost(CommandOutput(1, b"", b"install: cannot create: No space left on device\n"), user_id=0)
    with pytest.raises(HostError, match=r"cannot write /x: install .* No space left on device"):
        write_file(host.run_as_root, "/x", b"y")
    assert len(host.commands) == 1


def test_everything_is_done_with_commands_that_sudo_can_allow_one_by_one():
    host = ScriptedHost(*[OK] * 10, user_id=0)
    write_file(host.run_as_root, "/x", b"y")
    remove_file(host.run_as_root, "/x")
    make_folder(host.run_as_root, "/x")
    assert {command[0] for command in host.commands} <= ALLOWED_BY_SUDO
