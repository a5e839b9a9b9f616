from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.interval import MIN_PAIRS, compare, geometric_mean, mean_log, student_quantile
from autotune.trial import Figure

SPEEDS = st.floats(1e-3, 1e6)


def test_students_quantile_is_the_tables():
    assert student_quantile(1) == pytest.approx(12.706, abs=1e-3)
    assert student_quantile(7) == pytest.approx(2.365, abs=1e-3)


def test_one_value_has_a_mean_and_no_interval_and_none_has_nothing():
    assert mean_log([0.5]).low is None
    with pytest.raises(ValueError, match="no values"):
        mean_log([])


def test_a_pair_of_boots_is_compared_prompt_by_prompt():
    # Prompts differ by a factor of ten, the two sides by exactly one tenth each time.
    theirs = {f"p{index}": math.log(10.0 * (index + 1)) for index in range(8)}
    ours = {prompt: value + math.log(1.1) for prompt, value in theirs.items()}

    ratio = compare(Figure(999.0, 2, 1.0, 9999.0), Figure(1.0, 2, 0.1, 9.0), ours, theirs)

    assert ratio.gain == pytest.approx(0.1)
    assert ratio.low == pytest.approx(math.log(1.1))
    assert ratio.high == pytest.approx(math.log(1.1))


def test_without_enough_common_prompts_the_two_intervals_are_combined():
    few = {f"p{index}": 1.0 for index in range(MIN_PAIRS - 1)}

    ratio = compare(Figure(110.0, 2, 110 / 1.03, 110 * 1.03), Figure(100.0, 2, 100 / 1.04, 100 * 1.04), few, few)

    half = math.hypot(math.log(1.03), math.log(1.04))
    assert ratio.value == pytest.approx(math.log(1.1))
    assert ratio.high == pytest.approx(math.log(1.1) + half)
    assert ratio.low == pytest.approx(math.log(1.1) - half)


def test_an_unknown_bound_leaves_the_ratio_without_an_interval():
    ratio = compare(Figure(110.0, 2), Figure(100.0, 2, 99.0, 101.0))

    assert (ratio.low, ratio.high) == (None, None)


def test_weights_are_exponents():
    assert geometric_mean([Figure(10.0, 1), Figure(1000.0, 2)], [3.0, 1.0]).value == pytest.approx(10**1.5)


@given(st.lists(SPEEDS, min_size=1, max_size=6), st.floats(0.1, 10.0))
def test_the_mean_lies_between_its_values_and_scales_with_them(values: list[float], factor: float):
    figures = [Figure(value, 1, value * 0.9, value * 1.1) for value in values]
    mean = geometric_mean(figures, [1.0] * len(values))
    scaled = geometric_mean([Figure(value * factor, 1) for value in values], [2.0] * len(values))

    assert min(values) * (1 - 1e-9) <= mean.value <= max(values) * (1 + 1e-9)
    assert scaled.value == pytest.approx(mean.value * factor)
    assert mean.low is not None
    assert mean.high is not None
    assert mean.low <= mean.value <= mean.high
