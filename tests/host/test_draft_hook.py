"""The hook that logs drafts in a service of a real host: placed, used, fetched and gone, whatever happens meanwhile."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from autotune.deployment.hook_fit import find_hook_folder, render_environment_file
from autotune.deployment.host import Host
from autotune.deployment.placed_hook import read_sandbox
from autotune.deployment.ssh import SshHost
from autotune.errors import MeasurementError, RestoreError, SshError, UnitUnsupportedError
from autotune.replay.draft_log import LoggedAnswer, read_answers
from autotune.servers.base import DraftLogPlace, load_hook
from tests.host.container import Container
from tests.host.inside_host import InsideHost
from tests.host.lab import Lab
from tests.host.service import (
    OWN_SITE_LINE,
    SITE,
    UNIT,
    install_worker,
    is_serving,
    start_stand_in,
    wait_until_serving,
)
from tests.host.state import snapshot, wait_until_same
from tests.host.study_file import NAME, render_study, write_study
from tests.host.systemd_study import TRIAL, launch, open_systemd
from tests.host.test_restore import budget, kill, list_ours, picture, read_line, tuner
from tests.host.test_systemd_over_ssh import PUTS_ITSELF_BACK
from tests.host.tuner_process import Place, run_tuner

FOLDER = find_hook_folder(UNIT)
LOGGER = launch("--speculative-algorithm", "DDTREE", "--speculative-ddtree-budget", "17", topk="4")
ENVIRONMENT_FILE = "/etc/sglang.env"
ODD_PATH = f"""{SITE}:/opt/a "b" $c `d` %h \\ e'f # g"""
"""What the file sets; systemd has to read it back as it is, from this file and from that of the hook."""


def wait_until(is_so: Callable[[], bool], patience_s: float = 60) -> None:
    deadline = time.monotonic() + patience_s
    while not is_so():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)


def start(host: Container, *, extra: str = "", python_path: str | None = SITE) -> None:
    """Start a service whose server has a DDTree worker."""
    install_worker(host)
    host.put(
        ENVIRONMENT_FILE, "# of the site\n" + render_environment_file({"PYTHONPATH": ODD_PATH, "OTHER": "x"}, UNIT)
    )
    start_stand_in(host, environment={} if python_path is None else {"PYTHONPATH": python_path}, extra=extra)


def read(path: Path) -> tuple[LoggedAnswer, ...]:
    with path.open("rb") as lines:
        return read_answers(lines, str(path))


def log_drafts(
    host: Container, connected: Host, folder: Path, path: str
) -> tuple[DraftLogPlace, Path, dict[str, str], str]:
    """Boot with the hook, ask for something, boot without it, put the service back."""
    log = folder / "drafts.jsonl"
    with open_systemd(connected, folder) as opened:
        place = opened.find_draft_log(log)
        hooked = load_hook(LOGGER, place, 4)
        opened.stop()
        opened.start(hooked, folder / "boot.log")
        wait_until_serving(host)
        assert opened.verify(hooked) == ()
        assert opened.fetch_draft_log(log) == log.stat().st_size > 0
        assert is_serving(host)
        assert opened.fetch_draft_log(log) == len(host.shell(f"cat {place.log_path}"))
        environment = dict(opened.read_environment())
        rights = host.shell(f"stat -c '%U %a' {FOLDER} {place.log_path} {FOLDER}/environment")
        said = "\n".join(opened.read_log())
        opened.stop()
        opened.start(TRIAL, folder / "boot.log")
        wait_until_serving(host)
        assert host.shell(f"ls {FOLDER} 2>&1", check=False).endswith("No such file or directory\n")
        assert "AUTOTUNE_DRAFT_LOG" not in opened.read_environment()
        assert opened.read_environment()["PYTHONPATH"] == path
        opened.restore()
    wait_until_serving(host)
    assert OWN_SITE_LINE in said
    assert "steps aside" not in said
    return place, log, environment, rights


