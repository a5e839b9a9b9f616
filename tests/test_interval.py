"""Intervals of ratios: boots are the sample, prompts are compared with themselves."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.interval import (
    MIN_PAIRS,
    BootSpeeds,
    Component,
    compare_boots,
    compare_cells,
    geometric_mean,
    half_width,
    mean_log,
    pooled_variance,
    student_quantile,
)
from autotune.trial import BootSpeed, Figure
from tests.records import make_cell

SPEEDS = st.floats(1e-3, 1e6)


def test_students_quantile_is_the_tables():
    assert student_quantile(1) == pytest.approx(12.706, abs=1e-3)
    assert student_quantile(7) == pytest.approx(2.365, abs=1e-3)


def test_one_value_has_a_mean_and_no_interval_and_none_has_nothing():
    assert mean_log([0.5]).low is None
    with pytest.raises(ValueError, match="no values"):
        mean_log([])


def test_two_boots_are_compared_prompt_by_prompt():
    # Prompts differ by a factor of ten, the two sides by exactly one tenth each time.
    theirs = {f"p{index}": math.log(10.0 * (index + 1)) for index in range(8)}
    ours = {prompt: value + math.log(1.1) for prompt, value in theirs.items()}

    ratio = compare_cells(
        [(make_cell(1, 110.0, spread=0.9, prompts=ours), make_cell(1, 100.0, spread=0.9, prompts=theirs))], [1.0]
    )

    assert ratio.gain == pytest.approx(0.1)
    assert ratio.low == pytest.approx(math.log(1.1))
    assert ratio.high == pytest.approx(math.log(1.1))


def test_boots_of_a_pooled_baseline_are_in_the_interval():
    prompts = {f"p{index}": float(index) for index in range(4)}
    boots = tuple(
        BootSpeed(number, math.log(100.0) + shift, {prompt: value + shift for prompt, value in prompts.items()})
        for number, shift in ((0, -0.03), (5, 0.0), (9, 0.03))
    )
    pooled = replace(make_cell(1, 100.0, prompts=prompts), boots=boots)

    ratio = compare_cells([(make_cell(1, 120.0, prompts=prompts), pooled)], [1.0])

    assert ratio.degrees == 2
    assert ratio.value == pytest.approx(math.log(1.2))
    assert ratio.high == pytest.approx(math.log(1.2) + 4.302653 * 0.03 * math.sqrt(4 / 3))


def test_without_enough_common_prompts_the_two_intervals_are_combined():
    few = {f"p{index}": 1.0 for index in range(MIN_PAIRS - 1)}
    figures = (Figure(110.0, 2, 110 / 1.03, 110 * 1.03), Figure(100.0, 2, 100 / 1.04, 100 * 1.04))
    ours, theirs = (replace(make_cell(1, 1.0, prompts=few), decode_tokens_per_s=figure) for figure in figures)

    ratio = compare_cells([(ours, theirs)], [1.0])

    half = math.hypot(math.log(1.03), math.log(1.04))
    assert ratio.value == pytest.approx(math.log(1.1))
    assert ratio.high == pytest.approx(math.log(1.1) + half)
    assert ratio.low == pytest.approx(math.log(1.1) - half)


def test_an_unknown_bound_leaves_the_ratio_without_an_interval():
    ratio = compare_cells([(make_cell(1, 110.0), make_cell(1, 100.0, spread=0.01))], [1.0])

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


def boot(log_speed: float, gain: float = 0.0, prompts: int = 8) -> BootSpeeds:
    """A boot of a server that answers every prompt alike; prompts differ, and gain by ``gain`` more from one to the next."""
    centre = (prompts - 1) / 2
    return BootSpeeds(
        log_speed, ({f"p{index}": log_speed + index + gain * (index - centre) for index in range(prompts)},)
    )


def test_boots_that_differ_widen_a_gain_that_is_the_same_for_every_prompt():
    """Paired prompts alone would call it certain: the requests of one boot share what the boot adds."""
    theirs = [boot(0.0), boot(0.02), boot(-0.02)]

    ratio = compare_boots([boot(0.1)], theirs, [1.0])

    # Standard deviation between boots 0.02, one boot against the mean of three, two degrees of freedom.
    assert ratio.value == pytest.approx(0.1)
    assert ratio.high == pytest.approx(0.1 + 4.302653 * 0.02 * math.sqrt(1 + 1 / 3))
    assert (ratio.degrees, ratio.pairs) == (2, 8)


def test_boots_of_both_sides_show_the_spread_between_boots():
    ratio = compare_boots([boot(1.0), boot(1.2)], [boot(0.0), boot(0.2), boot(0.4)], [1.0])

    variance = (2 * 0.1**2 + 2 * 0.2**2) / 3
    assert ratio.degrees == 3
    assert ratio.low == pytest.approx(0.9 - 3.182446 * math.sqrt(variance * (1 / 2 + 1 / 3)))


def test_prompts_that_gain_differently_widen_a_gain_although_no_boot_differs():
    theirs = [boot(0.0)] * 3

    ratio = compare_boots([boot(0.1, gain=0.01)], theirs, [1.0])

    # Eight prompts with gains 0.01 apart: Student's interval over them.
    error = math.sqrt(sum((0.01 * (index - 3.5)) ** 2 for index in range(8)) / 7 / 8)
    assert ratio.high == pytest.approx(0.1 + student_quantile(7) * error)


def test_noise_of_requests_is_not_counted_twice():
    """It spreads the paired differences as well as the boots; only what exceeds the noise is the prompts' own."""
    rng = random.Random(5)  # noqa: S311 - noise, no secret

    def noisy() -> BootSpeeds:
        speeds = {f"p{index}": index + rng.gauss(0, 0.1) for index in range(400)}
        return BootSpeeds(math.fsum(speeds.values()) / 400, (speeds,))

    theirs = [noisy() for _ in range(10)]
    ours = [noisy() for _ in range(10)]
    ratio = compare_boots(ours, theirs, [1.0])
    spread = pooled_variance([[each.log_speed for each in side] for side in (ours, theirs)])

    assert ratio.high is not None
    assert ratio.high - ratio.value == pytest.approx(student_quantile(18) * math.sqrt(spread / 5), rel=0.1)


