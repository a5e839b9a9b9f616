"""When failures are more than chance."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.benchmark.success_rate import LEVEL, SuccessCount


@given(st.integers(1, 80).flatmap(lambda sent: st.tuples(st.integers(0, sent), st.just(sent))), st.floats(0.05, 0.99))
def test_a_rate_is_called_too_low_exactly_when_so_few_successes_are_that_unlikely(
    counts: tuple[int, int], demanded: float
):
    succeeded, sent = counts
    chance = math.fsum(
        math.comb(sent, count) * demanded**count * (1 - demanded) ** (sent - count) for count in range(succeeded + 1)
    )

    if abs(chance - LEVEL) > 1e-9:
        assert SuccessCount(succeeded, sent).is_below(demanded) == (succeeded < sent and chance < LEVEL)


@pytest.mark.parametrize(
    ("succeeded", "sent", "is_below"), [(0, 0, False), (5, 6, False), (0, 2, True), (950, 1000, False)]
)
def test_small_cells_do_not_fail_by_one_request(succeeded: int, sent: int, is_below: bool):
    assert SuccessCount(succeeded, sent).is_below(0.95) == is_below


def test_nothing_less_than_all_is_enough_when_all_is_demanded():
    assert SuccessCount(99, 100).is_below(1.0)
    assert not SuccessCount(100, 100).is_below(1.0)