@pytest.mark.parametrize(
    ("user", "service_user", "extra", "python_path"),
    [
        pytest.param("root", "root", "", SITE, marks=pytest.mark.campaign),
        ("ubuntu", "ubuntu", f"User=ubuntu\nEnvironmentFile={ENVIRONMENT_FILE}\n", "/elsewhere"),
        pytest.param(
            *(
                "ubuntu",
                "nobody",
                f"User=nobody\nGroup=nogroup\nProtectSystem=full\nEnvironmentFile=-{ENVIRONMENT_FILE}\n",
            ),
            None,
            marks=pytest.mark.campaign,
        ),
    ],
    ids=["root", "of an EnvironmentFile", "another user"],
)
def test_a_service_logs_its_drafts_once_and_is_as_before(
    lab: Lab, host: Container, tmp_path: Path, user: str, service_user: str, extra: str, python_path: str | None
):
    host.shell("mkdir -p -m 777 /run/fake-gpu /run/stand-in-server")  # the stand-in's own files
    start(host, extra=extra, python_path=python_path)
    before = picture(host)
    connected = SshHost(host.alias(user), config=str(lab.ssh_config(host, is_forwarded=True)))
    path = ODD_PATH if "EnvironmentFile" in extra else SITE
    place, log, environment, rights = log_drafts(host, connected, tmp_path, path)

    assert place.log_path == f"{FOLDER}/drafts.jsonl"
    assert place.python_path == path
    assert environment["PYTHONPATH"] == f"{FOLDER}:{path}"
    assert rights.split("\n")[:3] == ["root 755", f"{service_user} 640", "root 600"]
    answers = read(log)
    assert len(answers) >= 2
    assert all(draft[1].shape == (15, 4) for answer in answers for draft in answer.drafts[None])
    assert picture(host) == before
    assert list_ours(host) == ""


@pytest.mark.parametrize(
    ("extra", "why"),
    [
        ("ProtectSystem=strict\n", "may not write below /run"),
        ("ReadOnlyPaths=/run\n", "ReadOnlyPaths=/run"),
        ("PrivateTmp=yes\nProtectSystem=strict\nReadWritePaths=/run\n", None),
    ],
)
def test_a_service_that_may_not_write_there_is_not_booted_for_it(
    host: Container, tmp_path: Path, extra: str, why: str | None
):
    host.shell("mkdir -p /run/fake-gpu /run/stand-in-server")
    host.put("/etc/systemd/system/sandboxed.service", f"[Service]\nExecStart=/bin/true\n{extra}")
    sandbox = read_sandbox(InsideHost(host), "sandboxed.service")
    properties = [word for line in extra.split() for word in ("-p", line)]
    try_it = f"mkdir -p {FOLDER}; exec systemd-run --quiet --wait {' '.join(properties)} touch {FOLDER}/drafts.jsonl"
    could = host.run(["sh", "-c", try_it], check=False).returncode == 0

    explained = sandbox.explain(FOLDER)
    assert (explained is None) == could == (why is None)
    assert why is None or why in (explained or "")


def test_a_service_whose_path_nobody_knows_is_left_alone(host: Container, tmp_path: Path):
    start(host, extra=f"EnvironmentFile={ENVIRONMENT_FILE}\n", python_path=None)
    host.shell(f"systemctl stop {UNIT}")
    before = picture(host)
    with (
        open_systemd(InsideHost(host), tmp_path) as opened,
        pytest.raises(UnitUnsupportedError, match=f"does not run, and {ENVIRONMENT_FILE} may set it"),
    ):
        opened.find_draft_log(tmp_path / "drafts.jsonl")

    assert picture(host) == before


