from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.sampling.greybox.filling import Filling
from autotune.trial import Cell
from tests.records import make_settings

SETTINGS = make_settings()
SHORT, LONG = Cell(128, 32), Cell(512, 32)
LOGS = st.floats(-3, 3)


def test_a_missing_cell_is_as_far_from_the_known_one_as_on_average_elsewhere():
    filling = Filling([{SHORT: 1.0, LONG: 0.6}, {SHORT: 2.0, LONG: 1.4}], SETTINGS)

    # 0.4 and 0.6 lower, half of which is in the mean over both cells.
    assert filling.fill({SHORT: 3.0}, [SHORT, LONG])[0] == pytest.approx(3.0 - 0.25)


def test_its_error_is_how_far_the_others_lie_apart_beside_a_belief():
    apart = Filling([{SHORT: 0.0, LONG: 0.0}, {SHORT: 0.0, LONG: 0.8}], SETTINGS).fill({SHORT: 0.0}, [SHORT, LONG])
    alike = Filling([{SHORT: 0.0, LONG: 0.4}, {SHORT: 0.0, LONG: 0.4}], SETTINGS).fill({SHORT: 0.0}, [SHORT, LONG])

    # Means 0 and 0.4: squares 2 x 0.2^2, and a belief of 2 boots that 2.5 % is the error; 3 degrees of freedom.
    assert apart[1] == pytest.approx(math.sqrt((0.08 + 2 * 0.025**2) / 3))
    assert alike[1] == pytest.approx(math.sqrt(2 * 0.025**2 / 3))


def test_what_is_known_whole_has_no_error():
    filling = Filling([{SHORT: 1.0, LONG: 0.6}], SETTINGS)

    assert filling.fill({SHORT: 2.0, LONG: 1.0}, [SHORT, LONG]) == pytest.approx((1.5, 0.0))


def test_without_others_the_known_cells_stand_for_all():
    assert Filling([], SETTINGS).fill({LONG: 2.0}, [SHORT, LONG]) == (2.0, 0.0)


@given(st.lists(st.tuples(LOGS, LOGS), min_size=1, max_size=6), LOGS, LOGS)
def test_a_machine_that_is_faster_by_a_factor_fills_in_as_much_more(boots, known, factor):
    whole = [{SHORT: short, LONG: long} for short, long in boots]
    filling = Filling(whole, SETTINGS)

    slow, fast = filling.fill({SHORT: known}, [SHORT, LONG]), filling.fill({SHORT: known + factor}, [SHORT, LONG])

    assert fast[0] - slow[0] == pytest.approx(factor)
    assert fast[1] == pytest.approx(slow[1])
    assert slow[1] > 0
