"""Is the process that runs the one that was asked for?"""

from __future__ import annotations

import pytest

from autotune.deployment.running_command import (
    expected_command,
    find_command_differences,
    find_hidden_flags,
    tuned_part,
)
from autotune.servers.base import LaunchSpec
from tests.deployment.units import TUNED, make_unit

UNIT = make_unit("ExecStart=/usr/bin/env A=1 /v/python -m srv --page-size 1 --port 1")
LAUNCH = LaunchSpec((), {}, ("--page-size", "64", "--enable-x"))


def differences(command: str, launch: LaunchSpec | None = LAUNCH, unit=UNIT) -> tuple[str, ...]:
    return find_command_differences(unit, launch, TUNED, command.split())


@pytest.mark.parametrize(
    "command",
    [
        "/v/python -m srv --port 1 --page-size 64 --enable-x",
        "/usr/bin/env A=1 /v/python -m srv --port 1 --page-size 64 --enable-x",
        "/v/python /v/bin/srv --enable-x --port 1 --page-size=64",
        "/v/python -m srv --page-size 1 --page-size 64 --enable-x",
        "numactl -- srv --page-size 64 --enable-x",
    ],
)
def test_the_wanted_process_has_no_differences(command):
    assert differences(command) == ()


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("srv --page-size 1 --enable-x", "--page-size is 1, not 64"),
        ("srv --page-size 64 --page-size 1 --enable-x", "--page-size is 1, not 64"),
        ("srv --enable-x", "--page-size is missing, it should be 64"),
        ("srv --page-size 64", "--enable-x is missing"),
        ("srv --page-size --enable-x", "--page-size is without a value, not 64"),
        (
            "srv --page-size 64 --enable-x --speculative-ddtree-budget 8",
            "--speculative-ddtree-budget is left over with 8",
        ),
        ("srv --page-size 64 --enable-x --speculative-ddtree-bud 8", "--speculative-ddtree-bud is short for"),
        ("srv --page-size 64 --enable-x --speculative-ddtree-bud=8", "--speculative-ddtree-bud is short for"),
        ("srv -- --page-size 64 --enable-x", "flags stand behind a --"),
        ("sglang::server", "the process calls itself 'sglang::server' and shows no arguments"),
        ("", "the process shows no command"),
    ],
)
def test_a_difference_is_said_in_a_sentence(command, sentence):
    found = differences(command)

    assert len(found) == 1
    assert found[0].startswith(sentence)


def test_flags_with_similar_names_are_no_abbreviations():
    tuned = {"--cuda-graph-max-bs-decode": True, "--port-range": True}

    assert (
        find_command_differences(UNIT, LaunchSpec((), {}), tuned, ["srv", "--cuda-graph-max-bs", "4", "--port", "1"])
        == ()
    )


def test_the_baseline_runs_what_its_unit_says():
    assert differences("python -m srv --page-size 1 --port 1", None) == ()
    assert differences("python -m srv --page-size 64 --port 1", None) == ("--page-size is 64, not 1",)


@pytest.mark.parametrize("service", ["ExecStart=/bin/srv $OPTS", "ExecStart=/bin/sh -c 'exec srv $$OPTS'"])
def test_what_a_variable_brings_is_unknown(service):
    unit = make_unit(service)

    assert expected_command(unit, None, TUNED) is None
    assert find_command_differences(unit, None, TUNED, ["srv", "--page-size", "1"]) == ()
    assert find_hidden_flags(unit, TUNED, ["srv", "--page-size", "1"]) == ("--page-size",)


def test_flags_that_the_files_show_are_not_hidden():
    assert find_hidden_flags(UNIT, TUNED, ["srv", "--page-size", "1", "--port", "1"]) == ()


@pytest.mark.parametrize(
    ("service", "script", "words"),
    [
        ("ExecStart=/bin/srv --page-size 1 --port 1", None, "/bin/srv --port 1 --page-size 64 --enable-x"),
        (
            "ExecStart=/bin/sh -c 'cd /; exec srv --page-size 1 --port 1'",
            None,
            "srv --port 1 --page-size 64 --enable-x",
        ),
        ("ExecStart=/opt/start.sh", "#!/bin/sh\nexec srv $AUTOTUNE_ARGUMENTS\n", None),
    ],
)
def test_the_expected_command(service, script, words):
    unit = make_unit(service, script=script)

    assert expected_command(unit, LAUNCH, TUNED) == (None if words is None else tuple(words.split()))


def test_the_tuned_part_is_as_it_is_given():
    words = ["srv", "--page-size", "1", "a", "--enable-x", "b", "--speculative-algorithm=X", "--page-size", "-2"]

    assert tuned_part(words, TUNED) == (
        "--page-size",
        "1",
        "--enable-x",
        "--speculative-algorithm=X",
        "--page-size",
        "-2",
    )
