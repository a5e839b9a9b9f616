from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.sampling.greybox.filling import Filling, Shown, accept_cells
from autotune.trial import Cell
from tests.records import STUDY, make_settings

SETTINGS = make_settings(
    STUDY.replace("concurrency = 32 }", "concurrency = 32 }, { context = 512, concurrency = 32 }").replace(
        "concurrency = 1 }", "concurrency = 1 }, { context = 512, concurrency = 1 }"
    )
)
SHORT, LONG = Cell(128, 32), Cell(512, 32)
ALONE_SHORT, ALONE_LONG = Cell(128, 1), Cell(512, 1)
LOGS = st.floats(-3, 3)


def shown(
    speeds: dict[Cell, float],
    lengths: dict[Cell, float] | None = None,
    traits: Sequence[float] = (0.5,),
    *,
    is_plain: bool = False,
) -> Shown:
    return Shown(speeds, lengths or {}, is_plain, np.array([*traits, float(is_plain)]))


def test_a_missing_cell_is_as_far_from_the_known_one_as_on_average_elsewhere():
    filling = Filling([shown({SHORT: 1.0, LONG: 0.6}), shown({SHORT: 1.0, LONG: 0.4})], SETTINGS)

    # 0.4 and 0.6 lower, half of which is in the mean over both cells.
    assert filling.speed(shown({SHORT: 1.0}), 32)[0] == pytest.approx(1.0 - 0.25)


def test_its_error_is_how_far_the_others_lie_apart_beside_a_belief():
    apart = Filling([shown({SHORT: 0.0, LONG: 0.0}), shown({SHORT: 0.0, LONG: 0.8})], SETTINGS)
    alike = Filling([shown({SHORT: 0.0, LONG: 0.4}), shown({SHORT: 0.0, LONG: 0.4})], SETTINGS)

    # Means 0 and 0.4 around 0.2: squares 2 x 0.2^2, and a belief of 2 boots that 1.5 % is the error; 3 degrees of freedom;
    # and the mean of 2 boots is off by half their variance.
    variance = (0.08 + 2 * 0.015**2) / 3
    assert apart.speed(shown({SHORT: 0.0}), 32)[1] == pytest.approx(math.sqrt(1.5 * variance), rel=1e-3)
    assert alike.speed(shown({SHORT: 0.0}), 32)[1] == pytest.approx(math.sqrt(1.5 * 2 / 3) * 0.015, rel=1e-3)


def test_what_is_known_whole_has_no_error():
    filling = Filling([shown({SHORT: 1.0, LONG: 0.6})], SETTINGS)

    assert filling.speed(shown({SHORT: 2.0, LONG: 1.0}), 32) == pytest.approx((1.5, 0.0))


def test_without_others_the_known_cells_stand_for_all():
    alone = shown({LONG: 2.0}, {LONG: 1.2})

    assert Filling([], SETTINGS).speed(alone, 32) == (2.0, 0.0)
    assert Filling([], SETTINGS).accept_length(alone) == (1.2, 0.0)


def test_nothing_is_made_of_nothing():
    filling = Filling([shown({SHORT: 1.0, LONG: 0.6}, {SHORT: 1.0, LONG: 0.6})], SETTINGS)

    assert filling.speed(shown({SHORT: 1.0}), 1) == (None, 0.0)
    assert filling.accept_length(shown({SHORT: 1.0})) == (None, 0.0)


def test_plain_decoding_has_no_accept_length_and_no_error_of_it():
    filling = Filling([shown({SHORT: 1.0, LONG: 0.6}, {SHORT: 1.0, LONG: 0.6})], SETTINGS)

    assert filling.accept_length(shown({SHORT: 1.0}, {SHORT: 0.0}, is_plain=True)) == (None, 0.0)


def test_the_accept_length_of_one_concurrency_speaks_for_the_other():
    lengths = {SHORT: 1.2, ALONE_SHORT: 1.2, LONG: 0.8, ALONE_LONG: 0.8}
    filling = Filling([shown(dict.fromkeys(lengths, 5.0), lengths)], SETTINGS)

    assert set(accept_cells(SETTINGS)) == set(lengths)
    assert filling.accept_length(shown({ALONE_SHORT: 5.0}, {ALONE_SHORT: 1.4}))[0] == pytest.approx(1.2)


def cost(budget: float, context: int) -> float:
    """Seconds of a step: nodes, and a context that costs every tree the same."""
    return 0.010 + 0.0004 * budget + 0.000008 * context


def tree(budget: float, cells: Sequence[Cell] = (SHORT, LONG)) -> Shown:
    """A boot at C=32 whose accept length is the same at both contexts."""
    length = math.log(2 + budget / 30)
    speeds = {cell: math.log(32) + length - math.log(cost(budget, cell.context)) for cell in cells}
    return shown(speeds, dict.fromkeys((*cells, ALONE_SHORT, ALONE_LONG), length), (math.log2(1 + budget) / 6,))


def test_a_context_that_costs_seconds_costs_long_steps_a_smaller_share():
    """A mean over all others would call a large tree too slow and a small one too fast."""
    filling = Filling([tree(budget) for budget in (2, 4, 8, 16, 32)], SETTINGS)
    for budget in (3, 12, 60):
        truth = math.fsum(tree(budget).speeds.values()) / 2

        filled, deviation = filling.speed(tree(budget, [SHORT]), 32)

        assert filled is not None
        assert filled == pytest.approx(truth, abs=0.012)
        assert abs(filled - truth) < 2 * deviation


def test_an_accept_length_that_falls_with_the_context_falls_once():
    """The step time is filled in beside it; both together are the speed."""
    others = [
        shown(
            {SHORT: 1.2 - step, LONG: 0.9 - step - 0.1},
            {SHORT: 1.2, LONG: 0.9, ALONE_SHORT: 1.2, ALONE_LONG: 0.9},
        )
        for step in (0.1, 0.2, 0.3)
    ]
    asked = shown({SHORT: 1.5 - 0.2}, {SHORT: 1.5})
    filling = Filling(others, SETTINGS)

    length, speed = filling.accept_length(asked)[0], filling.speed(asked, 32)[0]

    assert length == pytest.approx(1.5 - 0.15)
    assert speed == pytest.approx(1.5 - 0.15 - 0.2 - 0.05)


@given(st.lists(st.tuples(LOGS, LOGS), min_size=1, max_size=6), LOGS, LOGS)
def test_a_machine_that_is_faster_by_a_factor_fills_in_as_much_more(boots, known, factor):
    slow = Filling([shown({SHORT: short, LONG: long}) for short, long in boots], SETTINGS)
    fast = Filling([shown({SHORT: short + factor, LONG: long + factor}) for short, long in boots], SETTINGS)

    before, after = slow.speed(shown({SHORT: known}), 32), fast.speed(shown({SHORT: known + factor}), 32)

    assert before[0] is not None
    assert after[0] is not None
    assert after[0] - before[0] == pytest.approx(factor, abs=1e-6)
    assert after[1] == pytest.approx(before[1])
    assert before[1] > 0