def test_a_log_never_grows_beyond_its_limit_and_the_server_goes_on(host: Container, tmp_path: Path):
    start(host)
    log = tmp_path / "drafts.jsonl"
    with open_systemd(InsideHost(host), tmp_path) as opened:
        place = replace(opened.find_draft_log(log), limit_bytes=3000)
        opened.stop()
        opened.start(load_hook(LOGGER, place, 4), tmp_path / "boot.log")
        wait_until_serving(host)
        for _ in range(5):
            assert is_serving(host)
        said = "\n".join(opened.read_log())
        size = int(host.shell(f"stat -c %s {place.log_path}"))
        fetched = opened.fetch_draft_log(log)
        host.shell(f"head -c 100000 /dev/zero >>{place.log_path}")  # whatever the service writes there
        again = opened.fetch_draft_log(log)

    assert 0 < size == fetched <= again <= 3000
    assert said.count(f"autotune draft hook steps aside: {place.log_path} may not grow beyond 3000 bytes") == 1
    assert list_ours(host) == ""


@pytest.mark.campaign
def test_a_log_that_somebody_has_removed_fails_the_profile_and_not_the_host(host: Container, tmp_path: Path):
    start(host)
    with open_systemd(InsideHost(host), tmp_path) as opened:
        place = opened.find_draft_log(tmp_path / "drafts.jsonl")
        opened.stop()
        opened.start(load_hook(LOGGER, place, 4), tmp_path / "boot.log")
        wait_until_serving(host)
        host.shell(f"rm -r {FOLDER}")
        with pytest.raises(MeasurementError, match="No such file"):
            opened.fetch_draft_log(tmp_path / "drafts.jsonl")
        assert is_serving(host)

    assert list_ours(host) == ""


def test_a_host_whose_tuner_was_killed_in_a_profile_takes_the_hook_away(host: Container, tmp_path: Path):
    """Case 70 (b): nobody comes back."""
    start(host)
    before = picture(host)
    with tuner(host, tmp_path, lease_s=5, last="profile") as process:
        assert read_line(process) == "started\n"
        wait_until_serving(host)
        during = host.shell(f"ls {FOLDER}")
        kill(process)
        wait_until(lambda: budget(host) == "16")
    wait_until_serving(host)
    wait_until(lambda: not [line for line in list_ours(host).splitlines() if line.endswith("lease")])

    assert "drafts.jsonl" in during
    assert "draft-hook" not in list_ours(host)
    assert picture(host) == before


PLACING_COMMANDS = 7
"""Changing commands that name the hook's folder, until it is placed."""


@pytest.mark.parametrize(
    ("number", "is_by_host"),
    [
        pytest.param(
            number, is_by_host, marks=() if (number, is_by_host) in {(4, False), (7, True)} else pytest.mark.campaign
        )
        for number in range(1, PLACING_COMMANDS + 1)
        for is_by_host in (True, False)
    ],
)
def test_wherever_a_tuner_is_killed_while_it_places_the_hook_all_of_it_goes(
    host: Container, tmp_path: Path, number: int, is_by_host: bool
):
    start(host)
    before = picture(host)
    lease_s = 5 if is_by_host else 600
    with tuner(host, tmp_path, lease_s=lease_s, limit=f"hook:{number - 1}", last="profile") as process:
        process.wait(60)
        assert read_line(process) == ""
    left = list_ours(host)
    if is_by_host:
        wait_until(lambda: not [line for line in list_ours(host).splitlines() if line.endswith(("lease", "timer"))])
        assert "draft-hook" not in list_ours(host)
    with open_systemd(InsideHost(host), tmp_path) as opened:
        opened.restore()
    wait_until_serving(host)

    assert ("draft-hook/sitecustomize.py" in left) == (number > 3)
    assert "drafts.jsonl" not in left
    assert picture(host) == before
    assert list_ours(host) == ""


