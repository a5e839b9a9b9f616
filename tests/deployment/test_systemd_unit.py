"""The drop-in of a trial, judged by systemd itself; names, kinds of launch and files that stand in the way."""

from __future__ import annotations

import json
import math
import re
import shlex
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autotune.deployment.shell_line import find_line
from autotune.deployment.systemd_unit import (
    TRIAL_DROP_IN,
    classify_launch,
    find_conflicts,
    find_script,
    list_drop_in_names,
    render_trial_drop_in,
    trial_drop_in_path,
    validate_unit_name,
)
from autotune.deployment.unit import LaunchKind, Unit, UnitFile
from autotune.errors import UnitUnsupportedError, UserError
from autotune.servers.base import LaunchSpec
from tests.deployment.units import TUNED, make_unit

VARIABLE = "AUTOTUNE_ARGUMENTS"
NASTY = [
    *("5 %", "%i", "%%", "$HOME", "${HOME}", "$$", '{"a": "b\'c", "p": "5%"}', "", "it's", '"', "\\", "a\\", "\\x41"),
    *("-5", "*", "~", "`id`", "$(id)", ";", "\\;", "#x", "; x", "a=b", "中 é", "@x", "!x", "{a,b}", "&& rm", ">x"),
]
ARGUMENTS = ("--page-size", "64", *(word for value in NASTY for word in ("--note", value)))
PRINT = "/usr/bin/env python3 -c 'import json, sys; print(json.dumps(sys.argv[1:]))'"


def render(unit: Unit, launch: LaunchSpec | None, **options) -> str:
    limits = {"stop_timeout_s": 900.0, "start_timeout_s": math.inf, "arguments_variable": VARIABLE, **options}
    return render_trial_drop_in(unit, launch, TUNED, **limits)


def launch(*arguments: str, **environment: str | None) -> LaunchSpec:
    return LaunchSpec((), environment, arguments)


def test_a_name_gets_its_suffix():
    names = ["sglang-ddtree", "a.b", "llm@8", "x\\x20y.service", "A:b_c"]

    assert [validate_unit_name(name) for name in names] == [
        *("sglang-ddtree.service", "a.b.service", "llm@8.service", "x\\x20y.service", "A:b_c.service")
    ]


@pytest.mark.parametrize(
    "name",
    [
        *("llm$(touch /tmp/x).service", "a/b", "a b", "a\n", "é", "٣", "", ".service", "..", "-x", "a;b", "a%i", "'a'"),
        *("a.socket", "a@.service", "@1", "x" * 300, "../x", "*"),
    ],
)
def test_a_name_that_systemd_has_no_service_for_is_refused(name):
    """Case 50."""
    with pytest.raises(UserError, match="is not the name of a service"):
        validate_unit_name(name)


@pytest.mark.parametrize(
    ("command", "kind", "script"),
    [
        ("/usr/bin/python3 -m sglang.launch_server", LaunchKind.DIRECT, "/usr/bin/python3"),
        ("/usr/bin/env A=1 python3 -m x", LaunchKind.DIRECT, None),
        ("numactl -N 0 -m 0 -- /v/python -m x", LaunchKind.DIRECT, "/v/python"),
        ("/usr/bin/uv run --python 3.11 sglang", LaunchKind.DIRECT, None),
        ("/usr/bin/conda run -n sg --no-capture-output python -m x", LaunchKind.DIRECT, None),
        ("/usr/bin/taskset -c 0-7 /usr/bin/chrt -f 50 /v/torchrun x", LaunchKind.DIRECT, "/v/torchrun"),
        ("/bin/bash -lc 'cd /x && exec python -m y'", LaunchKind.SHELL, None),
        ("/bin/bash -euo pipefail -c 'exec /v/python'", LaunchKind.SHELL, "/v/python"),
        ("/usr/bin/env bash --login -c 'python -m y' a b", LaunchKind.SHELL, None),
        ("/bin/bash -c 'docker pull x; exec python -m y'", LaunchKind.SHELL, None),
        ("/bin/bash -x /opt/start.sh", LaunchKind.DIRECT, "/opt/start.sh"),
        ("/usr/bin/docker run image", LaunchKind.CONTAINER, None),
        ("/usr/bin/sudo -u me podman run image", LaunchKind.CONTAINER, None),
        ("/usr/bin/docker-compose up", LaunchKind.CONTAINER, None),
        ("/bin/sh -c 'sleep 1; exec docker compose up'", LaunchKind.CONTAINER, None),
        ("/bin/sh -c 'apptainer run x'", LaunchKind.CONTAINER, None),
        ("/usr/bin/systemd-nspawn -D /x python", LaunchKind.CONTAINER, None),
        ("/usr/bin/python3 docker", LaunchKind.DIRECT, "/usr/bin/python3"),
    ],
)
def test_the_kind_of_launch(command, kind, script):
    argv = shlex.split(command)

    assert (classify_launch(argv), find_script(argv)) == (kind, script)


