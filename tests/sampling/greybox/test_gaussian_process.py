from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime

from autotune.sampling.greybox.encoding import Matrix, Vector
from autotune.sampling.greybox.gaussian_process import (
    GaussianProcess,
    Inputs,
    LogNormal,
    Priors,
    fit,
    negative_log_posterior,
)

PRIORS = Priors(
    LogNormal(0.3, 1.0),
    LogNormal(0.5, 0.7),
    LogNormal(0.05, 0.7),
    LogNormal(0.01, 0.7),
    LogNormal(0.1, 0.7),
    LogNormal(0.02, 0.7),
)


def theta_of(
    scale: float, lengths: list[float], arm: float, noise: float, effect: float = 1e-6, rough: float = 1e-6
) -> Vector:
    values = [scale, *lengths, *[effect] * len(lengths), rough, arm, noise]
    return np.array([math.log(value) for value in values])


THETA = theta_of(0.5, [0.4, 0.6], 0.1, 0.01, effect=0.1, rough=0.05)


def make_inputs(x: Matrix, arm: list[int] | None = None, loose: float = 0.0) -> Inputs:
    count = len(x)
    arms = np.zeros(count, dtype=np.intp) if arm is None else np.array(arm, dtype=np.intp)
    return Inputs(x, arms, (arms == 2).astype(np.intp), 0.2 * x[:, :1], np.full(count, loose))


def draw_points(count: int, seed: int = 3) -> tuple[Inputs, Vector]:
    rng = np.random.default_rng(seed)
    x = rng.random((count, 2))
    return make_inputs(x, [index % 3 for index in range(count)], loose=0.2), np.sin(4 * x[:, 0]) + 0.1 * x[:, 1]


@pytest.mark.parametrize("seed", range(3))
def test_the_gradient_of_the_posterior_is_its_slope(seed: int):
    inputs, values = draw_points(9, seed)
    means, spreads = PRIORS.of(2)
    known = np.full(9, 0.001)

    def posterior(theta: Vector) -> tuple[float, Vector]:
        return negative_log_posterior(theta, inputs, values, known, means, spreads)

    theta = THETA + 0.1 * seed
    slope = approx_fprime(theta, lambda at: posterior(at)[0], 1e-7)

    assert posterior(theta)[1] == pytest.approx(slope, rel=1e-3, abs=1e-3)


def test_noiseless_values_are_met_and_far_from_them_the_deviation_is_the_priors():
    inputs = make_inputs(np.array([[0.1, 0.5], [0.5, 0.5], [0.9, 0.2]]))
    values = np.array([0.3, -0.2, 0.4])
    theta = theta_of(0.5, [0.01, 0.01], 1e-4, 1e-5)

    process = GaussianProcess(inputs, values, np.zeros(3), theta, inflation=1.0)
    mean, deviation = process.predict(inputs)
    far = process.predict(make_inputs(np.array([[0.3, 0.0]])))

    assert mean == pytest.approx(values, abs=1e-3)
    assert deviation == pytest.approx(np.zeros(3), abs=1e-3)
    assert far[1][0] == pytest.approx(0.5, rel=0.05)


def test_prediction_is_the_conditional_normal_distribution():
    """One value at the same place: mean k / (k + s) y, variance k s / (k + s)."""
    point = Inputs(np.array([[0.5]]), np.zeros(1, np.intp), np.zeros(1, np.intp), np.zeros((1, 0)), np.zeros(1))
    theta = theta_of(0.6, [0.5], 0.8, 0.5)
    process = GaussianProcess(point, np.array([2.0]), np.array([0.11]), theta, inflation=1.0)

    mean, deviation = process.predict(point)
    kernel, noise = 0.36 + 0.64, 0.25 + 0.11

    assert mean[0] == pytest.approx(2.0 * kernel / (kernel + noise))
    assert deviation[0] ** 2 == pytest.approx(kernel * noise / (kernel + noise))


def test_groups_share_nothing_but_arms_and_basis():
    x = np.array([[0.5, 0.5], [0.5, 0.5]])
    one = Inputs(x, np.array([0, 1]), np.array([0, 1]), np.zeros((2, 0)), np.zeros(2))
    process = GaussianProcess(one.take(slice(0, 1)), np.array([3.0]), np.zeros(1), THETA, inflation=1.0)

    mean, _ = process.predict(one)

    assert mean[0] == pytest.approx(3.0, rel=0.01)
    assert mean[1] == 0


