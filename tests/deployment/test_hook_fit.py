"""In which services can drafts be logged, and what do they get in their environment?"""

from __future__ import annotations

import subprocess
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.deployment.hook_fit import (
    Sandbox,
    check_fit,
    find_environment_file,
    find_hook_folder,
    find_python_path,
    render_environment_file,
)
from autotune.deployment.systemd_unit import render_launch
from autotune.deployment.unit import ProcessFacts
from autotune.draft_hook import VARIABLES
from autotune.errors import UnitUnsupportedError
from autotune.servers.base import DraftLogPlace, LaunchSpec, load_hook
from tests.deployment.units import TUNED, make_unit

UNIT = make_unit("ExecStart=/opt/venv/bin/python -m sglang.launch_server")
FOLDER = find_hook_folder("x.service")
PLACE = DraftLogPlace(f"{FOLDER}/drafts.jsonl", FOLDER, "/opt/own", 1000)
ANYWHERE = Sandbox({})


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        ({}, None),
        ({"DynamicUser": "no", "ProtectSystem": "full", "ReadOnlyPaths": "", "RootDirectory": ""}, None),
        ({"ProtectSystem": "yes", "InaccessiblePaths": "/root -/home"}, None),
        ({"ProtectSystem": "strict", "ReadWritePaths": "/data"}, "ProtectSystem=strict"),
        ({"ProtectSystem": "strict", "ReadWritePaths": "/data -/run/autotune"}, None),
        ({"ReadOnlyPaths": "/ +/usr"}, "ReadOnlyPaths"),
        ({"ReadOnlyPaths": "/", "ReadWritePaths": "/run"}, None),
        ({"ReadOnlyPaths": "/run/autotune", "ReadWritePaths": "/run"}, "ReadOnlyPaths"),
        ({"ReadOnlyPaths": "/running"}, None),
        ({"InaccessiblePaths": "-/run"}, "does not see"),
        ({"TemporaryFileSystem": "/var:ro /run:ro,mode=755"}, "does not see"),
        ({"RootDirectory": "/srv/root"}, "another root"),
        ({"RootImage": "/srv/root.img"}, "another root"),
        ({"DynamicUser": "yes"}, "DynamicUser"),
    ],
)
def test_a_sandbox_says_whether_the_service_can_write_there(properties: dict[str, str], why: str | None):
    explained = Sandbox(properties).explain(FOLDER)

    assert (explained is None) == (why is None)
    assert why is None or why in (explained or "")


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("/usr/bin/python3 -m sglang.launch_server", None),
        ("/usr/bin/python3 -u -X faulthandler -m sglang.launch_server -I", None),
        ("/usr/bin/python3 -I -m sglang.launch_server", r"ignores PYTHONPATH \(-I\)"),
        ("/usr/bin/numactl -N 0 /usr/bin/python3.12 -uE -m sglang.launch_server", r"ignores PYTHONPATH \(-uE\)"),
        ("/usr/bin/numactl -N 0 /opt/server", None),
        ("/usr/sbin/runuser -u llm -- /opt/server", "runuser runs the server as another user"),
        ("/usr/bin/setpriv --reuid 1000 /opt/server", "setpriv runs the server as another user"),
    ],
)
def test_a_command_says_whether_the_hook_is_loaded_by_the_units_user(command: str, why: str | None):
    unit = make_unit(f"ExecStart={command}")
    if why is None:
        check_fit(unit, ANYWHERE)
        return
    with pytest.raises(UnitUnsupportedError, match=why):
        check_fit(unit, ANYWHERE)


def test_a_name_with_a_colon_cannot_be_on_a_path():
    with pytest.raises(UnitUnsupportedError, match="colon"):
        check_fit(replace(UNIT, name="llm:8.service"), ANYWHERE)


def process(environment: dict[str, str] | None) -> ProcessFacts:
    return ProcessFacts((), environment, 0.0, "")


def test_the_path_is_that_of_the_running_process():
    unit = replace(UNIT, environment={"PYTHONPATH": "/opt/file"}, unread_environment_files=("/etc/x",))

    assert find_python_path(unit, process({"PYTHONPATH": "/opt/real:/opt/b"})) == "/opt/real:/opt/b"
    assert find_python_path(unit, process({})) == ""
    assert find_python_path(unit, process({"PYTHONPATH": f"{FOLDER}:/opt/real"})) == "/opt/real"


@pytest.mark.parametrize("facts", [None, process(None)], ids=["none runs", "not to be read"])
def test_without_a_process_the_path_is_that_of_the_unit(facts: ProcessFacts | None):
    unit = replace(UNIT, environment={"PYTHONPATH": "/opt/file"})

    assert find_python_path(unit, facts) == "/opt/file"
    assert find_python_path(UNIT, facts) == ""
    assert find_python_path(replace(unit, unset_environment=("PYTHONPATH",)), facts) == ""
    for changes in ({"file_variables": {"PYTHONPATH": "/etc/env"}}, {"unread_environment_files": ("/etc/env",)}):
        with pytest.raises(UnitUnsupportedError, match="/etc/env may set it"):
            find_python_path(replace(unit, **changes), facts)


def test_the_hooks_variables_come_by_a_file_that_wins_over_the_units():
    unit = replace(
        UNIT,
        file_variables={"PYTHONPATH": "/etc/env"},
        environment_files=("/etc/env",),
        unset_environment=("PYTHONPATH", "LANG"),
    )
    usual = LaunchSpec((), {"TOPK": "4"}, ("--page-size", "64"))

    lines = render_launch(unit, load_hook(usual, PLACE, 4), TUNED, "ARGUMENTS")
    without = render_launch(unit, usual, TUNED, "ARGUMENTS")

    assert [line for line in lines if line not in without] == [
        "UnsetEnvironment=",
        "UnsetEnvironment=LANG",
        f"EnvironmentFile=-{find_environment_file('x.service')}",
    ]
    assert 'Environment="TOPK=4"' in lines
    assert not any("PYTHONPATH" in line or "AUTOTUNE_DRAFT" in line for line in lines)


def test_a_command_that_sets_the_path_itself_is_refused():
    unit = make_unit("ExecStart=/bin/bash -c 'export PYTHONPATH=/x; exec /opt/server'")

    with pytest.raises(UnitUnsupportedError, match="itself sets the variable PYTHONPATH"):
        render_launch(unit, load_hook(LaunchSpec((), {}), PLACE, 4), TUNED, "ARGUMENTS")


def test_a_launch_that_loads_the_hook_names_all_its_variables():
    launch = load_hook(LaunchSpec((), {"A": None}), PLACE, 4)

    assert set(launch.environment) == {"A", *VARIABLES}
    assert launch.environment["PYTHONPATH"] == f"{FOLDER}:/opt/own"
    assert load_hook(launch, PLACE, 4).loads_hook


@pytest.mark.parametrize("value", ["a\nb", "\x7f", "\t"])
def test_a_value_that_such_a_file_cannot_hold_is_refused(value: str):
    with pytest.raises(UnitUnsupportedError, match="its PYTHONPATH holds a control character"):
        render_environment_file({"PYTHONPATH": value}, "x.service")


@settings(max_examples=25, deadline=None)
@given(st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=30))
def test_the_quoting_is_that_of_a_shell(value: str):
    """systemd.exec(5): such a file is read as a POSIX shell would, without expanding anything."""
    script = render_environment_file({"A": value}, "x") + 'printf %s "$A"'

    assert subprocess.run(["sh", "-c", script], capture_output=True, check=True).stdout == value.encode()