@pytest.mark.parametrize("command", ["/opt/start.sh", "nice /opt/start.sh", "/bin/bash -c 'exec /opt/start.sh'"])
@pytest.mark.parametrize(
    ("text", "is_script"), [("#!/bin/bash -e\n", True), ("#! /usr/bin/env sh\n", True), ("#!/usr/bin/python3\n", False)]
)
def test_a_script_of_a_shell_is_told_from_other_programs(command, text, is_script):
    kind = classify_launch(shlex.split(command), text)

    assert (kind is LaunchKind.SCRIPT) == is_script


@pytest.mark.parametrize(
    "command",
    [
        "/usr/bin/su - me -c 'exec x'",
        "/usr/bin/fish -c 'exec x'",
        "/usr/bin/flock /x -c x",
        "/bin/bash start.sh",
        "/bin/bash $SCRIPT",
        "/bin/bash -c 'exec ./start.sh'",
        "/usr/bin/env $X",
    ],
)
def test_a_launch_that_cannot_be_told_is_refused(command):
    with pytest.raises(UnitUnsupportedError):
        find_script(shlex.split(command))


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("/usr/bin/srv --page-size 1 --port 1", ["/usr/bin/srv", "--port", "1"]),
        ("-/usr/bin/srv --page-size=1 \"a b\" %%x '%n q' $$H", ["/usr/bin/srv", "a b", "%x", "x.service q", "$$H"]),
        ("@/usr/bin/srv zzz --port 1 --enable-x", ["zzz", "--port", "1"]),
        (":/usr/bin/srv --port $1 --page-size 1", ["/usr/bin/srv", "--port", "$1"]),
        ("+/usr/bin/srv a \\\n --page-size \\\n # why\n 16 \\\n b", ["/usr/bin/srv", "a", "b"]),
        ('!!/usr/bin/srv a\\x20b "c\\td" \\; ${P} $Q', ["/usr/bin/srv", "a b", "c\td", ";", "${P}", "$Q"]),
        ("srv --port 1", ["srv", "--port", "1"]),
        ("/usr/bin/numactl -N 0 -- srv '{\"a\": [1]}'", ["/usr/bin/numactl", "-N", "0", "--", "srv", '{"a": [1]}']),
    ],
)
def test_systemd_reads_a_direct_command_with_other_flags(ask_systemd, line, kept):
    """Cases 63 and 65: one command; what stays is as it was, what is new arrives as it was given."""
    unit = make_unit(f"ExecStart={line}\nEnvironment=KEPT=1 A=old")

    judged = ask_systemd(
        render(unit, launch(*ARGUMENTS, A="x y", P='p"q\\r %n $X', EMPTY="", GONE=None)), unit=unit.files[0].text
    )

    (command,) = judged.loaded_commands
    assert command[: len(kept)] == kept
    added = [word.replace("$$", "$") if unit.expands_variables else word for word in command[len(kept) :]]
    assert added == list(ARGUMENTS)
    assert sorted(judged.environment) == ["A=x y", "EMPTY=", "KEPT=1", 'P=p"q\\r %n $X']
    assert judged.unset == ["GONE"]


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("/bin/bash -lc 'cd / && exec SRV --page-size 1 --n \"%%x\" >>/dev/stderr 2>&1 >&3'", ["--n", "%x"]),
        ('/bin/dash -c "exec SRV \'--page-size\' 1 a\\\\b \\"q  r\\" \\t x" name one', ["ab", "q  r", "x"]),
        ("@/bin/bash mybash -c 'exec SRV --page-size 1 x'", ["x"]),
        (":/bin/sh -c 'exec SRV --page-size 1 $P'", ["p", "q"]),
        ("/usr/bin/env P=1 /bin/sh -c 'X=1; exec SRV --page-size $$X $$P'", ["1"]),
        ("/bin/bash -euo pipefail -c 'exec 2>/dev/null; exec SRV --enable-x \"$$P\"'", ["p q"]),
    ],
)
def test_a_real_shell_gets_the_other_flags_from_systemd(ask_systemd, line, kept):
    """Cases 50 and 65: every layer of quoting at once, judged by systemd and then by the shell itself."""
    unit = make_unit("ExecStart=" + line.replace("SRV", "srv"))

    judged = ask_systemd(render(unit, launch(*ARGUMENTS)), unit=unit.files[0].text)

    (command,) = judged.loaded_commands
    if line.startswith("@"):
        command[0] = "/bin/bash"
    index = find_line(command)
    assert index is not None
    words = [word.replace("$$", "$") if unit.expands_variables else word for word in command]
    words[index] = words[index].replace("exec srv", f"exec {PRINT}").replace(">>/dev/stderr 2>&1 >&3", "")
    done = subprocess.run(words, capture_output=True, check=True, text=True, env={"P": "p q", "PATH": "/usr/bin:/bin"})
    assert json.loads(done.stdout) == [*kept, *ARGUMENTS]


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    words=st.lists(
        st.text(st.characters(exclude_categories=("Cc", "Cs", "Cn", "Co", "Cf", "Zl", "Zp")), max_size=12),
        min_size=30,
        max_size=30,
    ),
    start=st.sampled_from(
        ["/usr/bin/srv", "@/usr/bin/srv x", ":/usr/bin/srv", "/bin/sh -c 'exec srv'", ":/bin/sh -c 'exec srv'"]
    ),
)
def test_any_printable_argument_arrives(ask_systemd, words, start):
    """Cases 50 and 65."""
    unit = make_unit(f"ExecStart={start}")

    (command,) = ask_systemd(render(unit, launch("--page-size", "1", *words)), unit=unit.files[0].text).loaded_commands

    found = [word.replace("$$", "$") if unit.expands_variables else word for word in command]
    if unit.launch_kind is LaunchKind.SHELL:
        found = shlex.split(found[-1])
    assert found[-len(words) :] == words


