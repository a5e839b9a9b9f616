"""What runs behind wrappers."""

from __future__ import annotations

import pytest

from autotune.deployment.wrapped_command import find_environment_wall, program_name, runs_container, skip_wrappers


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("srv a", "srv"),
        ("/usr/bin/env -u X -C /d A=1 B= srv", "srv"),
        ("-@/usr/bin/nice -n 5 srv", "srv"),
        ("nice -5 srv", "srv"),
        ("ionice -c2 -n 0 srv", "srv"),
        ("numactl --cpunodebind=0 --membind 0 srv", "srv"),
        ("taskset -c 0-7 srv", "srv"),
        ("taskset 0xff srv", "srv"),
        ("chrt -f 50 srv", "srv"),
        ("sudo -u me -E A=1 -- srv", "srv"),
        ("timeout -k 5 1h srv", "srv"),
        ("stdbuf -oL -e L srv", "srv"),
        ("uv run --python 3.11 --no-sync srv", "srv"),
        ("uv tool run srv", "uv"),
        ("conda run -n sg --no-capture-output srv", "srv"),
        ("runuser -u me -- srv", "srv"),
        ("tini -- srv", "srv"),
        ("exec -a name srv", "srv"),
        ("flock -n /l srv", "srv"),
        ("env nice numactl -N 0 srv", "srv"),
    ],
)
def test_the_program_behind_wrappers(command, program):
    words = command.split()

    assert program_name(words[skip_wrappers(words)]) == program


@pytest.mark.parametrize("command", ["", "env", "env A=1", "nice -n", "uv run", "taskset", "env --", "timeout"])
def test_wrappers_without_a_program(command):
    assert skip_wrappers(command.split()) == len(command.split())


@pytest.mark.parametrize(
    ("command", "is_container"),
    [
        ("docker run x", True),
        ("/usr/local/bin/podman start x", True),
        ("sudo nerdctl run x", True),
        ("singularity exec x y", True),
        ("kubectl exec x", True),
        ("systemd-nspawn -D /x", True),
        ("dockerize srv", False),
        ("srv docker", False),
        ("", False),
    ],
)
def test_container_tools_are_known(command, is_container):
    assert runs_container(command.split()) == is_container


@pytest.mark.parametrize(
    ("command", "wall"),
    [
        ("sudo -u me srv", "sudo"),
        ("sudo -E srv", None),
        ("env -i srv", "env -i"),
        ("env - srv", "env -"),
        ("nice sudo srv", "sudo"),
        ("srv -i sudo", None),
        ("env A=1 srv", None),
        ("exec -c srv", "exec -c"),
    ],
)
def test_what_keeps_variables_from_the_server(command, wall):
    assert find_environment_wall(command.split()) == wall
