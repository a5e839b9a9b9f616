"""What somebody is told to write into sudoers: the user and the paths of the machine, where it tells them."""

from __future__ import annotations

import getpass
import shutil
from collections.abc import Sequence

import pytest

from autotune.deployment.host import CommandOutput
from autotune.deployment.local_host import LocalHost
from autotune.errors import PermissionDenied
from tests.deployment.scripted_host import ScriptedHost

REFUSED = CommandOutput(1, b"", b"sudo: a password is required\n")


class PlainUser(ScriptedHost):
    """Somebody who is not root."""

    @property
    def user_id(self) -> int:
        return 1000


def refuse_as(who_and_where: CommandOutput) -> PlainUser:
    def answer(command: Sequence[str], _: bytes) -> CommandOutput:
        return REFUSED if command[0] == "sudo" else who_and_where

    return PlainUser(answer)


def hint_of(host: PlainUser) -> str:
    with pytest.raises(PermissionDenied) as caught:
        host.run_as_root(("install", "-m", "0644"))
    return str(caught.value.hint)


def test_the_rule_names_the_user_and_the_path_of_the_machine():
    hint = hint_of(refuse_as(CommandOutput(0, b"ann\n/opt/bin/install\n", b"")))

    assert hint == "allow it: a line `ann ALL=(root) NOPASSWD: /opt/bin/install` made with visudo, or connect as root"


@pytest.mark.parametrize(
    ("answer", "rule"),
    [
        (CommandOutput(127, b"", b"no sh"), "USER ALL=(root) NOPASSWD: /usr/bin/install"),
        (CommandOutput(0, b"ann\n", b""), "ann ALL=(root) NOPASSWD: /usr/bin/install"),
        (CommandOutput(0, b"", b""), "USER ALL=(root) NOPASSWD: /usr/bin/install"),
    ],
)
def test_what_the_machine_does_not_tell_has_a_stand_in(answer: CommandOutput, rule: str):
    assert rule in hint_of(refuse_as(answer))


def test_this_machine_tells_who_and_where():
    rule = LocalHost().find_sudo_rule(("install", "no-such-program", "/opt/x"))

    path = shutil.which("install", path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    assert rule == f"{getpass.getuser()} ALL=(root) NOPASSWD: {path}, /usr/bin/no-such-program, /opt/x"