def test_a_boot_of_the_baseline_keeps_its_command(ask_systemd):
    unit = make_unit(
        "Restart=always\nRestartForceExitStatus=3\nRemainAfterExit=yes\nTimeoutSec=7\nExecStart=/bin/a $B x"
    )

    text = render(unit, None, header=["Ends in \\", "x\ny"])
    judged = ask_systemd(text, unit=unit.files[0].text)

    assert text == (
        "# Ends in \\ .\n# x\\ny\n[Service]\nRestart=no\nRestartForceExitStatus=\nRemainAfterExit=no\n"
        "TimeoutStartSec=infinity\nTimeoutStopSec=900s\n"
    )
    assert judged.loaded_commands == [["/bin/a", "$B", "x"]]
    expected = {"Restart": "no", "RemainAfterExit": "no", "TimeoutStartSec": "infinity", "TimeoutStopSec": "15min"}
    assert {key: judged.settings[key] for key in expected} == expected


def test_the_drop_in_of_an_earlier_export_is_overruled(ask_systemd):
    """Case 63: two commands before ours, in the unit and in a drop-in, and still one after."""
    unit = make_unit("ExecStart=/bin/b --page-size 2 --port 9")

    judged = ask_systemd(
        render(unit, launch("--page-size", "3", A="3")),
        unit="[Unit]\nDefaultDependencies=no\n[Service]\nExecStart=/bin/a\nRestart=always\n",
        others={
            "50-autotune.conf": "[Service]\nExecStart=\nExecStart=/bin/b --page-size 2 --port 9\nEnvironment=A=2\n"
        },
    )

    assert judged.commands == [["/bin/b", "--port", "9", "--page-size", "3"]]
    assert judged.environment == ["A=3"]
    assert judged.settings["Restart"] == "no"


def test_a_variable_that_the_unit_removes_can_be_set(ask_systemd):
    unit = make_unit("UnsetEnvironment=A B=1\nExecStart=/bin/a", unset_environment=("A", "B=1", "C"))

    judged = ask_systemd(render(unit, launch(A="1", D=None)), unit=unit.files[0].text)

    assert judged.environment == ["A=1"]
    assert judged.unset == ["B=1", "C", "D"]


@pytest.mark.parametrize("bad", ["a\nb", "\0", "a\rb", "\x1b", "\x85"])
@pytest.mark.parametrize("start", ["/bin/a", "/bin/sh -c 'exec a'"])
def test_control_characters_are_refused(start, bad):
    """Case 65."""
    unit = make_unit(f"ExecStart={start}")

    with pytest.raises(UserError, match=r"cannot be written|holds"):
        render(unit, launch("--note", bad))
    with pytest.raises(UserError, match="cannot be written"):
        render(unit, launch(A=bad))