def test_a_cable_pulled_in_a_profile_leaves_the_rest_to_the_host(lab: Lab, host: Container, tmp_path: Path):
    start(host)
    before = picture(host)
    log = tmp_path / "drafts.jsonl"
    connected = SshHost(host.alias(), config=str(lab.ssh_config(host, is_forwarded=True)), keepalive_s=1)
    opened = open_systemd(connected, tmp_path, lease_s=6)
    opened.__enter__()
    place = opened.find_draft_log(log)
    opened.stop()
    opened.start(load_hook(LOGGER, place, 4), tmp_path / "boot.log")
    wait_until_serving(host)
    host.link(is_up=False)
    with pytest.raises(SshError):
        opened.fetch_draft_log(log)
    with pytest.raises(RestoreError, match=PUTS_ITSELF_BACK):
        opened.__exit__(None, None, None)
    wait_until(lambda: budget(host) == "16")
    wait_until(lambda: not [line for line in list_ours(host).splitlines() if line.endswith("lease")])
    assert "draft-hook" not in list_ours(host)
    host.link(is_up=True)
    with open_systemd(InsideHost(host), tmp_path) as opened:
        opened.restore()
    wait_until_serving(host)

    assert picture(host) == before
    assert list_ours(host) == ""


def test_a_host_that_lost_power_in_a_profile_comes_up_as_it_was(host: Container, tmp_path: Path):
    start(host)
    before = picture(host)
    with tuner(host, tmp_path, last="profile") as process:
        assert read_line(process) == "started\n"
        wait_until_serving(host)
        host.crash()
        kill(process)
    host.boot()
    wait_until_serving(host)
    assert list_ours(host) == ""
    with open_systemd(InsideHost(host), tmp_path) as opened:
        opened.restore()

    assert picture(host) == before
    assert list_ours(host) == ""


def run(lab: Lab, host: Container, folder: Path, *arguments: str) -> str:
    code, text = run_tuner(lab, host, folder, Place.USER, arguments, 240.0)
    assert code == 0, text
    return text


def test_a_night_learns_accept_lengths_from_a_service_behind_ssh(lab: Lab, host: Container, tmp_path: Path):
    start(host)
    write_study(tmp_path, render_study(lab, host, Place.USER, profile=True, tries=({"budget": 8, "topk": 4},)))
    before = snapshot(host)
    _, doctor = run_tuner(lab, host, tmp_path, Place.USER, ["doctor", f"{NAME}.toml"], 120.0)
    said = run(lab, host, tmp_path, "optimize", f"{NAME}.toml", "--plain", "--trials", "1")
    status = json.loads(run(lab, host, tmp_path, "status", NAME, "--json"))

    assert f"it would lie in {FOLDER}, before {SITE}, and log at most" in " ".join(doctor.split())
    assert re.search(r"drafts of \d+ answers replayed: \d+ trees accept \d\.\d\d to \d\.\d\d tokens a step", said)
    states = [(trial["kind"], trial["state"]) for trial in status["trials"]]
    assert states[:3] == [("baseline", "complete"), ("profile", "complete"), ("listed", "complete")]
    assert wait_until_same(host, before) == []
    assert not list(tmp_path.rglob("drafts.jsonl"))


def test_a_night_goes_on_without_where_the_hook_does_not_fit(lab: Lab, host: Container, tmp_path: Path):
    host.shell("mkdir -p /run/fake-gpu /run/stand-in-server")
    start(host, extra="ProtectSystem=strict\nReadWritePaths=/run/fake-gpu /run/stand-in-server\n")
    write_study(tmp_path, render_study(lab, host, Place.USER, profile=True, tries=({"budget": 8, "topk": 4},)))
    before = snapshot(host)
    _, doctor = run_tuner(lab, host, tmp_path, Place.USER, ["doctor", f"{NAME}.toml"], 120.0)
    said = run(lab, host, tmp_path, "optimize", f"{NAME}.toml", "--plain", "--trials", "1")

    assert "it would not fit: it may not write below /run (ProtectSystem=strict)" in " ".join(doctor.split())
    sentence = "no profile boot, so accept lengths are learned from trials alone: it may not write below /run"
    assert said.count(sentence) == 1
    assert wait_until_same(host, before) == []
