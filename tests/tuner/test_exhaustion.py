from __future__ import annotations

from pathlib import Path

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


def test_a_night_ends_when_nothing_is_left_to_win_and_the_next_command_at_once(tmp_path: Path):
    night, again = make_night(tmp_path), make_night(tmp_path)

    outcome = night(Limits(trials=40))
    counted = sum(trial.is_counted for trial in night.trials)

    assert outcome.reason.startswith("nothing is left to win")
    assert outcome.exit_code == 0
    assert FEWEST_TRIALS <= counted < 40
    assert again(Limits(trials=40)).reason.startswith("nothing is left to win")
    assert sum(trial.is_counted for trial in again.trials) == counted