@pytest.mark.parametrize(
    ("service", "changes", "message"),
    [
        ("ExecStart=/usr/bin/docker run x", {}, "container tool"),
        ("ExecStart=/usr/bin/sudo -u me srv", {}, "sudo keeps variables"),
        ("ExecStart=/usr/bin/env -i srv", {}, "env -i keeps variables"),
        ("ExecStart=/bin/bash -c 'exec sudo srv'", {}, "sudo keeps variables"),
        ("ExecStart=/bin/bash -c 'exec -c srv'", {}, "exec -c keeps variables"),
        ("ExecStart=/usr/bin/env A=1 srv", {}, "sets the variable A"),
        ("ExecStart=/bin/bash -c 'export A=1; exec srv'", {}, "sets the variable A"),
        ("ExecStart=/bin/bash -c 'A=1 exec srv'", {}, "sets the variable A"),
        ("ExecStart=/bin/srv", {"file_variables": {"A": "/etc/llm.env"}}, "/etc/llm.env sets A too"),
        ("ExecStart=/bin/srv", {"unread_environment_files": ("/etc/x*",)}, r"/etc/x\* sets cannot be read"),
        ("Environment='OPTS=--x 1 --page-size 4'\nExecStart=/bin/srv $OPTS", {}, "OPTS brings --page-size"),
        ("Environment=OPTS=--page-size=4\nExecStart=/bin/sh -c 'exec srv $$OPTS'", {}, "OPTS brings --page-size"),
        ("ExecStart=/bin/srv --port 1 --", {}, "behind which flags are plain words"),
        ("ExecStart=/bin/srv --port 1 -- --x", {}, "behind which flags are plain words"),
        ("ExecStart=/bin/bash -c '$LINE x'", {}, "value of a variable"),
        ("ExecStart=/bin/bash -c 'srv --port 1'", {}, "without exec"),
    ],
)
def test_what_would_not_reach_the_server_is_refused(service, changes, message):
    unit = make_unit(service, **changes)

    with pytest.raises(UnitUnsupportedError, match=message) as caught:
        render(unit, launch("--page-size", "64", A="1"))

    assert caught.value.hint


def test_flags_alone_reach_a_server_behind_sudo():
    unit = make_unit("ExecStart=/usr/bin/sudo -u me srv", file_variables={"A": "/etc/llm.env"})

    assert render(unit, launch("--page-size", "64")).endswith("\nExecStart=/usr/bin/sudo -u me srv --page-size 64\n")


def test_values_longer_than_a_process_can_be_given_are_refused():
    with pytest.raises(UnitUnsupportedError, match="longer than"):
        render(make_unit("ExecStart=/bin/a"), launch("--note", "x" * 131072))


def test_a_long_value_is_read_back(ask_systemd):
    unit = make_unit("ExecStart=/bin/a")

    judged = ask_systemd(render(unit, launch("--note", '"' * 100_000)), unit=unit.files[0].text)

    assert judged.commands == [["/bin/a", "--note", '"' * 100_000]]


def test_a_script_gets_its_flags_by_a_variable(ask_systemd):
    unit = make_unit("ExecStart=/opt/start.sh --x", script=f"#!/bin/sh\nexec srv --port 1 ${VARIABLE}\n")

    judged = ask_systemd(render(unit, launch("--page-size", "64", "--enable-x", A="1")), unit=unit.files[0].text)

    assert judged.commands == [["/opt/start.sh", "--x"]]
    assert judged.environment == ["A=1", f"{VARIABLE}=--page-size 64 --enable-x"]
    assert f'Environment="{VARIABLE}="' in render(unit, launch())


