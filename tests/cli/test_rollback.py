"""`autotune rollback`: which service is meant, and what is refused before anything is connected."""

from __future__ import annotations

import pytest


def test_a_study_without_a_service_has_nothing_to_take_back(run):
    result = run("rollback", "sample")

    assert result.exit_code == 2
    assert "tunes no service" in result.stderr
    assert "--unit" in result.stderr


def test_a_study_that_does_not_exist_is_refused(run):
    result = run("rollback", "nothing-of-this-name")

    assert result.exit_code == 2
    assert "there is no study called 'nothing-of-this-name'" in result.stderr


def test_without_a_study_the_one_worked_on_last_is_meant(run):
    assert "study sample tunes no service" in run("rollback").stderr


@pytest.mark.parametrize("unit", ["llm$(touch x).service", "-x.service", "x.timer"])
def test_a_name_that_systemd_refuses_reaches_no_host(run, unit):
    """Case 50: unit names are checked against systemd's alphabet."""
    result = run("rollback", "sample", f"--unit={unit}")

    assert result.exit_code == 2
    assert "is not the name of a service" in result.stderr
