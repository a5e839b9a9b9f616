from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.sampling.greybox.gap import fit_gap

RNG = np.random.default_rng(7)
SPREADS = np.array([0.5, 0.5])


def test_many_points_of_a_line_show_it():
    features = RNG.uniform(0, 1, (60, 2))
    line = fit_gap(1 + features @ np.array([0.3, -0.2]), features, SPREADS, 0.01)

    gap, deviation = line.expect(np.array([0.5, 0.5]))

    assert gap == pytest.approx(1 + 0.15 - 0.1, abs=1e-3)
    assert deviation < 0.01


def test_one_point_leaves_the_coefficients_as_they_were_believed():
    """The level has no belief, so the gap is that of the one boot; elsewhere it may differ as much as parameters may do."""
    line = fit_gap(np.array([0.7]), np.array([[0.2, 0.2]]), SPREADS, 0.05)

    assert line.expect(np.array([0.2, 0.2])) == pytest.approx((0.7, 0.05 * math.sqrt(2)))
    assert line.expect(np.array([1.2, 0.2])) == pytest.approx((0.7, math.sqrt(2 * 0.05**2 + 0.5**2)))


def test_points_that_lie_apart_at_one_place_are_noise():
    features = np.full((40, 2), 0.5)
    line = fit_gap(RNG.normal(0.2, 0.1, 40), features, SPREADS, 0.01)

    assert line.noise == pytest.approx(0.1, rel=0.3)
    assert line.expect(np.array([0.5, 0.5]))[1] == pytest.approx(0.1, rel=0.3)


@pytest.mark.parametrize("count", [3, 8, 20])
def test_as_many_truths_as_stated_lie_within_the_stated_deviation(count: int):
    surprises = []
    for _ in range(400):
        slopes = RNG.normal(0, SPREADS)
        features = RNG.uniform(0, 1, (count + 1, 2))
        gaps = 0.4 + features @ slopes + RNG.normal(0, 0.05, count + 1)
        gap, deviation = fit_gap(gaps[:-1], features[:-1], SPREADS, 0.05).expect(features[-1])
        surprises.append((gaps[-1] - gap) / deviation)

    assert np.std(surprises) == pytest.approx(1.0, abs=0.2)


@given(
    st.lists(st.tuples(st.floats(-9, 9), st.floats(0, 1), st.floats(-9, 9)), min_size=1, max_size=9),
    st.floats(-20, 20),
)
def test_whatever_the_points_a_gap_is_finite_and_its_deviation_above_zero(points, asked):
    gaps = np.array([gap for gap, _, _ in points])
    features = np.array([[one, two] for _, one, two in points])

    gap, deviation = fit_gap(gaps, features, SPREADS, 0.02).expect(np.array([asked, 0.5]))

    assert math.isfinite(gap)
    assert 0 < deviation < math.inf