def test_two_single_boots_say_that_their_interval_holds_no_boots():
    ratio = compare_boots([boot(0.1, gain=0.01)], [boot(0.0)], [1.0])

    assert ratio.degrees == 0
    assert ratio.low is not None
    assert ratio.value - ratio.low > 0.01


def test_two_single_boots_without_common_prompts_have_no_interval():
    ratio = compare_boots([boot(0.1, prompts=MIN_PAIRS - 1)], [boot(0.0)], [1.0])

    assert (ratio.value, ratio.low, ratio.high, ratio.pairs) == (0.1, None, None, 0)


def test_cells_are_weighted():
    def both(first: float, second: float) -> BootSpeeds:
        parts = boot(first).prompts + boot(second, gain=0.04).prompts
        return BootSpeeds(0.25 * first + 0.75 * second, parts)

    one_cell = compare_boots([boot(0.4, gain=0.04)], [boot(0.4)], [1.0])
    ratio = compare_boots([both(0.0, 0.4)], [BootSpeeds(0.3, boot(0.0).prompts + boot(0.4).prompts)], [0.25, 0.75])

    assert ratio.pairs == 16
    assert ratio.high is not None
    assert one_cell.high is not None
    assert ratio.high - ratio.value == pytest.approx(0.75 * (one_cell.high - one_cell.value))


def test_a_prompt_that_one_boot_did_not_answer_is_left_out():
    less = BootSpeeds(0.0, ({key: value for key, value in boot(0.0).prompts[0].items() if key != "p3"},))

    assert compare_boots([boot(0.1)], [boot(0.0), less], [1.0]).pairs == 7


def test_a_comparison_with_no_boot_is_refused():
    with pytest.raises(ValueError, match="a boot on each side"):
        compare_boots([], [boot(0.0)], [1.0])


@given(st.floats(1e-6, 1.0), st.integers(1, 30), st.floats(1e-6, 1.0), st.integers(3, 100))
def test_the_quantile_lies_between_those_of_its_parts(between: float, boots: int, prompts: float, pairs: int):
    half = half_width(Component(between, boots), Component(prompts, pairs))
    quantiles = sorted([student_quantile(boots), student_quantile(pairs)])

    assert quantiles[0] * 0.9999 <= half / math.sqrt(between + prompts) <= quantiles[1] * 1.0001