def test_contradicting_values_widen_every_prediction():
    inputs, values = draw_points(12)
    asked = make_inputs(np.array([[0.3, 0.3]]), [1], loose=0.2)
    theta = theta_of(0.5, [0.8, 0.8], 0.1, 0.01)

    agreeing = GaussianProcess(inputs, values, np.zeros(12), theta)
    spoilt = values.copy()
    spoilt[5] += 2.0
    contradicting = GaussianProcess(inputs, spoilt, np.zeros(12), theta)

    assert contradicting.inflation > 3 * agreeing.inflation
    assert contradicting.predict(asked)[1] > 1.5 * agreeing.predict(asked)[1]


def test_leaving_one_out_is_predicting_it_from_the_others():
    inputs, values = draw_points(8)
    process = GaussianProcess(inputs, values, np.full(8, 0.01), THETA, inflation=1.0)

    for index in range(8):
        others = np.array([other for other in range(8) if other != index])
        rest = GaussianProcess(inputs.take(others), values[others], np.full(7, 0.01), THETA, inflation=1.0)
        mean, deviation = rest.predict(inputs.take(np.array([index])))
        noisy = np.sqrt(deviation[0] ** 2 + 0.01 + rest.noise**2)

        assert process.leave_one_out()[index] == pytest.approx((values[index] - mean[0]) / noisy, rel=1e-4)


def test_believing_moves_no_mean_and_shrinks_the_deviation_there():
    inputs, values = draw_points(6)
    process = fit(inputs, values, np.zeros(6), PRIORS)
    asked = make_inputs(np.array([[0.2, 0.9], [0.7, 0.7]]), [1, 1], loose=0.2)

    believing = process.believing(asked.take(slice(0, 1)))

    assert believing.predict(asked)[0] == pytest.approx(process.predict(asked)[0], abs=1e-6)
    assert believing.predict(asked)[1][0] < 0.5 * process.predict(asked)[1][0]


def test_the_joint_distribution_has_the_deviations_of_the_single_ones():
    inputs, values = draw_points(6)
    process = GaussianProcess(inputs, values, np.full(6, 0.01), THETA)
    asked, _ = draw_points(5, seed=9)

    mean, covariance = process.joint(asked)

    assert mean == pytest.approx(process.predict(asked)[0])
    assert np.sqrt(np.diag(covariance)) == pytest.approx(process.predict(asked)[1], abs=1e-6)


def test_without_values_the_priors_speak():
    empty = make_inputs(np.zeros((0, 2)))

    process = fit(empty, np.zeros(0), np.zeros(0), PRIORS)
    mean, deviation = process.predict(make_inputs(np.array([[0.5, 0.5]])))

    assert mean[0] == 0
    assert deviation[0] == pytest.approx(np.sqrt(0.3**2 + 2 * 0.05**2 + 0.01**2 + 0.1**2 + 0.1**2))


def test_fitting_finds_the_column_that_matters_and_the_noise():
    rng = np.random.default_rng(5)
    x = rng.random((60, 2))
    values = np.sin(6 * x[:, 0]) + 0.1 * rng.standard_normal(60)

    process = fit(make_inputs(x), values, np.zeros(60), PRIORS)

    assert np.exp(process.theta[1]) < 0.5 * np.exp(process.theta[2])
    assert process.noise == pytest.approx(0.1, rel=0.4)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 25), st.integers(0, 100))
def test_a_value_more_never_widens_a_prediction_of_a_given_kernel(count: int, seed: int):
    inputs, values = draw_points(count + 1, seed)
    asked = make_inputs(np.array([[0.4, 0.6]]), [1], loose=0.2)
    fewer = inputs.take(slice(0, count))

    before = GaussianProcess(fewer, values[:count], np.full(count, 0.01), THETA, inflation=1.0).predict(asked)[1]
    after = GaussianProcess(inputs, values, np.full(count + 1, 0.01), THETA, inflation=1.0).predict(asked)[1]

    assert after[0] <= before[0] + 1e-9
