"""Whether a server got slower while it was loaded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from autotune.confirmation.soak import FEWEST_PASSES, SUNK, find_sinking


@given(st.lists(st.floats(95, 105), max_size=60))
def test_passes_that_lie_within_ten_per_cent_have_not_sunk(speeds: list[float]):
    assert find_sinking(speeds) is None or min(speeds) / max(speeds) < 1 - SUNK


@given(st.integers(FEWEST_PASSES, 60))
def test_a_server_that_gets_slower_and_slower_has_sunk(passes: int):
    assert find_sinking([100 * 0.5 ** (index / passes) for index in range(passes)]) is not None


def test_too_few_passes_say_nothing():
    assert find_sinking([100.0, 10.0]) is None


def test_a_single_slow_pass_is_noise():
    assert find_sinking([100, 101, 99, 100, 101, 99, 100, 60, 101]) is None
