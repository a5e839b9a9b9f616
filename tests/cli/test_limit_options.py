"""Limits are said in one way wherever a night is meant."""

from __future__ import annotations

import pytest

from autotune.cli.doctor import command as doctor
from autotune.cli.limit_options import DEFAULT_TRIALS, choose_limits
from autotune.cli.optimize import command as optimize
from autotune.tuner.limits import Limits


@pytest.mark.parametrize("name", ["trials", "duration_s", "until"])
def test_doctor_takes_the_limits_of_the_night_that_it_examines(name):
    ours, theirs = ([found for found in command.params if found.name == name] for command in (doctor, optimize))

    assert [found.to_info_dict() for found in ours] == [found.to_info_dict() for found in theirs] != []


def test_a_night_without_a_limit_has_the_usual_number_of_trials():
    assert choose_limits(None, None, None) == Limits(trials=DEFAULT_TRIALS)


def test_a_time_limit_is_the_only_one():
    assert choose_limits(None, 60.0, None) == Limits(duration_s=60.0)
