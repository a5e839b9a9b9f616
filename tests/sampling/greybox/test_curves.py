from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from autotune.sampling.greybox.curves import accept_shape, fit_curve, speed_shape, step_shape
from autotune.sampling.greybox.encoding import Encoding
from autotune.search_space import load_search_space
from tests.sampling.greybox.small_surface import SPACE

ENCODINGS = [Encoding(SPACE), Encoding(load_search_space("ddtree_v2")), Encoding(load_search_space("dflash"))]


@pytest.mark.parametrize("encoding", ENCODINGS, ids=["ddtree", "ddtree_v2", "dflash"])
@pytest.mark.parametrize("kind", ["accept", "step", "speed"])
def test_slopes_are_those_of_the_values(encoding: Encoding, kind: str):
    shape, (means, spreads) = {
        "accept": accept_shape(encoding),
        "step": step_shape(encoding, -4.0),
        "speed": speed_shape(encoding, 5.0),
    }[kind]
    theta = means + 0.3 * spreads
    _, slopes = shape(theta)

    for row in range(0, len(encoding), max(len(encoding) // 7, 1)):
        by_difference = approx_fprime(theta, lambda at, row=row: shape(at)[0][row], 1e-7)
        assert slopes[row] == pytest.approx(by_difference, abs=1e-5)


def test_the_accept_length_rises_in_the_budget_and_never_reaches_the_block():
    encoding = ENCODINGS[0]
    assert encoding.budget is not None
    shape, (means, _) = accept_shape(encoding)
    speculating = encoding.budget > 0
    values = shape(means)[0][speculating]
    order = np.argsort(encoding.budget[speculating], kind="stable")

    assert np.all(np.diff(values[order]) >= -1e-12)
    assert np.all(np.exp(values) < 16)


def test_few_values_move_the_curve_and_leave_open_what_they_do_not_say():
    encoding = ENCODINGS[0]
    rows = np.array(
        [encoding.row(SPACE.parse(text)) for text in ("budget=4,topk=4", "budget=32,topk=4")], dtype=np.intp
    )
    values = np.log(np.array([2.2, 2.9]))

    curve = fit_curve(*accept_shape(encoding), rows, values, np.zeros(2))
    prior_mean = curve.mean[rows]
    covariance = curve.basis[rows] @ curve.basis[rows].T
    known = prior_mean + covariance @ np.linalg.solve(covariance + 0.03**2 * np.eye(2), values - prior_mean)

    assert known == pytest.approx(values, abs=0.05)
