"""`autotune doctor` on a real host: everything in order, each thing broken by itself, and nothing changed by looking."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from autotune.deployment.lease import Lease
from autotune.deployment.ssh import SshHost
from autotune.deployment.sudo_rights import Right
from autotune.doctor.catalogue import CHECKS, Area
from autotune.doctor.diagnosis import Diagnosis, diagnose
from autotune.doctor.finding import Finding, Level
from autotune.doctor.rights import ask_sudo, find_tools, judge_rights
from autotune.settings import parse_settings
from autotune.tuner.limits import Limits
from tests.host.container import Container
from tests.host.inside_host import InsideHost
from tests.host.lab import Lab
from tests.host.service import (
    BASELINE,
    BLOCK,
    PORT,
    STAND_IN_COMMAND,
    UNIT,
    UNIT_PATH,
    render_unit,
    set_faults,
    start_service,
    start_stand_in,
)
from tests.host.state import snapshot, wait_until_same
from tests.host.study_file import render_study, write_study
from tests.host.tuner_process import Place, run_tuner

LONG_ANSWERS = 4096
"""Tokens of an answer: on a busy machine the way to the server takes a share of a shorter one that doctor refuses."""

DROP_IN = f"/run/systemd/system/{UNIT}.d/zzz-autotune-trial.conf"
ROOT_COMMANDS = ("cat", "install", "mv", "rm", "rmdir", "mkdir", "systemctl", "systemd-run", "journalctl")


def ask(
    lab: Lab,
    host: Container,
    folder: Path,
    place: Place = Place.ROOT,
    deployment: dict[str, object] | None = None,
    server: dict[str, object] | None = None,
) -> Diagnosis:
    """Ask from this process, through relays into the lab."""
    config = {"ssh_config": str(lab.ssh_config(host, is_forwarded=True))}
    text = render_study(
        lab, host, place, deployment={**config, **(deployment or {})}, server=server, output_tokens=LONG_ANSWERS
    )
    return diagnose(parse_settings(text, "night.toml"), folder / "studies" / "night", Limits(trials=4))


def find(diagnosis: Diagnosis, check: str) -> Finding:
    return next(finding for finding in diagnosis.findings if finding.check == check)


def list_problems(diagnosis: Diagnosis) -> dict[str, str]:
    return {
        finding.check: finding.judgement.found
        for finding in diagnosis.findings
        if finding.judgement.level is Level.PROBLEM
    }


@pytest.mark.parametrize("place", Place)
def test_a_host_in_order_is_ready_and_is_left_exactly_as_it_was(
    lab: Lab, host: Container, tmp_path: Path, place: Place
):
    start_stand_in(host)
    folder = Path("/root/night") if place is Place.ON_HOST else tmp_path
    is_there = host if place is Place.ON_HOST else None
    path = write_study(folder, render_study(lab, host, place, output_tokens=LONG_ANSWERS), is_there)
    host.ssh("true")  # the first login since the boot makes folders of its own
    before = snapshot(host)
    times = list_times(host)

    code, said = run_tuner(lab, host, folder, place, ["doctor", str(path), "--trials", "4"])

    assert (code, said.count("problem")) == (0, 0), said
    assert "\nReady: " in said
    for check in CHECKS:
        assert check in " ".join(said.split())
    after = snapshot(host)
    assert wait_until_same(host, before) == []
    assert (after.main_pid, after.invocation) == (before.main_pid, before.invocation)
    assert list_times(host) == times
    assert not (host.root / "root/night/studies" if is_there else tmp_path / "studies").exists()


def list_times(host: Container) -> str:
    """Return names, sizes and times of change of everything that a night would write to."""
    places = "/etc/systemd /etc/sudoers.d /run/systemd/system /run/autotune"
    return host.shell(f"find {places} -printf '%p %s %T@ %C@\\n' 2>/dev/null | sort", check=False)


def test_the_data_says_the_same_as_the_text(lab: Lab, host: Container, tmp_path: Path):
    start_stand_in(host)
    path = write_study(tmp_path, render_study(lab, host, Place.USER, output_tokens=LONG_ANSWERS))

    code, said = run_tuner(lab, host, tmp_path, Place.USER, ["doctor", str(path), "--json"])

    data = json.loads(said)
    assert (code, data["is_ready"], data["exit_code"]) == (0, True, 0)
    assert [finding["check"] for finding in data["findings"]] == list(CHECKS)
    assert data["expected"]["load_source"] == "of the server that runs now, by its journal"
    assert 0 < data["expected"]["load_s"] < 30


@dataclass(frozen=True)
class Broken:
    """One thing that is not in order.

    Attributes:
        make: breaks it, on a host whose service runs.
        check: that finds it.
        level: how bad it is.
        words: what the finding says, or its advice.
        exit_code: of the command.
    """

    make: Callable[[Container], object]
    check: str
    level: Level
    words: str
    exit_code: int


def drop_in(text: str) -> Callable[[Container], object]:
    """Return what gives the unit a drop-in of the administrator."""

    def make(host: Container) -> None:
        host.put(f"{UNIT_PATH}.d/20-more.conf", text)
        host.run(["systemctl", "daemon-reload"])

    return make


def leave_drop_in(host: Container) -> None:
    host.put(DROP_IN, "[Service]\nRestart=no\n")
    host.run(["systemctl", "daemon-reload"])


def put_foreign_drop_in(host: Container) -> None:
    host.put(f"{UNIT_PATH}.d/zzzz-mine.conf", "[Service]\nRestart=on-failure\n")
    host.run(["systemctl", "daemon-reload"])


def take_port(host: Container) -> None:
    """Let another program listen where the service is thought to."""
    host.run(["systemctl", "stop", UNIT])
    host.run(["systemd-run", "--unit=squatter", "/usr/bin/python3", "-m", "http.server", str(PORT)])
    host.wait_for_port(PORT)


def change_without_reload(host: Container) -> None:
    host.shell(f"sleep 0.01; echo '# changed' >> {UNIT_PATH}; touch -d '+1 hour' {UNIT_PATH}")


def put_clock_back(host: Container) -> None:
    """Let ``date`` answer as on a host whose clock is two minutes late."""
    host.put("/usr/local/bin/date", '#!/bin/sh\nexec /usr/bin/date --date="120 seconds ago" "$@"\n', 0o755)


def run_in_container(host: Container) -> None:
    host.put("/usr/local/bin/podman", "#!/bin/sh\nexec sleep 1000\n", 0o755)
    host.put(UNIT_PATH, render_unit(("/usr/local/bin/podman", "run", "--rm", "sglang", *BASELINE)))
    host.run(["systemctl", "daemon-reload"])


def loop(host: Container) -> None:
    """Case 5: active says nothing in a restart loop."""
    set_faults(host, {"fault": "crash"})
    drop_in("[Unit]\nStartLimitIntervalSec=0\n[Service]\nRestartSec=100\n")(host)
    host.run(["systemctl", "restart", UNIT])
    host.shell(f"until systemctl show -p SubState {UNIT} | grep -q auto-restart; do sleep 0.05; done")


def listen_elsewhere(host: Container) -> None:
    command = " ".join((*STAND_IN_COMMAND, *BASELINE, *BLOCK)).replace(str(PORT), "30001")
    drop_in(f"[Service]\nExecStart=\nExecStart={command}\n")(host)
    host.run(["systemctl", "restart", UNIT])


def mask_what_runs(host: Container) -> None:
    """A masked service may run all the same: it is the service, and nobody is told to end it."""
    host.shell(f"mv {UNIT_PATH} /usr/lib/systemd/system/ && ln -s /dev/null {UNIT_PATH} && systemctl daemon-reload")


def hold_gpu_memory(host: Container) -> None:
    host.run(["systemctl", "stop", UNIT])
    host.put("/usr/local/bin/nvidia-smi", "#!/bin/sh\necho 0, GPU-a, 71000\n", 0o755)


BROKEN = {
    "stale drop-in": Broken(leave_drop_in, "leftovers", Level.PROBLEM, "drop-in of a trial is there", 3),
    "foreign drop-in": Broken(put_foreign_drop_in, "drop-ins", Level.PROBLEM, "zzzz-mine.conf", 3),
    "port taken": Broken(take_port, "port", Level.PROBLEM, "squatter.service", 3),
    "other port": Broken(listen_elsewhere, "port", Level.PROBLEM, "write port = 30001 into", 3),
    "masked and running": Broken(mask_what_runs, "port", Level.OK, "the service listens at", 3),
    "not reloaded": Broken(change_without_reload, "files read", Level.PROBLEM, "daemon-reload", 3),
    "clock": Broken(put_clock_back, "clocks", Level.WARNING, "120.0 s behind", 0),
    "container": Broken(run_in_container, "launch", Level.PROBLEM, "container", 2),
    "restart loop": Broken(loop, "state", Level.PROBLEM, "restart loop", 3),
    "gone": Broken(lambda host: host.shell(f"systemctl disable --now {UNIT}; rm -r {UNIT_PATH}*; systemctl daemon-reload"), "unit", Level.PROBLEM, "there is no unit", 3),
    "stopped": Broken(lambda host: host.run(["systemctl", "stop", UNIT]), "state", Level.WARNING, "does not run", 0),
    "oneshot": Broken(drop_in("[Service]\nType=oneshot\nRestart=no\n"), "type", Level.PROBLEM, "Type=oneshot", 3),
    "edited by hand": Broken(drop_in("[Service]\nExecStart=\nExecStart=/usr/bin/python3 /usr/local/lib/sglang/launch_server.py --port 30000\n"), "running command", Level.WARNING, "what runs is not what the unit starts", 0),
    "GPU memory": Broken(hold_gpu_memory, "accelerators", Level.PROBLEM, "GPU 0 71000 MiB", 3),
}  # fmt: skip
"""What is broken -> how doctor says so."""


@pytest.mark.parametrize("name", BROKEN)
def test_a_thing_that_is_broken_is_found_and_decides_the_exit_code(
    lab: Lab, host: Container, tmp_path: Path, name: str, mended: None
):
    start_stand_in(host)
    broken = BROKEN[name]
    broken.make(host)

    diagnosis = ask(lab, host, tmp_path)

    finding = find(diagnosis, broken.check)
    said = f"{finding.judgement.found} -> {finding.judgement.advice}"
    assert (finding.judgement.level, broken.words in said) == (broken.level, True), said
    assert diagnosis.exit_code == broken.exit_code, list_problems(diagnosis)
    assert [finding.check for finding in diagnosis.findings] == list(CHECKS)
    assert not any("unexpected" in said for said in list_problems(diagnosis).values())


ODD = """\
[Unit]
OnFailure=alarm.service
[Service]
RuntimeMaxSec=1h
ExecStartPre=/bin/true
TimeoutStartSec=5
TimeoutStopSec=6
LogRateLimitIntervalSec=30
LogRateLimitBurst=100
"""

DANGEROUS = """\
[Unit]
FailureAction=reboot
[Service]
KillMode=process
StandardOutput=null
"""


@pytest.mark.parametrize(
    ("text", "level", "found", "exit_code"),
    [
        (
            ODD,
            Level.WARNING,
            {
                "other units": "OnFailure=alarm.service",
                "run time": "RuntimeMaxSec=1h",
                "start timeout": "TimeoutStartSec=5 s counts because of ExecStartPre",
                "stop timeout": "TimeoutStopSec=6 s is less than",
                "journal limits": "100 lines in 30 s (of the unit)",
            },
            0,
        ),
        (
            DANGEROUS,
            Level.PROBLEM,
            {"start limit": "FailureAction=reboot", "kill mode": "KillMode=process", "journal": "logs to null"},
            3,
        ),
    ],
    ids=["odd", "dangerous"],
)
def test_every_setting_of_a_unit_is_judged_by_itself(
    lab: Lab,
    host: Container,
    tmp_path: Path,
    text: str,
    level: Level,
    found: dict[str, str],
    exit_code: int,
    mended: None,
):
    start_stand_in(host)
    drop_in(text)(host)

    diagnosis = ask(lab, host, tmp_path)

    for check, words in found.items():
        judgement = find(diagnosis, check).judgement
        assert (judgement.level, words in judgement.found) == (level, True), judgement
    assert diagnosis.exit_code == exit_code, list_problems(diagnosis)


@pytest.fixture
def mended(host: Container) -> Iterator[None]:
    """Take away what would reboot the host when its service is ended."""
    yield
    host.shell(f"rm -f {UNIT_PATH}.d/20-more.conf; systemctl daemon-reload")


def test_each_command_that_sudo_does_not_run_is_named_with_the_line_that_allows_it(
    lab: Lab, host: Container, tmp_path: Path
):
    paths = {name: host.shell(f"command -v {name}").strip() for name in ROOT_COMMANDS}
    with SshHost(host.alias("ubuntu"), config=str(lab.ssh_config(host, is_forwarded=True))) as user:
        for missing in ROOT_COMMANDS:
            host.allow("ubuntu", [path for name, path in paths.items() if name != missing])

            judgement = judge_rights(ask_sudo(user, UNIT, find_tools(user)))

            assert judgement.found == f"sudo does not run: {missing} (refused)"
            assert judgement.advice is not None
            assert judgement.advice.endswith(f": ubuntu ALL=(root) NOPASSWD: {paths[missing]}")


def test_a_command_that_is_missing_does_not_hide_what_needs_others(lab: Lab, host: Container, tmp_path: Path):
    """Journal and kernel log need journalctl; everything else is seen all the same."""
    start_stand_in(host)
    host.allow("ubuntu", [f"/usr/bin/{name}" for name in ROOT_COMMANDS if name != "journalctl"])

    diagnosis = ask(lab, host, tmp_path, Place.USER)

    assert set(list_problems(diagnosis)) == {"sudo", "journal", "accelerator errors"}
    assert find(diagnosis, "flags").judgement.level is Level.OK
    assert diagnosis.expected is not None
    assert diagnosis.expected.load.source == "at most, by server.ready_timeout_s"
    assert diagnosis.exit_code == 3


def test_sudo_that_asks_for_a_password_is_told_from_sudo_that_refuses(lab: Lab, host: Container):
    """What sudo lists as allowed may still need a password; only the commands of the other rule run."""
    host.put("/etc/sudoers.d/ubuntu", "ubuntu ALL=(ALL) ALL\nubuntu ALL=(root) NOPASSWD: /usr/bin/cat\n", 0o440)
    with SshHost(host.alias("ubuntu"), config=str(lab.ssh_config(host, is_forwarded=True))) as user:
        rights = ask_sudo(user, UNIT, find_tools(user)).by_command

    assert rights == {name: Right.GIVEN if name == "cat" else Right.PASSWORD for name in ROOT_COMMANDS}


def test_a_tuner_at_work_is_named(lab: Lab, host: Container, tmp_path: Path):
    start_stand_in(host)
    lease = Lease(InsideHost(host), UNIT, lease_s=600, study="/studies/other")
    lease.acquire(b"unit=x\nwas_up=yes\nmade_folder=no\ndrop_in=/run/x.conf\ninvocations=\n")
    try:
        diagnosis = ask(lab, host, tmp_path, Place.USER)
    finally:
        lease.release()

    judgement = find(diagnosis, "leftovers").judgement
    assert judgement.level is Level.PROBLEM
    assert "another tuner works on sglang-ddtree.service" in judgement.found
    assert "study /studies/other" in judgement.found
    assert diagnosis.exit_code == 3
    of_server = {item.check: item for item in diagnosis.findings if CHECKS[item.check].area is Area.SERVER}
    del of_server["api key"]  # compares a variable with the unit's command, and asks the server nothing
    # A question to its server would spoil the figures.
    assert {item.judgement.level for item in of_server.values()} == {Level.SKIPPED}


def test_a_host_that_is_not_known_is_sent_nothing(lab: Lab, host: Container, tmp_path: Path):
    config = lab.ssh_config(host, is_forwarded=True).read_text()
    (tmp_path / "empty").touch()
    lines = [
        f"  UserKnownHostsFile {tmp_path}/empty" if "UserKnownHosts" in line else line for line in config.splitlines()
    ]
    other = tmp_path / "config"
    other.write_text("\n".join(lines) + "\n")

    diagnosis = ask(lab, host, tmp_path, deployment={"ssh_config": str(other)})

    assert find(diagnosis, "host key").judgement.level is Level.PROBLEM
    assert find(diagnosis, "login").judgement.found == "needs login"
    assert find(diagnosis, "sudo").judgement.found == "needs login"
    assert diagnosis.exit_code == 3


def test_a_user_who_is_not_let_in_is_told_so(lab: Lab, host: Container, tmp_path: Path):
    config = lab.ssh_config(host, is_forwarded=True).read_text()
    other = tmp_path / "config"
    other.write_text(config.replace(str(lab.key), str(tmp_path / "no_key")))

    diagnosis = ask(lab, host, tmp_path, deployment={"ssh_config": str(other)})

    assert find(diagnosis, "host key").judgement.level is Level.OK
    assert find(diagnosis, "login").judgement.level is Level.PROBLEM
    assert diagnosis.exit_code == 3


def test_a_host_that_does_not_answer_leaves_the_checks_of_the_study(lab: Lab, host: Container, tmp_path: Path):
    diagnosis = ask(lab, host, tmp_path, deployment={"host": "root@127.0.0.1", "ssh_config": str(closed(tmp_path))})

    assert find(diagnosis, "address").judgement.level is Level.PROBLEM
    assert find(diagnosis, "storage").judgement.level is Level.OK
    assert find(diagnosis, "unit").judgement.found == "needs login"
    assert diagnosis.exit_code == 3


def closed(folder: Path) -> Path:
    """Return an ssh configuration that leads to a port where nobody listens."""
    path = folder / "closed"
    path.write_text("Host *\n  Port 1\n  ConnectTimeout 2\n  BatchMode yes\n")
    return path


def test_a_baseline_that_is_another_one_is_the_file_s_fault(lab: Lab, host: Container, tmp_path: Path):
    words = ("--speculative-algorithm", "DDTREE", "--speculative-ddtree-budget", "32")
    start_service(host, render_unit((*STAND_IN_COMMAND, *words, *BLOCK)))

    diagnosis = ask(lab, host, tmp_path)

    assert "speculative_ddtree_budget is 32, asked for 16" in find(diagnosis, "flags").judgement.found
    assert diagnosis.exit_code == 2


def test_a_server_that_invents_its_accept_lengths_is_refused(lab: Lab, host: Container, tmp_path: Path):
    start_stand_in(host, environment={"SGLANG_SIMULATE_ACC_LEN": "4"})

    diagnosis = ask(lab, host, tmp_path, Place.USER)

    assert "SGLANG_SIMULATE_ACC_LEN" in find(diagnosis, "flags").judgement.found
    assert diagnosis.exit_code == 3
