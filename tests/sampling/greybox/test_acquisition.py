from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.pareto import hypervolume
from autotune.sampling.greybox.acquisition import (
    Point,
    chance_ahead,
    expected_hypervolume_improvement,
    expected_merit_improvement,
    keep_front,
)
from autotune.sampling.greybox.model import Forecast
from autotune.settings import ExportSettings

FRONT = ((0.95, 1.4), (1.1, 1.2), (1.3, 0.98))
REFERENCE = (0.9, 0.8)


def forecast(c1: float, c32: float, shared: float, own: tuple[float, float]) -> Forecast:
    return Forecast(np.array([[c1, c32]]), np.array([shared]), np.array([own]))


def by_drawing(known: Forecast, front: tuple[Point, ...], draws: int = 40_000) -> tuple[float, float]:
    """Mean improvement over draws, and its standard error."""
    rng = np.random.default_rng(1)
    z = rng.standard_normal((draws, 3))
    points = np.exp(known.mean[0] + known.shared[0] * z[:, :1] + known.own[0] * z[:, 1:])
    now = hypervolume(front, REFERENCE)
    gains = np.array([hypervolume((*front, (float(x), float(y))), REFERENCE) - now for x, y in points])
    return float(gains.mean()), float(gains.std() / math.sqrt(draws))


@pytest.mark.parametrize("front", [(), FRONT[:1], FRONT])
@pytest.mark.parametrize(
    ("c1", "c32", "shared", "own"),
    [
        (0.1, 0.1, 0.1, (0.05, 0.05)),
        (0.3, -0.3, 0.02, (0.2, 0.1)),
        (0.0, 0.0, 0.15, (0.01, 0.01)),
        (-0.2, 0.4, 0, (0.1, 0.2)),
    ],
)
def test_expected_hypervolume_improvement_is_the_mean_over_draws(front, c1, c32, shared, own):
    known = forecast(c1, c32, shared, own)

    exact = expected_hypervolume_improvement(known, front, REFERENCE)[0]
    mean, error = by_drawing(known, front)

    assert exact == pytest.approx(mean, abs=4 * error + 2e-4)


def test_a_certain_point_improves_by_its_area():
    known = forecast(math.log(1.2), math.log(1.1), 0.0, (0.0, 0.0))

    gain = expected_hypervolume_improvement(known, FRONT, REFERENCE)[0]

    assert gain == pytest.approx(hypervolume((*FRONT, (1.2, 1.1)), REFERENCE) - hypervolume(FRONT, REFERENCE), abs=1e-5)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.5, 2), st.floats(0.5, 2)), max_size=6),
    st.floats(-0.6, 0.6),
    st.floats(-0.6, 0.6),
    st.floats(0, 0.3),
)
def test_improvement_is_never_negative_and_grows_with_the_mean(points, c1, c32, width):
    front = keep_front(points)
    low = expected_hypervolume_improvement(forecast(c1, c32, width, (0.05, 0.05)), front, REFERENCE)[0]
    high = expected_hypervolume_improvement(forecast(c1 + 0.1, c32, width, (0.05, 0.05)), front, REFERENCE)[0]

    assert 0 <= low <= high + 1e-12


def test_points_outside_the_reference_count_for_nothing():
    known = forecast(0.1, 0.1, 0.1, (0.1, 0.1))

    with_them = expected_hypervolume_improvement(known, ((0.5, 3.0), *FRONT), REFERENCE)

    assert with_them == pytest.approx(expected_hypervolume_improvement(known, FRONT, REFERENCE))


@pytest.mark.parametrize(("rule", "axes"), [("balanced", (0, 1)), ("c1", (0,)), ("c32", (1,))])
def test_the_merit_improves_as_over_draws(rule, axes):
    export = ExportSettings(rule=rule, max_loss=1.0)
    known = forecast(0.1, 0.05, 0.05, (0.1, 0.15))
    z = np.random.default_rng(2).standard_normal((200_000, 3))
    merits = (known.mean[0] + known.shared[0] * z[:, :1] + known.own[0] * z[:, 1:])[:, axes].mean(axis=1)

    gain = expected_merit_improvement(known, 0.12, export)[0]

    assert gain == pytest.approx(np.maximum(merits - 0.12, 0).mean(), rel=0.02)


def test_what_surely_loses_at_one_concurrency_is_never_recommended():
    export = ExportSettings(rule="balanced", max_loss=0.0)
    gains = expected_merit_improvement(forecast(0.5, -0.2, 0.01, (0.02, 0.02)), 0.0, export)

    assert gains[0] < 1e-9


def worlds(*rows: list[tuple[float, float]]) -> np.ndarray:
    """Log speeds of some configurations, the judged one first, in each of some worlds."""
    return np.array(rows)


def test_the_chance_ahead_is_the_share_of_worlds_in_which_no_other_is_as_fast_at_both():
    draws = worlds(
        [(0.1, 0.2), (0.2, 0.1), (0.0, 0.3)],  # each other is slower at one concurrency
        [(0.1, 0.2), (0.2, 0.3), (0.0, 0.3)],  # the second beats it
        [(0.1, 0.2), (0.1, 0.2), (0.0, 0.0)],  # as fast is enough to beat it
        [(0.4, 0.0), (0.3, 0.9), (0.3, 0.9)],
    )

    assert chance_ahead(draws, 0.0) == 0.5


def test_what_is_ahead_by_less_than_counts_is_not_ahead():
    draws = worlds([(0.10, 0.0), (0.09, 0.3)], [(0.10, 0.0), (0.07, 0.3)])

    assert [chance_ahead(draws, 0.02), chance_ahead(draws, 0.05), chance_ahead(draws, 0.0)] == [0.5, 0.0, 1.0]


def test_alone_a_configuration_is_ahead():
    assert chance_ahead(worlds([(-9.0, -9.0)]), 0.02) == 1.0
