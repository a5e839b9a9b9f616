"""What `autotune confirm` refuses, prints and says, over a confirmation on an imaginary host."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from autotune.cli import confirm
from autotune.confirmation.plan import Plan
from autotune.events import Observer
from autotune.settings import StudySettings
from autotune.study import Study
from autotune.trial import Configuration
from autotune.tuner import Limits, NightOutcome
from tests.tuner.imaginary import Imagined

Run = Callable[..., Result]
GAIN = 1.5


def speed(configuration: Configuration, concurrency: int) -> float:
    return 100.0 * concurrency * (GAIN if configuration["budget"] == 0 else 1.0)


@pytest.fixture
def imaginary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A study in ./studies whose only trial is ahead, and a tuner that confirms on an imaginary host."""
    folder = tmp_path / "studies" / "imaginary"
    (tmp_path / "studies").mkdir(exist_ok=True)
    Imagined(folder, speed=speed)(Limits(trials=1))

    def confirm_there(
        settings: StudySettings,
        find_plan: Callable[[Study], Plan],
        limits: Limits,
        observer: Observer,
        *,
        directory: Path,
        drain: bool,
    ) -> NightOutcome:
        night = Imagined(Path(directory), settings=settings, speed=speed, drain=drain)
        night.observer = observer
        return night.conduct(limits, lambda opened, study: opened.confirm(find_plan(study)))

    monkeypatch.setattr(confirm, "confirm", confirm_there)
    return folder


def test_the_verdict_is_a_table_and_a_sentence(run_elsewhere: Run, imaginary: Path):
    result = run_elsewhere("confirm", "imaginary", "--plain")

    assert result.exit_code == 0, result.output
    assert "trial 1 against the baseline: at most 6 boots in 3 rounds, about" in result.stderr
    row = next(line for line in result.stdout.splitlines() if line.strip().startswith("1 "))
    assert "confirmed" in row
    assert "+50.0%" in row
    assert "trial 1: confirmed, +50.0% in fresh boots, at least" in result.stderr
    assert "server: no server runs, as before" in result.stderr


def test_as_data_it_holds_plan_gains_and_bounds(run_elsewhere: Run, imaginary: Path):
    result = run_elsewhere("confirm", "imaginary", "--plain", "--json", "--boots", "8")
    document = json.loads(result.stdout)

    assert document["planned_rounds"] == 4
    assert document["recommended"] == 1
    assert document["leaders"][0]["outcome"] == "confirmed"
    assert document["leaders"][0]["gain"]["value"] == pytest.approx(0.5)
    assert document["leaders"][0]["gain"]["low"] > 0


def test_afterwards_status_and_export_say_that_it_is_confirmed(run_elsewhere: Run, imaginary: Path):
    run_elsewhere("confirm", "imaginary", "--plain")
    status = run_elsewhere("status", "imaginary")
    exported = run_elsewhere("export", "imaginary", "--format", "flags")

    assert "recommended: trial 1 (confirmed)" in status.stdout
    assert "trial 1 is confirmed against the baseline" in exported.stderr
    assert json.loads(run_elsewhere("status", "imaginary", "--json").stdout)["confirmations"][0]["is_decided"]


def test_a_trial_that_cannot_be_confirmed_is_refused_with_those_that_can(run_elsewhere: Run, imaginary: Path):
    for number, said in (("99", "there is no trial 99"), ("0", "trial 0 cannot be confirmed")):
        result = run_elsewhere("confirm", "imaginary", "--trial", number)

        assert result.exit_code == 2
        assert said in result.stderr
        assert "complete trials of the search: 1" in result.stderr


@pytest.mark.parametrize("boots", ["0", "3", "many"])
def test_boots_that_decide_nothing_are_refused(run_elsewhere: Run, imaginary: Path, boots: str):
    assert run_elsewhere("confirm", "imaginary", "--boots", boots).exit_code == 2


def test_where_nothing_is_ahead_nothing_is_booted(run_elsewhere: Run, imaginary: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tests.cli.test_confirm.GAIN", 0.5)
    Imagined(imaginary.parent / "behind", speed=speed)(Limits(trials=1))
    result = run_elsewhere("confirm", "--study-directory", str(imaginary.parent / "behind"))

    assert result.exit_code == 0, result.output
    assert "nothing to confirm: the baseline stays" in result.stderr


def test_a_study_that_is_not_there_is_refused(run_elsewhere: Run, imaginary: Path):
    assert run_elsewhere("confirm", "another").exit_code == 2
