from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.simulation.drafter import LARGEST_BUDGET, Drafter, Place
from autotune.simulation.parametric import GOOD_DRAFTER

BUDGETS = st.integers(0, LARGEST_BUDGET - 1)
TOPKS = st.integers(1, 8)
BLOCKS = st.sampled_from([2, 4, 8, 16])


def test_a_chain_gains_the_products_of_its_likelihoods():
    drafter = Drafter((Place(1.0, 0.5, 1.0),))

    assert drafter.accept_length(0, 1, 16) == 1.0
    assert drafter.accept_length(1, 1, 16) == 1.5
    assert drafter.accept_length(3, 1, 16) == 1.875


def test_a_tree_takes_the_second_token_where_it_is_likelier_than_a_longer_path():
    drafter = Drafter((Place(1.0, 0.5, 0.5),))
    second, deeper = 0.5 * 0.85 * 0.5, 0.5 * 0.25

    assert second > deeper
    assert drafter.accept_length(2, 2, 16) == pytest.approx(1 + 0.5 + second)
    assert drafter.accept_length(2, 1, 16) == pytest.approx(1 + 0.5 + deeper)


@given(BUDGETS, TOPKS, BLOCKS)
def test_it_rises_with_the_budget_ever_more_slowly(budget, topk, block):
    lengths = [GOOD_DRAFTER.accept_length(each, topk, block) for each in range(LARGEST_BUDGET + 1)]
    gains = [after - before for before, after in itertools.pairwise(lengths)]

    assert gains[budget] >= 0
    assert budget == 0 or gains[budget] <= gains[budget - 1] + 1e-12


@given(BUDGETS, TOPKS, BLOCKS, st.floats(0.1, 1.5))
def test_it_never_exceeds_the_block(budget, topk, block, quality):
    assert 1 <= GOOD_DRAFTER.accept_length(budget, topk, block, quality) <= block


@given(BUDGETS, st.integers(1, 7), BLOCKS)
def test_more_tokens_and_longer_blocks_never_accept_less(budget, topk, block):
    here = GOOD_DRAFTER.accept_length(budget, topk, block)

    assert GOOD_DRAFTER.accept_length(budget, topk + 1, block) >= here - 1e-12
    assert GOOD_DRAFTER.accept_length(budget, topk, 2 * block) >= here - 1e-12


def test_a_worse_drafter_accepts_less():
    assert GOOD_DRAFTER.accept_length(16, 4, 16, 0.9) < GOOD_DRAFTER.accept_length(16, 4, 16)


def test_the_shares_of_places_add_up():
    assert math.isclose(sum(place.share for place in GOOD_DRAFTER.places), 1.0)


@given(BUDGETS, TOPKS, BLOCKS)
def test_a_step_accepts_at_least_one_token_more_ever_more_seldom(budget, topk, block):
    reached = GOOD_DRAFTER.accepts_at_least(budget, topk, block)

    assert len(reached) == block - 1
    assert all(1 >= one >= other >= 0 for one, other in itertools.pairwise((1.0, *reached)))
    assert 1 + math.fsum(reached) == pytest.approx(GOOD_DRAFTER.accept_length(budget, topk, block))