@pytest.mark.parametrize(
    ("service", "script", "argument", "message"),
    [
        ("/opt/start.sh", "#!/bin/sh\nexec srv $AUTOTUNE_ARGUMENTS\n", "a b", "cannot reach the server"),
        ("/opt/start.sh", "#!/bin/sh\nexec srv $AUTOTUNE_ARGUMENTS\n", "*", "cannot reach the server"),
        ("/opt/start.sh", "#!/bin/sh\nexec srv\n", "1", "is not expanded"),
        ("/opt/start.sh", "#!/bin/sh\nexport A=2\nexec srv $AUTOTUNE_ARGUMENTS\n", "1", "sets the variable A"),
        ("/opt/start.sh", "#!/bin/sh\nexec sudo srv $AUTOTUNE_ARGUMENTS\n", "1", "sudo keeps variables"),
        ("/usr/bin/sudo /opt/start.sh", "#!/bin/sh\nexec srv $AUTOTUNE_ARGUMENTS\n", "1", "sudo keeps variables"),
        ("/bin/sh -c '/opt/start.sh'", "#!/bin/sh\nexec srv $AUTOTUNE_ARGUMENTS\n", "1", "without exec"),
    ],
)
def test_a_script_that_would_not_hand_flags_on_is_refused(service, script, argument, message):
    unit = make_unit(f"ExecStart={service}", script=script)

    with pytest.raises(UnitUnsupportedError, match=message):
        render(unit, launch("--page-size", argument, A="1"))


def conflict(path: str, text: str, variables: tuple[str, ...] | None = None) -> tuple[str, ...]:
    base = UnitFile("/etc/systemd/system/x.service", "[Service]\nRestart=always\n", 0o644)
    unit = make_unit("ExecStart=/bin/a", files=(base, UnitFile(path, text, 0o644)))
    return find_conflicts(unit, TRIAL_DROP_IN, variables)


@pytest.mark.parametrize(
    "setting", ["ExecStart=", "Restart=always", "TimeoutStopSec=1", "TimeoutSec=1", "Environment=A=1"]
)
@pytest.mark.parametrize("name", ["zzzz.conf", "~last.conf", "zzz-b.conf", "é.conf"])
def test_a_later_drop_in_that_undoes_ours_is_found(ask_systemd, name, setting):
    (sentence,) = conflict(f"/etc/systemd/system/x.service.d/{name}", f"[Service]\n{setting}\n")

    assert sentence.startswith(f"/etc/systemd/system/x.service.d/{name} is read after our drop-in and sets ")
    judged = ask_systemd("[Service]\nNice=5\n", others={name: "[Service]\nNice=1\n"})
    assert judged.settings["Nice"] == "1"


@pytest.mark.parametrize("name", ["50-autotune.conf", "override.conf", "zz.conf", "zzz-a.conf", "ZZZZ.conf"])
def test_an_earlier_drop_in_is_none_of_our_business(ask_systemd, name):
    assert conflict(f"/etc/systemd/system/x.service.d/{name}", "[Service]\nRestart=always\n") == ()
    judged = ask_systemd("[Service]\nNice=5\n", others={name: "[Service]\nNice=1\n"})
    assert judged.settings["Nice"] == "5"


@pytest.mark.parametrize("text", ["[Service]\nNice=1\n", "[Unit]\nRestart=no\n", "[Service]\n# Restart=always\n", ""])
def test_a_later_drop_in_with_other_settings_is_no_conflict(text):
    assert conflict("/etc/systemd/system/x.service.d/zzzz.conf", text) == ()


@pytest.mark.parametrize(
    ("text", "variables", "is_conflict"),
    [
        ("Environment=B=1", ("A",), False),
        ("Environment='A=1 2'", ("A",), True),
        ("Environment=", ("A",), True),
        ("EnvironmentFile=/x", ("A",), True),
        ("EnvironmentFile=/x", (), False),
        ("UnsetEnvironment=A", ("A",), True),
        ("Environment=B=1", None, True),
    ],
)
def test_only_our_variables_are_in_conflict(text, variables, is_conflict):
    found = conflict("/etc/systemd/system/x.service.d/zzzz.conf", f"[Service]\n{text}\n", variables)

    assert bool(found) == is_conflict


@pytest.mark.parametrize(
    "folder",
    ["/etc/systemd/system/x.service.d", "/usr/lib/systemd/system/x.service.d", "/run/systemd/system/service.d"],
)
def test_another_file_of_our_name_is_found(folder):
    (sentence,) = conflict(f"{folder}/{TRIAL_DROP_IN}", "")

    assert re.search("has the name of our drop-in", sentence)


def test_our_own_drop_in_is_no_conflict():
    assert conflict(trial_drop_in_path("x.service"), "[Service]\nRestart=no\n") == ()
    assert trial_drop_in_path("x.service") == "/run/systemd/system/x.service.d/zzz-autotune-trial.conf"


def test_the_folders_of_drop_ins():
    assert list_drop_in_names("a.service") == ("a.service", "service")
    assert list_drop_in_names("a-b-c.service") == ("a-b-c.service", "a-b-.service", "a-.service", "service")
