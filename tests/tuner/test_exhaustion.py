from __future__ import annotations

from pathlib import Path

import pytest

from autotune.sampling.greybox.sampler import FEWEST_TRIALS
from autotune.settings import parse_settings
from autotune.study import Study
from autotune.tuner.limits import Limits
from tests.tuner.imaginary import STUDY, Imagined

GREYBOX = STUDY.replace('name = "random"', 'name = "greybox"')


def make_night(folder: Path, settings: str = GREYBOX) -> Imagined:
    """Every configuration is as fast as every other one."""
    parsed = parse_settings(settings, "study.toml")
    Study.open(parsed, folder).close()
    return Imagined(
        folder,
        settings=parsed,
        speed=lambda _configuration, concurrency: 100.0 * concurrency,
    )


def test_a_night_ends_when_nothing_is_left_to_win_and_says_so(tmp_path: Path):
    night = make_night(tmp_path)

    outcome = night(Limits(trials=40))

    assert outcome.reason.startswith("nothing is left to win")
    assert outcome.exit_code == 0
    assert FEWEST_TRIALS <= sum(trial.state.counts and trial.kind.counts for trial in night.trials) < 40


def test_the_next_command_ends_at_once_for_the_same_reason(tmp_path: Path):
    first = make_night(tmp_path)
    first(Limits(trials=40))
    again = make_night(tmp_path)

    assert again(Limits(trials=40)).reason.startswith("nothing is left to win")
    assert sum(trial.kind.counts for trial in again.trials) == sum(trial.kind.counts for trial in first.trials)


@pytest.mark.parametrize("trials", [14])
def test_a_night_that_may_not_end_early_does_not(tmp_path: Path, trials: int):
    settings = GREYBOX.replace("[sampler]", "[sampler]\nstop_when_exhausted = false")
    night = make_night(tmp_path, settings)

    outcome = night(Limits(trials=trials))

    assert outcome.reason == f"{trials} of {trials} trials are done"
