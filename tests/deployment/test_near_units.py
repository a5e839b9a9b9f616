from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from autotune.deployment.host import CommandOutput
from autotune.deployment.near_units import find_near
from autotune.deployment.unit_reader import read_state, read_unit
from autotune.doctor.service import show_unit
from autotune.errors import UnitStateError
from tests.deployment.scripted_host import ScriptedHost

LISTED = """autovt@.service           alias   -
cron.service              enabled enabled
sglang@.service           static  -
sglang-ddtree.service     enabled enabled
sglang-embeddings.service enabled enabled
ssh.service               enabled enabled
"""
ABSENT = {"LoadState": "not-found", "ActiveState": "inactive", "LoadError": ["org.x", "Unit x not found."]}


def answer(command: Sequence[str], _: bytes) -> CommandOutput:
    if "list-unit-files" in command:
        return CommandOutput(0, LISTED.encode(), b"")
    if command[0] == "busctl":
        names = command[command.index("org.freedesktop.systemd1.Unit") + 1 :]
        return CommandOutput(0, "\n".join(json.dumps({"data": ABSENT.get(name, "")}) for name in names).encode(), b"")
    names = [word.removeprefix("--property=") for word in command if word.startswith("--property=")]
    return CommandOutput(0, "\n".join(f"{name}={ABSENT.get(name, '')}" for name in names).encode(), b"")


@pytest.mark.parametrize("read", [read_unit, read_state, show_unit])
def test_a_service_that_is_not_there_is_said_once_with_its_near_names(read):
    with pytest.raises(UnitStateError) as caught:
        read(ScriptedHost(answer), "sglang")

    assert caught.value.message == (
        "there is no unit sglang.service, did you mean sglang-ddtree.service or sglang-embeddings.service?"
    )
    assert caught.value.hint == "`systemctl list-unit-files --type=service` lists the services of the host"


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("sglang-dtree.service", ("sglang-ddtree.service", "sglang-embeddings.service")),
        ("ddtree.service", ("sglang-ddtree.service",)),
        ("nginx.service", ()),
    ],
)
def test_near_names_are_misspelled_or_hold_what_was_asked_for(name: str, near: tuple[str, ...]):
    assert find_near(LISTED, name)[:2] == near


def test_a_host_that_lists_nothing_has_no_near_names():
    assert find_near("", "sglang.service") == ()
