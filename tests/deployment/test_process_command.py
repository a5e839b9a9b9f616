"""Processes against the command of their unit."""

from __future__ import annotations

import pytest

from autotune.deployment.process_command import expand_variables, explain_other_command, explain_other_variables
from autotune.servers.base import LaunchSpec

ARGV = ("/opt/venv/bin/python", "-m", "sglang.launch_server", "--port", "30000", "$EXTRA", "--note=${NOTE}")
ENVIRONMENT = {"EXTRA": "--tp 8", "NOTE": "a b"}
COMMAND = ("/opt/venv/bin/python", "-m", "sglang.launch_server", "--port", "30000", "--tp", "8", "--note=a b")


@pytest.mark.parametrize(
    "command",
    [
        COMMAND,
        ("/usr/bin/python3", "/opt/venv/bin/python", *COMMAND[1:]),
        ("sglang::launch_server",),
    ],
)
def test_the_same_command_is_recognised(command):
    assert explain_other_command(ARGV, command, ENVIRONMENT, expands_variables=True) == ()


def test_other_flags_are_named():
    command = tuple(word.replace("30000", "30001") for word in COMMAND)

    assert explain_other_command(ARGV, command, ENVIRONMENT, expands_variables=True) == ("--port is 30001, not 30000",)
    assert explain_other_command(ARGV, (*COMMAND, "--tp", "4"), ENVIRONMENT, expands_variables=True) == (
        "--tp is 8 4, not 8",
    )


@pytest.mark.parametrize(
    "wrappers",
    [
        ("/usr/bin/env", "A=b"),
        ("/usr/bin/numactl", "--interleave=all"),
        ("/usr/bin/env", "taskset", "-c", "0,1", "nice", "-n", "1"),
        ("/usr/bin/uv", "run", "--project", "/srv"),
    ],
)
def test_a_wrapper_that_has_become_the_server_is_no_difference(wrappers):
    argv = (*wrappers, *ARGV)

    def explain(*command: str) -> tuple[str, ...]:
        return explain_other_command(argv, command, ENVIRONMENT, expands_variables=True)

    assert explain(*COMMAND) == ()
    assert explain(*wrappers, *COMMAND) == ()
    assert explain(*COMMAND[:4], "30001", *COMMAND[5:]) == ("--port is 30001, not 30000",)
    assert explain("/bin/other", "--x") != ()


def test_what_cannot_be_expanded_is_not_judged():
    assert explain_other_command(ARGV, ("x", "--y", "z"), None, expands_variables=True) == ()
    assert explain_other_command(ARGV[:5], ("x", "--y", "z"), None, expands_variables=True) != ()


def test_a_command_without_expansion_is_taken_literally():
    argv = ("/bin/x", "$A", "--b")

    assert explain_other_command(argv, ("/bin/x", "$A", "--b"), {"A": "1"}, expands_variables=False) == ()
    assert expand_variables(argv, {"A": "1 2"}) == ("/bin/x", "1", "2", "--b")


def test_variables_are_compared_without_showing_them():
    launch = LaunchSpec((), {"TOPK": "4", "KEY": "secret", "SIMULATE": None})

    assert explain_other_variables(launch, {"TOPK": "4", "KEY": "secret", "X": "1"}) == ()
    assert explain_other_variables(launch, {"TOPK": "5", "SIMULATE": "2"}) == (
        "the variable TOPK differs",
        "the variable KEY is not set",
        "the variable SIMULATE is set",
    )
    assert explain_other_variables(launch, None) == ("its environment cannot be read",)
    assert explain_other_variables(LaunchSpec((), {}), None) == ()
