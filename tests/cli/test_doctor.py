"""`autotune doctor` for a study that starts its own server: text, data, exit codes, and nothing changed."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from autotune.cli.doctor import render_lines, render_verdict
from autotune.doctor.catalogue import CHECKS
from autotune.doctor.diagnosis import Diagnosis
from autotune.doctor.finding import Finding, Level, ok, problem, skipped, warning
from autotune.doctor.night import Estimate, Expectation
from autotune.errors import SettingsError
from tests.cli.conftest import run_command
from tests.records import make_settings

STUDY = """
name = "mine"
search_space = "ddtree"
[server]
port = {port}
[baseline]
budget = 16
topk = 4
[benchmark]
[[benchmark.stages]]
name = "all"
cells = [{{ context = 512, concurrency = 32 }}, {{ context = 512, concurrency = 1 }}]
[evaluation]
enabled = false
"""


@contextlib.contextmanager
def listening() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def study(tmp_path, monkeypatch) -> Path:
    """Write a study whose port is free into an empty working folder."""
    with listening() as port:
        pass
    path: Path = tmp_path / "mine.toml"
    path.write_text(STUDY.format(port=port))
    monkeypatch.chdir(tmp_path)
    return path


def test_a_study_in_order_is_ready_and_no_file_is_made(study):
    result = run_command("doctor", study)

    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-1].startswith("Ready: ")
    assert [path.name for path in study.parent.iterdir()] == ["mine.toml"]


def test_the_data_has_every_check_once_and_says_what_is_expected(study):
    result = run_command("doctor", study, "--trials", "4", "--json")

    data = json.loads(result.stdout)
    assert [finding["check"] for finding in data["findings"]] == list(CHECKS)
    assert (data["study"], data["is_ready"], data["exit_code"], result.exit_code) == ("mine", True, 0, 0)
    assert data["expected"]["trials"] == 4
    assert "server.ready_timeout_s" in data["expected"]["load_source"]
    assert data["expected"]["latest_start"] is None
    assert {finding["level"] for finding in data["findings"]} <= {level.value for level in Level}


def test_a_port_that_somebody_else_has_ends_with_the_code_of_the_machine(study):
    with listening() as port:
        study.write_text(STUDY.format(port=port))

        result = run_command("doctor", study)

    assert result.exit_code == 3
    assert "listens there and is left alone" in " ".join(result.stdout.split())
    assert result.stdout.splitlines()[-1].startswith("Not ready: 1 problem (port)")


def test_a_baseline_outside_the_space_ends_with_the_code_of_the_file(study):
    study.write_text(study.read_text().replace("budget = 16", "budget = 160"))

    result = run_command("doctor", study)

    assert result.exit_code == 2
    assert "problem  listed" in result.stdout
    assert "ok       storage" in result.stdout
    assert "problem  port" in result.stdout  # it cannot be told who the baseline is


def test_a_file_that_cannot_be_read_ends_as_every_command_does(study):
    study.write_text("name = 1")

    result = run_command("doctor", study)

    assert isinstance(result.exception, SettingsError) or result.exit_code == 2


def test_until_says_the_latest_start(study):
    result = run_command("doctor", study, "--until", (datetime.now() + timedelta(hours=20)).strftime("%H:%M"))  # noqa: DTZ005

    assert "for one trial start by" in " ".join(result.stdout.split())


def render(*findings: Finding, end: datetime | None = None) -> list[str]:
    expected = Expectation(Estimate(1, "x"), Estimate(1, "y"), 0, 4, None, 10.0, end, None)
    return list(render_lines(make_settings(), Diagnosis(findings, expected)))


def test_a_warning_is_followed_by_what_to_do():
    lines = render(Finding("sandbox", ok("holds")), Finding("disk here", warning("little room", "make room")))

    assert lines[:5] == [
        "Study test",
        "",
        "this machine",
        "  ok       sandbox               holds",
        "  warning  disk here             little room",
    ]
    assert lines[5].strip() == "-> make room"


def test_what_is_skipped_for_one_reason_takes_one_line():
    lines = render(
        Finding("unit", problem("the unit is not-found", "see to it")),
        Finding("state", skipped("needs unit")),
        Finding("type", skipped("needs unit")),
        Finding("launch", skipped("needs files read")),
    )

    assert lines[4].strip() == "-> see to it"
    assert lines[5:7] == [
        "  skipped  2 checks              needs unit: state, type",
        "  skipped  launch                needs files read",
    ]


def test_text_of_a_host_cannot_steer_the_terminal():
    text = "\n".join(render(Finding("version", ok("\x1b[2Jgone"))))

    assert "\x1b" not in text
    assert "\\x1b[2Jgone" in text


def test_the_verdict_names_problems_first_and_the_end_otherwise():
    end = datetime(2026, 1, 2, 6, 12, tzinfo=UTC)
    expected = Expectation(Estimate(1, "x"), Estimate(1, "y"), 0, 4, None, 10.0, end, None)
    fine = Finding("sandbox", ok(""))

    assert render_verdict(Diagnosis((fine, Finding("port", problem("", ""))), expected)) == (
        "Not ready: 1 problem (port); 1 ok, 0 warnings."
    )
    assert render_verdict(
        Diagnosis((fine, Finding("port", warning("", "")), Finding("gpu", skipped(""))), expected)
    ) == ("Ready: 1 ok, 1 warning, 1 skipped. Started now, the server is as it was found at about Fri 06:12.")
