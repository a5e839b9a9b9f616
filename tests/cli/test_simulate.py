from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from autotune.cli import main
from autotune.study_view import load_study

NIGHT = ("night", "h200-small", "--trials", "5", "--sampler", "random")


def simulate(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["simulate", *arguments])


@pytest.fixture(scope="module")
def played() -> dict[str, object]:
    result = simulate(*NIGHT, "--json")
    assert result.exit_code == 0, result.output
    document: dict[str, object] = json.loads(result.stdout)
    return document


def test_a_night_says_what_was_found_and_how_true_that_is(played):
    assert played["surface"] == "h200-small"
    assert played["counted"] == 5
    assert played["ended"] == "5 of 5 trials are done"
    assert played["directory"] is None
    assert played["simulated_s"] > 5 * 600
    assert 0 <= played["truth"]["regret"] < 1
    assert 0 <= played["truth"]["hypervolume_regret"] <= 1
    assert played["truth"]["recommended"]["configuration"] == played["recommendation"]["configuration"]
    assert played["truth"]["best"]["tokens_per_s_c1"] > 0


def test_the_same_seed_gives_the_same_night_and_text_says_it_for_people(played):
    result = simulate(*NIGHT)

    assert result.exit_code == 0, result.output
    assert f"regret:      {100 * played['truth']['regret']:.1f}%" in result.stdout
    assert "truly best:" in result.stdout
    assert "simulated:" in result.stdout


def test_a_kept_study_is_an_ordinary_one_and_is_continued(tmp_path: Path):
    directory = tmp_path / "night"
    for trials in ("3", "4"):
        result = simulate(
            "night", "h200-small", "--sampler", "random", "--trials", trials, "--study-directory", str(directory)
        )
        assert result.exit_code == 0, result.output

    assert load_study(directory).counted == 4


def test_a_wrong_surface_is_answered_with_the_nearest():
    result = simulate("night", "romy")

    assert result.exit_code == 2
    assert "did you mean 'roomy'" in result.output


def test_surfaces_are_listed_with_what_is_truly_best():
    result = simulate("surfaces", "--json")
    found = {each["surface"]: each for each in json.loads(result.stdout)}

    assert result.exit_code == 0
    assert set(found) >= {"roomy", "tight", "stairs", "cliff", "flat", "peak-4", "peak-10", "h200-large"}
    assert found["cliff"]["obstructed"] / found["cliff"]["configurations"] == pytest.approx(0.25, abs=0.05)
    assert all(each["best"]["excess_loss"] == 0 for each in found.values())
