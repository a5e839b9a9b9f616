"""A study is written from a live service on a real host, changes nothing there, and runs as it is written."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from autotune.search_space import search_space_of
from autotune.settings import StudySettings, parse_settings
from tests.host.container import Container
from tests.host.lab import Lab
from tests.host.service import BASELINE, BLOCK, EMBEDDED_COMMAND, UNIT, render_unit, start_embedded, start_service
from tests.host.state import compare, snapshot

AUTOTUNE = (f"{sys.prefix}/bin/python", "-m", "autotune")
RUNS = {"budget": 16, "topk": 4, "window": "none"}


def init(
    lab: Lab, host: Container, user: str, *arguments: str, check: bool = True
) -> subprocess.CompletedProcess[bytes]:
    way = ("--host", host.alias(user), "--ssh-config", str(lab.ssh_config(host)))
    return lab.run([*AUTOTUNE, "init", *way, "--unit", UNIT, *arguments], check=check, timeout_s=150)


def read(output: subprocess.CompletedProcess[bytes]) -> StudySettings:
    return parse_settings(output.stdout.decode(), "init")


def stop(host: Container) -> None:
    host.run(["systemctl", "stop", UNIT])


def test_a_running_service_is_read_over_ssh_without_a_trace_and_its_study_passes_doctor(
    lab: Lab, host: Container, tmp_path: Path
):
    """As a user with sudo. Nothing is a problem for doctor: the baseline is what the server reports."""
    start_embedded(host)
    before = snapshot(host)

    written = init(lab, host, "ubuntu", "--name", "written")
    facts = json.loads(init(lab, host, "root", "--json").stdout)

    assert compare(before, snapshot(host)) == []
    settings = read(written)
    assert settings.baseline == RUNS
    assert settings.server.proofs == ("best-first-tree",)
    assert settings.server.ready_timeout_s >= 3 * facts["load_s"]
    assert settings.deployment.host == host.alias("ubuntu")
    assert facts["supported_by"] == "/server_info"
    assert [gpu["name"] for gpu in facts["gpus"]] == ["Stand-in GPU"] * 2
    assert facts["lengths"] is None  # only the warm-up was computed
    assert facts["unanswered"] == []
    study = tmp_path / "written.toml"
    study.write_bytes(written.stdout)
    diagnosed = lab.run([*AUTOTUNE, "doctor", "--json", str(study)], check=False, timeout_s=150)
    problems = {
        finding["check"]: finding["found"]
        for finding in json.loads(diagnosed.stdout)["findings"]
        if finding["level"] == "problem"
    }
    assert not problems.keys() - {"data path"}, problems  # the tunnel of a busy test machine may be slow


def test_a_stopped_service_is_asked_for_its_help_as_its_user(lab: Lab, host: Container):
    start_embedded(host, extra="User=ubuntu\n")
    stop(host)
    before = snapshot(host)

    written = init(lab, host, "root")

    assert compare(before, snapshot(host)) == []
    settings = read(written)
    assert settings.baseline == RUNS
    assert settings.server.proofs == ()
    assert search_space_of(settings).name == "ddtree"
    assert b"according to --help" in written.stderr
    assert b"the service is inactive" in written.stderr


def test_on_the_host_itself_a_line_of_a_shell_is_read_from_its_process(host: Container):
    line = f"exec {' '.join((*EMBEDDED_COMMAND, *BASELINE, *BLOCK, '--speculative-dflash-draft-window-size', '64'))}"
    start_service(host, render_unit(("/bin/bash", "-c", f"'{line}'")), timeout_s=120)

    written = host.run([*AUTOTUNE, "init", "--unit", UNIT], timeout_s=150)

    settings = read(written)
    assert settings.baseline == {**RUNS, "window": 64}
    assert settings.deployment.host is None
    assert settings.deployment.data_path == "on-host"


@pytest.mark.parametrize(
    ("unit", "code", "words"),
    [
        (render_unit(("/usr/bin/docker", "run", "sglang")), 2, "a container tool starts the server"),
        (render_unit(("/bin/sleep", "1000")), 2, "flags"),
    ],
)
def test_what_cannot_be_tuned_is_refused_and_nothing_is_printed(
    lab: Lab, host: Container, unit: str, code: int, words: str
):
    host.put(f"/etc/systemd/system/{UNIT}", unit)
    host.run(["systemctl", "daemon-reload"])

    refused = init(lab, host, "root", check=False)

    assert refused.returncode == code, refused.stderr
    assert words in refused.stderr.decode()
    assert refused.stdout == b""
