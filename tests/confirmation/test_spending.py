"""The looks of a sequential test together err as often as was said."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtri

from autotune.confirmation.spending import find_levels, find_student_levels, spend
from autotune.interval import student_quantile


def test_one_look_has_the_whole_level():
    assert find_levels(3, 3, 0.05) == pytest.approx((0.05,), abs=1e-9)


def test_all_of_the_error_is_spent_at_the_end_and_hardly_any_at_first():
    assert spend(1.0, 0.05) == pytest.approx(0.05)
    assert spend(0.1, 0.05) < 1e-8


def test_two_looks_have_the_boundaries_of_the_literature():
    """Lan and DeMets's boundaries of O'Brien and Fleming's form at half and all, one-sided 2.5 %: 2.963 and 1.969."""
    boundaries = [-float(ndtri(level)) for level in find_levels(1, 2, 0.025)]

    assert boundaries == pytest.approx([2.963, 1.969], abs=1e-3)


@settings(max_examples=20, deadline=None)
@given(first=st.integers(1, 3), more=st.integers(0, 7), alpha=st.sampled_from([0.01, 0.025, 0.05, 0.1]))
def test_later_looks_decide_more_easily_and_none_more_easily_than_one_look_would(first: int, more: int, alpha: float):
    levels = find_levels(first, first + more, alpha)

    assert len(levels) == more + 1
    assert all(0 < level <= alpha + 1e-9 for level in levels)
    assert list(levels) == sorted(levels)


def test_random_walks_without_a_gain_cross_as_often_as_was_said():
    rounds, alpha = 8, 0.05
    levels = find_levels(2, rounds, alpha)
    steps = np.random.default_rng(1).normal(size=(200_000, rounds))
    sums = np.cumsum(steps, axis=1)
    crossed = np.zeros(len(sums), dtype=bool)
    for done, level in zip(range(2, rounds + 1), levels, strict=True):
        crossed |= sums[:, done - 1] / math.sqrt(done) >= -ndtri(level)

    assert crossed.mean() == pytest.approx(alpha, abs=3 * math.sqrt(alpha / len(sums)))


@pytest.mark.parametrize("rounds", [2, 3, 5, 8])
def test_few_boots_with_unknown_noise_err_no_more_often_than_was_said(rounds: int):
    """Two sides without a difference, looked at after every round from the second on, their variance pooled."""
    alpha, nights = 0.05, 60_000
    boots = np.random.default_rng(rounds).normal(size=(nights, 2, rounds))
    crossed = np.zeros(nights, dtype=bool)
    for done, level in zip(range(2, rounds + 1), find_student_levels(2, rounds, alpha), strict=True):
        seen = boots[:, :, :done]
        error = np.sqrt(seen.var(axis=2, ddof=1).mean(axis=1) * 2 / done)
        difference = seen[:, 0].mean(axis=1) - seen[:, 1].mean(axis=1)
        crossed |= difference / error > student_quantile(2 * done - 2, level)

    assert crossed.mean() <= alpha + 3 * math.sqrt(alpha / nights)
    assert crossed.mean() >= 0.9 * alpha


@pytest.mark.parametrize(("first", "rounds", "alpha"), [(0, 3, 0.05), (4, 3, 0.05), (2, 3, 0.0), (2, 3, 0.6)])
def test_a_test_without_looks_or_level_is_refused(first: int, rounds: int, alpha: float):
    with pytest.raises(ValueError, match="no looks"):
        find_levels(first, rounds, alpha)
