from __future__ import annotations

import pytest

from autotune.servers.simulated_acceptance import find_simulation


@pytest.mark.parametrize("value", ["4", "3.5", "1e-3", "yes", "nan"])
@pytest.mark.parametrize("name", ["SGLANG_SIMULATE_ACC_LEN", "SIMULATE_ACC_LEN"])
def test_a_value_that_switches_it_on_is_named(name: str, value: str):
    assert find_simulation({"PATH": "/bin", name: value}) == name


@pytest.mark.parametrize("value", ["", " ", "0", "-1", "-1.0", "0.0"])
def test_a_value_that_switches_it_off_is_fine(value: str):
    assert find_simulation({"SGLANG_SIMULATE_ACC_LEN": value, "SIMULATE_ACC_LEN": value}) is None


def test_no_variable_is_fine():
    assert find_simulation({"SGLANG_SIMULATE_ACC_METHOD": "match-expected"}) is None
