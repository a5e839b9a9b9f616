"""What is counted without trees is what the trees of the embedded server hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.ddtree.tree import best_first_tree
from autotune.replay.acceptance import count_accepted, rank_text

BUDGET = 20
COARSE = st.sampled_from([0.0, -0.25, -0.5, -1.0, -2.0])
"""So coarse that many paths have the same score."""
FINE = st.floats(-6.0, 0.0)


@st.composite
def _drafts(draw: st.DrawFn) -> tuple[list[list[float]], list[int]]:
    """Log-probabilities of one draft, descending by rank, and the ranks of a text."""
    positions, width = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    values = draw(st.sampled_from([COARSE, FINE]))
    rows = [sorted(draw(st.lists(values, min_size=width, max_size=width)), reverse=True) for _ in range(positions)]
    ranks = draw(st.lists(st.integers(-1, width - 1), min_size=positions, max_size=positions))
    return rows, ranks


def accepted_by_tree(rows: Sequence[Sequence[float]], ranks: Sequence[int], budget: int) -> int:
    """Walk the embedded server's own tree along the ranks of the text."""
    tree = best_first_tree(rows, budget)
    children = {
        (parent, rank): slot for slot, (parent, rank) in enumerate(zip(tree.parents, tree.ranks, strict=True), 1)
    }
    slot, depth = 0, 0
    while depth < len(ranks) and (slot, ranks[depth]) in children:
        slot, depth = children[slot, ranks[depth]], depth + 1
    return depth


@settings(deadline=None, max_examples=150)
@given(_drafts())
def test_every_tree_accepts_what_its_nodes_hold(draft: tuple[list[list[float]], list[int]]):
    rows, ranks = draft
    topks = range(1, len(rows[0]) + 1)

    found = count_accepted(np.array([rows]), np.array([ranks]), topks=topks, largest_budget=BUDGET, positions=len(rows))

    for topk in topks:
        kept = [row[:topk] for row in rows]
        assert [accepted_by_tree(kept, ranks, budget) for budget in range(1, BUDGET + 1)] == found[0, topk - 1].tolist()


def test_drafts_are_counted_independently_of_each_other():
    rng = np.random.default_rng(3)
    logprobs = -np.sort(rng.exponential(1.0, (60, 6, 3)), axis=2)
    ranks = rng.integers(-1, 3, (60, 6))
    options: dict[str, Any] = {"topks": [2, 3], "largest_budget": BUDGET, "positions": 6}

    together = count_accepted(logprobs, ranks, **options)

    for number in range(60):
        alone = count_accepted(logprobs[number : number + 1], ranks[number : number + 1], **options)
        assert alone.tolist() == together[number : number + 1].tolist()


def test_a_larger_budget_never_accepts_less_and_a_chain_accepts_its_run_of_first_ranks():
    rng = np.random.default_rng(4)
    logprobs = -np.sort(rng.exponential(1.0, (200, 7, 4)), axis=2)
    ranks = np.where(rng.random((200, 7)) < 0.7, 0, rng.integers(-1, 4, (200, 7)))

    found = count_accepted(logprobs, ranks, topks=[1, 4], largest_budget=30, positions=7)

    assert (np.diff(found.astype(int), axis=2) >= 0).all()
    runs = np.cumprod(ranks == 0, axis=1).sum(1)
    for budget in range(1, 31):
        assert np.minimum(runs, budget).tolist() == found[:, 0, budget - 1].tolist()


def test_no_tree_reaches_beyond_the_block():
    ranks = np.zeros((1, 15), int)
    logprobs = np.tile(np.log([0.9, 0.1]), (1, 15, 1))

    found = count_accepted(logprobs, ranks, topks=[1, 2], largest_budget=64, positions=7)

    assert found[0, :, -1].tolist() == [7, 7]


def test_ranks_that_were_not_logged_cannot_be_asked_for():
    with pytest.raises(ValueError, match="2 ranks"):
        count_accepted(np.zeros((1, 3, 2)), np.zeros((1, 3), int), topks=[3], largest_budget=4, positions=3)


def test_the_rank_of_the_text_is_unknown_beyond_its_end_and_where_no_rank_has_it():
    tokens = np.array([[[5, 6], [7, 8], [9, 1]], [[7, 6], [1, 2], [3, 4]]])

    ranks = rank_text(tokens, np.array([0, 1]), np.array([4, 6, 7, 2]))

    assert ranks.tolist() == [[1, 0, -1], [0, 1, -1]]
