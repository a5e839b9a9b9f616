"""Predicted accept lengths and how far they may be off."""

from __future__ import annotations

import math
from typing import Any

import pytest

from autotune.replay.table import FLOOR, GAP_BIAS, AcceptLengthTable, pool, predict
from tests.replay.drafts import drafted, random_texts

ONE: dict[str, Any] = {"window": None, "block": 4, "topks": [1], "largest_budget": 3}


def table(
    lengths: tuple[tuple[float, ...], ...], deviations: tuple[tuple[float, ...], ...] = ((0.02,),), **changes: Any
) -> AcceptLengthTable:
    fields: dict[str, Any] = {"window": None, "block": 16, "texts": 2, "topks": (1,)} | changes
    return AcceptLengthTable(accept_lengths=lengths, deviations=deviations, **fields)


def test_accept_length_is_tokens_over_steps_of_all_texts_together():
    texts = [drafted(range(7), [2, 3, 3, 0, 1, 3, 3]), drafted(range(11), [0] * 11)]

    found = predict(texts, **ONE)

    assert found is not None
    assert found.accept_lengths[2] == (round(16 / 13, 4),)
    assert (found.texts, found.block) == (2, 4)


def test_texts_that_differ_make_it_uncertain():
    """Of two texts with 6 tokens in 3 steps and 10 in 10 the ratio is 16/13, the residuals are 6 - 48/13 and its opposite."""
    texts = [drafted(range(7), [2, 3, 3, 0, 1, 3, 3]), drafted(range(11), [0] * 11)]
    residual = 6 - 3 * 16 / 13

    found = predict(texts, **ONE)

    assert found is not None
    assert found.deviations[2][0] == pytest.approx(math.hypot(2 * residual / 16, FLOOR), abs=1e-4)


def test_equal_texts_leave_the_floor():
    found = predict([drafted(range(9), [1] * 9)] * 4, **ONE)

    assert found is not None
    assert found.deviations[2] == (FLOOR,)


def test_steps_in_gaps_make_it_uncertain():
    found = predict([drafted(range(8), [1, 1, -1, 1, 1, 1, 1, 1])], **ONE)

    assert found is not None
    assert found.deviations[2][0] == pytest.approx(math.hypot(GAP_BIAS / 3, FLOOR), abs=1e-4)


def test_without_a_step_nothing_is_predicted():
    assert predict([], **ONE) is None
    assert predict([drafted(range(1), [0])], **ONE) is None
    assert predict([drafted(range(5), [-1, -1, -1, -1, 3])], **ONE) is None


def test_budgets_are_rows_and_topks_are_columns():
    found = predict(random_texts(5, 6), window=64, block=8, topks=[1, 2, 4], largest_budget=10)

    assert found is not None
    assert (len(found.accept_lengths), len(found.accept_lengths[0])) == (10, 3)
    assert found.find(10, 4) == (found.accept_lengths[9][2], found.deviations[9][2])
    assert found.find(11, 4) is found.find(10, 3) is found.find(0, 1) is None
    assert all(1 <= value <= 8 for row in found.accept_lengths for value in row)


def test_contexts_are_pooled_by_their_weights():
    pooled = pool([table(((2.0,),)), table(((8.0,),), ((0.04,),), texts=3)], [1.0, 1.0])

    assert pooled.accept_lengths == ((4.0,),)
    assert pooled.deviations == ((0.03,),)
    assert pooled.texts == 5
    assert pool([table(((2.0,),)), table(((8.0,),))], [1.0, 0.0]).accept_lengths == ((2.0,),)


def test_tables_of_other_trees_are_not_pooled():
    with pytest.raises(ValueError, match="different trees"):
        pool([table(((2.0,),)), table(((2.0,),), block=8)], [1.0, 1.0])
