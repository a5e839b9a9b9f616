"""What a real host says about its services and their processes."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from autotune.deployment.host import Host
from autotune.deployment.ssh import SshHost
from autotune.deployment.systemd_unit import find_conflicts, trial_drop_in_path
from autotune.deployment.unit import LaunchKind, ProcessFacts, UnitState
from autotune.deployment.unit_process import list_cgroup_pids, read_process
from autotune.deployment.unit_reader import read_state, read_unit
from autotune.errors import UnitStateError, UnitUnsupportedError
from tests.host.container import Container
from tests.host.inside_host import InsideHost

NAME = "llm@8.service"
BASE = "/etc/systemd/system/llm@8.service"
REAL = """\
[Unit]
Description=a server; ExecStart=/not/this

[Service]
Environment=A=1 "B=x y" 'C=q"q'
Environment=INSTANCE=%i
EnvironmentFile=-/etc/absent.env
EnvironmentFile=/etc/llm.env
UnsetEnvironment=ZED
ExecStartPre=/bin/true before
ExecStart=/bin/sleep \\
  # tuned by hand
  1000%i \\
  ; another comment
  "2000" $REST
TimeoutStopSec=infinity
# note \\
Environment=KEPT=1

[Install]
WantedBy=multi-user.target
"""


@pytest.fixture
def machine(host: Container) -> Host:
    return InsideHost(host)


def install(host: Container, service: str, name: str = "x.service", *, reload: bool = True) -> str:
    host.put(f"/etc/systemd/system/{name}", f"[Service]\n{service}\n")
    if reload:
        host.run(["systemctl", "daemon-reload"])
    return name


def see(machine: Host, pid: int | None) -> ProcessFacts:
    assert pid is not None
    facts = read_process(machine, pid)
    assert facts is not None
    return facts


def wait_for_state(machine: Host, name: str, holds: Callable[[UnitState], bool]) -> UnitState:
    deadline = time.monotonic() + 20
    while not holds(state := read_state(machine, name)):
        assert time.monotonic() < deadline, state
        time.sleep(0.05)
    return state


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_real_unit_is_read_as_systemd_has_loaded_it(host, machine, newline):
    """Cases 65 and 67: comments in continuations, repeated settings, quotes, specifiers, variables of files."""
    text = REAL.replace("\n", newline)
    host.put(BASE, text, 0o640)
    host.put("/etc/llm.env", "# secret=1\nTOKEN='a b'\n REST = 1 2\n", 0o600)
    host.put("/run/systemd/system/service.d/10-all.conf", "[Service]\nNice=1\n")
    host.put(f"{BASE}.d/20 two.conf", "[Service]\nRestart=on-failure\nEnvironment=A=2\n")
    host.run(["systemctl", "daemon-reload"])
    host.run(["systemctl", "enable", "--quiet", NAME])

    unit = read_unit(machine, "llm@8")

    assert unit.name == NAME
    assert [(file.path, file.mode) for file in unit.files] == [
        (BASE, 0o640),
        ("/run/systemd/system/service.d/10-all.conf", 0o644),
        (f"{BASE}.d/20 two.conf", 0o644),
    ]
    assert unit.files[0].text == text
    assert unit.argv == ("/bin/sleep", "10008", "2000", "$REST")
    assert [word.raw for word in unit.words] == ["/bin/sleep", "1000%i", '"2000"', "$REST"]
    assert unit.environment == {"A": "2", "B": "x y", "C": 'q"q', "INSTANCE": "8", "KEPT": "1"}
    assert unit.environment_files == ("/etc/absent.env", "/etc/llm.env")
    assert unit.file_variables == {"TOKEN": "/etc/llm.env", "REST": "/etc/llm.env"}
    assert unit.unset_environment == ("ZED",)
    assert unit.launch_kind is LaunchKind.DIRECT
    assert (unit.type, unit.restart, unit.kill_mode, unit.user) == ("simple", "on-failure", "control-group", "root")
    assert (unit.timeout_start_s, unit.timeout_stop_s) == (90.0, None)
    assert (unit.is_enabled, unit.needs_reload, unit.expands_variables) == (True, False, True)
    assert unit.hooks == (("ExecStartPre", ("/bin/true", "before")),)


KINDS = [
    ("ExecStart=@/bin/sleep zzz 100", LaunchKind.DIRECT, ["@/bin/sleep", "zzz", "100"]),
    ("ExecStart=-:+/bin/sleep 100 $$X", LaunchKind.DIRECT, ["-:+/bin/sleep", "100", "$$X"]),
    ("ExecStart=sleep 100", LaunchKind.DIRECT, ["sleep", "100"]),
    ("ExecStart=/bin/a ;\nExecStart=\nExecStart=/bin//a \\; 2", LaunchKind.DIRECT, ["/bin//a", "\\;", "2"]),
    ("ExecStart=/bin/bash -lc 'cd / && exec a'", LaunchKind.SHELL, ["/bin/bash", "-lc", "'cd / && exec a'"]),
    ("ExecStart=/usr/bin/env A=1 docker run", LaunchKind.CONTAINER, ["/usr/bin/env", "A=1", "docker", "run"]),
    ("ExecStart=/opt/start.sh --x", LaunchKind.SCRIPT, ["/opt/start.sh", "--x"]),
    ("ExecStart=/bin/bash /opt/plain", LaunchKind.SCRIPT, ["/bin/bash", "/opt/plain"]),
    ("ExecStart=/bin/sh -c 'exec /opt/start.sh'", LaunchKind.SCRIPT, ["/bin/sh", "-c", "'exec /opt/start.sh'"]),
    ("ExecStart=/opt/snake --x", LaunchKind.DIRECT, ["/opt/snake", "--x"]),
]


def test_the_kind_of_launch_is_found(host, machine):
    host.put("/opt/start.sh", "#!/bin/bash\nexec sleep $AUTOTUNE_ARGUMENTS\n", 0o700)
    host.put("/opt/plain", "exec sleep $AUTOTUNE_ARGUMENTS\n", 0o600)
    host.put("/opt/snake", "#!/usr/bin/python3\n", 0o755)

    units = [read_unit(machine, install(host, service)) for service, _, _ in KINDS]

    assert [(unit.launch_kind, [word.raw for word in unit.words]) for unit in units] == [
        (kind, words) for _, kind, words in KINDS
    ]
    assert [unit.script is not None for unit in units] == [kind is LaunchKind.SCRIPT for _, kind, _ in KINDS]
    assert [unit.expands_variables for unit in units] == [not text.startswith("ExecStart=-:") for text, _, _ in KINDS]


def test_a_unit_that_cannot_be_tuned_is_refused(host, machine):
    """Case 63: two commands among them."""
    for service, message in (
        ("Type=oneshot\nExecStart=/bin/true\nExecStart=/bin/false", "Type=oneshot"),
        ("Type=forking\nExecStart=/bin/true", "Type=forking"),
        ("ExecStart=/bin/a\nExecStart=/bin/b", "bad-setting"),
        ("Nice=1", "bad-setting"),
    ):
        with pytest.raises(UnitStateError, match=message):
            read_unit(machine, install(host, service))


def test_a_unit_that_is_not_there_is_named(machine):
    with pytest.raises(UnitStateError, match=r"no unit nope\.service"):
        read_unit(machine, "nope")
    with pytest.raises(UnitStateError, match=r"did you mean systemd-journald\.service"):
        read_unit(machine, "systemd-jurnald")
    with pytest.raises(UnitStateError, match=r"no unit nope\.service"):
        read_state(machine, "nope")


def test_a_masked_unit_is_refused(host, machine):
    host.run(["ln", "-s", "/dev/null", "/etc/systemd/system/x.service"])
    host.run(["systemctl", "daemon-reload"])

    with pytest.raises(UnitStateError, match="masked"):
        read_unit(machine, "x")


def test_a_unit_that_may_not_be_stopped_by_hand_is_refused_before_a_night(host, machine):
    host.put("/etc/systemd/system/x.service", "[Unit]\nRefuseManualStop=yes\n[Service]\nExecStart=/bin/sleep 100\n")
    host.run(["systemctl", "daemon-reload"])

    with pytest.raises(UnitStateError, match="RefuseManualStop is set"):
        read_unit(machine, "x")


def test_a_transient_unit_is_refused_because_a_stop_is_its_end(host, machine):
    host.run(["systemd-run", "--quiet", "--unit=x", "sleep", "100"])

    with pytest.raises(UnitUnsupportedError, match="transient"):
        read_unit(machine, "x")


def test_an_alias_is_refused_unless_it_is_asked_to_be_followed(host, machine):
    install(host, "ExecStart=/bin/sleep 100")
    host.run(["ln", "-s", "/etc/systemd/system/x.service", "/etc/systemd/system/y.service"])
    host.run(["systemctl", "daemon-reload"])

    with pytest.raises(UnitStateError, match=r"y\.service is only another name of x\.service"):
        read_unit(machine, "y")
    assert read_unit(machine, "y", follows_alias=True).name == "x.service"


@pytest.mark.parametrize(
    ("where", "folder"),
    [
        ("/etc/systemd/system", "x-y.service.d"),
        ("/run/systemd/system", "x-.service.d"),
        ("/usr/local/lib/systemd/system", "service.d"),
    ],
)
def test_a_drop_in_that_systemd_has_not_read_yet_is_refused(host, machine, where, folder):
    name = install(host, "ExecStart=/bin/sleep 1000", "x-y.service")
    host.run(["systemctl", "start", name])
    read_unit(machine, name)
    host.put(f"{where}/{folder}/a.conf", "[Service]\nNice=1\n")

    with pytest.raises(UnitStateError, match=r"a\.conf' was added.*daemon-reload"):
        read_unit(machine, name)

    host.run(["systemctl", "daemon-reload"])
    assert len(read_unit(machine, name).files) == 2
    host.run(["rm", "-r", f"{where}/{folder}"])


def test_a_drop_in_that_is_removed_while_it_is_read_is_named_as_a_change(host, machine, monkeypatch):
    path = "/etc/systemd/system/x.service.d/10-a.conf"
    host.put(path, "[Service]\nNice=1\n")
    install(host, "ExecStart=/bin/sleep 100")
    run = machine.run

    def run_late(command, **options):
        if command[0] == "stat":
            host.run(["rm", path])
        return run(command, **options)

    monkeypatch.setattr(machine, "run", run_late)
    with pytest.raises(UnitStateError, match=r"one of its files was removed"):
        read_unit(machine, "x")


def test_a_unit_that_was_changed_since_it_was_read_is_refused(host, machine):
    name = install(host, "ExecStart=/bin/sleep 1000")
    host.run(["systemctl", "start", name])
    read_unit(machine, name)
    install(host, "ExecStart=/bin/sleep 2000", reload=False)

    with pytest.raises(UnitStateError, match=r"were changed.*daemon-reload"):
        read_unit(machine, name)


def test_environment_files_with_wildcards_are_named(host, machine):
    unit = read_unit(machine, install(host, "EnvironmentFile=/etc/llm.d/*.env\nExecStart=/bin/sleep 1"))

    assert unit.unread_environment_files == ("/etc/llm.d/*.env",)


def test_a_file_of_our_name_in_etc_is_found_even_when_it_is_masked(host, machine):
    name = install(host, "ExecStart=/bin/sleep 1")
    host.run(["mkdir", f"/etc/systemd/system/{name}.d"])
    path = trial_drop_in_path(name).replace("/run", "/etc", 1)
    host.run(["ln", "-s", "/dev/null", path])
    host.put(f"/run/systemd/system/{name}.d/zzzz.conf", "[Service]\nRestart=always\n")
    host.run(["systemctl", "daemon-reload"])

    conflicts = find_conflicts(read_unit(machine, name), path.rpartition("/")[2])

    assert len(conflicts) == 2
    assert path in conflicts[0]
    assert "zzzz.conf is read after our drop-in and sets Restart=" in conflicts[1]


def test_a_running_service_its_process_and_its_control_group(host, machine):
    host.put("/opt/wait.py", "import time\ntime.sleep(1000)\n")
    line = 'sleep 999 & exec /usr/bin/python3 /opt/wait.py "a  b" "" 5'
    name = install(host, f"Environment='V=x y' E=\nExecStart=/bin/sh -c '{line}'")
    before = read_state(machine, name)
    host.run(["systemctl", "start", name])

    state = wait_for_state(machine, name, lambda state: state.main_pid is not None)

    assert (before.active_state, before.main_pid, before.exit_code, before.invocation_id) == (
        "inactive",
        None,
        None,
        "",
    )
    assert (state.active_state, state.sub_state, state.result, state.restarts) == ("active", "running", "success", 0)
    assert len(state.invocation_id) == 32
    assert state.control_group == f"/system.slice/{name}"
    assert state.main_pid in (pids := list_cgroup_pids(machine, state.control_group))
    assert len(pids) == 2
    deadline = time.monotonic() + 20
    while (facts := see(machine, state.main_pid)).command[0] == "/bin/sh":
        assert time.monotonic() < deadline, facts
    assert facts.command == ("/usr/bin/python3", "/opt/wait.py", "a  b", "", "5")
    assert facts.environment is not None
    assert facts.environment["V"] == "x y"
    assert facts.environment["E"] == ""
    assert facts.cgroup == state.control_group
    assert abs(time.time() - facts.started_at) < 60
    host.run(["systemctl", "stop", name])
    assert list_cgroup_pids(machine, state.control_group) == ()
    assert read_process(machine, state.main_pid) is None


def test_processes_of_groups_below_are_listed(host, machine):
    line = "mkdir $D/sub; sleep 999 & echo $! >$D/sub/cgroup.procs; exec sleep 1000".replace("$", "$$")
    name = install(
        host, f"Environment=D=/sys/fs/cgroup/system.slice/x.service\nDelegate=yes\nExecStart=/bin/sh -c '{line}'"
    )
    host.run(["systemctl", "start", name])
    deadline = time.monotonic() + 20
    while "sub" not in host.shell("cat /proc/*/cgroup 2>/dev/null || true"):
        assert time.monotonic() < deadline
        time.sleep(0.05)

    assert len(list_cgroup_pids(machine, f"/system.slice/{name}")) == 2


def test_a_user_with_sudo_reads_what_only_root_may(lab, host):
    host.put("/opt/start.sh", "#!/bin/sh\nexec sleep 1000 $AUTOTUNE_ARGUMENTS\n", 0o700)
    host.put("/etc/llm.env", "TOKEN=1\n", 0o600)
    host.put(
        "/etc/systemd/system/x.service", "[Service]\nEnvironmentFile=/etc/llm.env\nExecStart=/opt/start.sh\n", 0o600
    )
    host.run(["systemctl", "daemon-reload"])
    host.run(["systemctl", "start", "x"])

    with SshHost(host.alias("ubuntu"), config=str(lab.ssh_config(host, is_forwarded=True))) as machine:
        unit = read_unit(machine, "x")
        state = read_state(machine, "x")
        facts = see(machine, state.main_pid)
        pids = list_cgroup_pids(machine, state.control_group)
        host.allow("ubuntu", ["/usr/bin/systemctl"])
        forbidden = see(machine, state.main_pid)

    assert unit.script is not None
    assert (unit.launch_kind, unit.script.path, unit.files[0].mode) == (LaunchKind.SCRIPT, "/opt/start.sh", 0o600)
    assert unit.file_variables == {"TOKEN": "/etc/llm.env"}
    assert facts.environment is not None
    assert facts.environment["TOKEN"] == "1"
    assert pids == (state.main_pid,)
    assert (forbidden.command, forbidden.environment) == (("sleep", "1000"), None)


def test_the_root_group_is_never_listed(machine):
    assert list_cgroup_pids(machine, "") == ()
    assert list_cgroup_pids(machine, "/") == ()


def test_a_service_that_ended_says_how(host, machine):
    name = install(host, "ExecStart=/bin/sh -c 'exit 7'")
    host.run(["systemctl", "start", name])
    ended = wait_for_state(machine, name, lambda state: state.active_state == "failed")
    assert (ended.result, ended.exit_code, ended.main_pid, ended.is_up) == ("exit-code", 7, None, False)

    name = install(host, "ExecStart=/bin/sh -c 'kill -9 $$$$'", "y.service")
    host.run(["systemctl", "start", name])
    ended = wait_for_state(machine, name, lambda state: state.active_state == "failed")
    assert (ended.result, ended.exit_code) == ("signal", -9)


def test_a_crash_loop_counts_its_restarts(host, machine):
    name = install(host, "Restart=always\nRestartSec=10ms\nExecStart=/bin/false")
    host.run(["systemctl", "start", name])

    state = wait_for_state(machine, name, lambda state: state.result == "start-limit-hit" or state.restarts >= 5)

    assert state.restarts >= 4


def test_a_service_that_waits_for_its_next_start_is_up(host, machine):
    name = install(host, "Restart=always\nRestartSec=1h\nExecStart=/bin/false")
    host.run(["systemctl", "start", name])

    state = wait_for_state(machine, name, lambda state: state.sub_state == "auto-restart")

    assert (state.is_up, state.main_pid, state.exit_code) == (True, None, 1)


def test_a_file_that_reads_differently_here_is_refused(host, machine, monkeypatch):
    name = install(host, "ExecStart=/bin/sleep 1")
    monkeypatch.setattr("autotune.deployment.unit_reader.read_file", lambda *_: b"[Service]\nExecStart=/bin/sleep 2\n")

    with pytest.raises(UnitUnsupportedError, match="differently"):
        read_unit(machine, name)
