from __future__ import annotations

import itertools
import math

from hypothesis import given
from hypothesis import strategies as st

from autotune.ddtree.training.acceptance import accepted


def brute_force(rows: list[list[float]], ranks: list[int], budget: int) -> int:
    """Depth of the true path within the ``budget`` likeliest paths, by listing all of them."""
    paths = [
        (sum(row[rank] for row, rank in zip(rows, path, strict=False)), path)
        for depth in range(1, len(rows) + 1)
        for path in itertools.product(range(len(rows[0])), repeat=depth)
    ]
    best = {path for _, path in sorted(paths, key=lambda item: -item[0])[:budget]}
    return max((depth for depth in range(1, len(rows) + 1) if tuple(ranks[:depth]) in best), default=0)


@given(st.data(), st.integers(1, 3), st.integers(1, 4), st.integers(1, 20))
def test_the_tree_holds_the_likeliest_paths(data, topk, depth, budget):
    # Different weights, so that no two paths are equally likely.
    weights = data.draw(st.lists(st.integers(1, 10**6), min_size=topk * depth, max_size=topk * depth))
    values = [-(weight + math.sqrt(index + 2)) / 10**6 for index, weight in enumerate(weights)]
    rows = [sorted(values[i * topk : (i + 1) * topk], reverse=True) for i in range(depth)]
    ranks = data.draw(st.lists(st.integers(-1, topk - 1), min_size=depth, max_size=depth))

    assert brute_force(rows, ranks, budget) == accepted(rows, ranks, budget)


def test_a_chain_of_sure_tokens_is_accepted_as_far_as_the_budget_reaches():
    rows = [[-0.01, -5.0]] * 7

    assert accepted(rows, [0] * 7, 4) == 4
    assert accepted(rows, [0, 0, 1, 0, 0, 0, 0], 4) == 2
    assert accepted(rows, [-1] * 7, 32) == 0
