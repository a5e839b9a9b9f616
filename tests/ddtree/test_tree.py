"""The draft tree is the best one under its budget, whoever builds it."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.ddtree.tree import (
    DraftTree,
    ancestor_matrices,
    ancestor_rows,
    best_first_tree,
    count_nodes,
    effective_width,
    level_wise_trees,
    reachable_depth,
)

Marginals = list[list[float]]


@st.composite
def marginals(draw: st.DrawFn, deepest: int = 7, widest: int = 5, *, coarse: bool = False) -> Marginals:
    """Log-probabilities by rank for a few positions; coarse ones are full of ties, certain tokens among them."""
    positions, width = draw(st.integers(1, deepest)), draw(st.integers(1, widest))
    value = st.integers(-3, 0).map(float) if coarse else st.floats(-12.0, 0.0, width=32)
    return [sorted(draw(st.lists(value, min_size=width, max_size=width)), reverse=True) for _ in range(positions)]


def paths(tree: DraftTree) -> list[tuple[int, ...]]:
    """Ranks from the root to each node, in the order of the nodes."""
    result: list[tuple[int, ...]] = [()]
    for parent, depth, rank in zip(tree.parents, tree.depths, tree.ranks, strict=True):
        result.append((*result[parent], rank))
        assert depth + 1 == len(result[-1])
    return result[1:]


def level_wise(log_probabilities: Marginals, budget: int) -> DraftTree:
    parts = level_wise_trees(torch.tensor([log_probabilities], dtype=torch.float64), budget)
    return DraftTree(*(tuple(part[0].tolist()) for part in parts))


@given(marginals(), st.integers(1, 40))
@settings(max_examples=150, deadline=None)
def test_both_builders_give_the_same_tree_in_the_same_order(log_probabilities: Marginals, budget: int) -> None:
    assert best_first_tree(log_probabilities, budget) == level_wise(log_probabilities, budget)


@given(marginals(coarse=True), st.integers(1, 40))
@settings(max_examples=150, deadline=None)
def test_both_builders_break_ties_alike(log_probabilities: Marginals, budget: int) -> None:
    assert best_first_tree(log_probabilities, budget) == level_wise(log_probabilities, budget)


def test_a_batch_of_trees_equals_each_tree_alone() -> None:
    torch.manual_seed(3)
    batch = torch.randn(9, 15, 40).mul_(2).log_softmax(-1).topk(6, -1).values

    parents, depths, ranks = level_wise_trees(batch, 48)

    for number, row in enumerate(batch.tolist()):
        expected = best_first_tree(row, 48)
        assert expected.parents == tuple(parents[number].tolist())
        assert expected.depths == tuple(depths[number].tolist())
        assert expected.ranks == tuple(ranks[number].tolist())


def best_prefix_closed_value(log_probabilities: Marginals, budget: int) -> float:
    """Largest sum of path probabilities over all prefix-closed sets, by trying every one."""
    width, positions = len(log_probabilities[0]), len(log_probabilities)

    def forests(prefix: tuple[int, ...], score: float, left: int) -> dict[int, float]:
        """Best value of a subtree below this path by its number of nodes, every split of the nodes tried."""
        best = {0: 0.0}
        if len(prefix) == positions or left == 0:
            return best
        for rank in range(width):
            own = score + log_probabilities[len(prefix)][rank]
            below = forests((*prefix, rank), own, left - 1)
            merged = dict(best)
            for (used, value), (more, gain) in itertools.product(best.items(), below.items()):
                nodes = used + more + 1
                if nodes <= left:
                    merged[nodes] = max(merged.get(nodes, -1.0), value + math.exp(own) + gain)
            best = merged
        return best

    return max(forests((), 0.0, budget).values())


@given(marginals(deepest=4, widest=3), st.integers(1, 7))
@settings(max_examples=80, deadline=None)
def test_no_prefix_closed_set_of_this_size_expects_more_accepted_tokens(
    log_probabilities: Marginals, budget: int
) -> None:
    nodes = paths(best_first_tree(log_probabilities, budget))

    value = math.fsum(math.exp(sum(log_probabilities[d][r] for d, r in enumerate(path))) for path in nodes)

    assert value == pytest.approx(best_prefix_closed_value(log_probabilities, budget), rel=1e-9)


def literal_best_set(log_probabilities: Marginals, budget: int) -> float:
    """The same by listing sets of paths outright (tiny cases only): checks the reference itself."""
    width, positions = len(log_probabilities[0]), len(log_probabilities)
    nodes = [path for depth in range(1, positions + 1) for path in itertools.product(range(width), repeat=depth)]
    values = {path: math.exp(sum(log_probabilities[d][r] for d, r in enumerate(path))) for path in nodes}
    best = 0.0
    for chosen in itertools.combinations(nodes, min(budget, len(nodes))):
        kept = {(), *chosen}
        if all(path[:-1] in kept for path in chosen):
            best = max(best, sum(values[path] for path in chosen))
    return best


@given(marginals(deepest=3, widest=2), st.integers(1, 5))
@settings(max_examples=40, deadline=None)
def test_the_best_set_by_outright_enumeration_is_the_tree(log_probabilities: Marginals, budget: int) -> None:
    nodes = paths(best_first_tree(log_probabilities, budget))

    value = math.fsum(math.exp(sum(log_probabilities[d][r] for d, r in enumerate(path))) for path in nodes)

    assert value == pytest.approx(literal_best_set(log_probabilities, budget), rel=1e-9)


@given(marginals(deepest=15, widest=6), st.integers(1, 64))
@settings(max_examples=100, deadline=None)
def test_a_tree_keeps_its_promises(log_probabilities: Marginals, budget: int) -> None:
    tree = best_first_tree(log_probabilities, budget)
    nodes = paths(tree)

    assert len(nodes) == len(set(nodes)) == count_nodes(budget, len(log_probabilities), len(log_probabilities[0]))
    assert all(path[:-1] in {(), *nodes} for path in nodes)
    assert all(path[-1] == 0 or (*path[:-1], path[-1] - 1) in nodes for path in nodes)
    assert all(parent <= slot for slot, parent in enumerate(tree.parents))
    assert max(tree.depths) < reachable_depth(budget, len(log_probabilities) + 1)
    scores = [sum(log_probabilities[d][r] for d, r in enumerate(path)) for path in nodes]
    assert all(later <= earlier + 1e-9 for earlier, later in itertools.pairwise(scores))


@pytest.mark.parametrize("budget", [1, 4, 7, 20])
def test_topk_one_gives_the_chain_for_every_budget(budget: int) -> None:
    tree = best_first_tree([[-0.5]] * 7, budget)

    assert tuple(range(min(budget, 7))) == tree.parents == tree.depths


def test_a_small_budget_may_still_branch() -> None:
    assert best_first_tree([[-1.0, -1.1], [-3.0, -4.0]], 2).parents == (0, 0)


@given(marginals(), st.integers(1, 20))
@settings(max_examples=60, deadline=None)
def test_ancestors_are_the_same_on_host_and_device(log_probabilities: Marginals, budget: int) -> None:
    parents = best_first_tree(log_probabilities, budget).parents
    slots = len(parents) + 1
    expected = []
    for slot in range(slots):
        line, ancestor = {slot, 0}, slot
        while ancestor:
            ancestor = parents[ancestor - 1]
            line.add(ancestor)
        expected.append([other in line for other in range(slots)])

    assert expected == ancestor_matrices(torch.tensor([parents]), len(log_probabilities))[0].tolist()
    assert expected == torch.tensor(list(ancestor_rows(parents))).view(slots, slots).bool().tolist()


@pytest.mark.parametrize(
    ("budget", "block", "topk", "clipped"),
    [(1, 16, 6, 2), (14, 16, 6, 2), (15, 16, 6, 2), (64, 16, 6, 5), (64, 8, 6, 6)],
)
def test_the_width_clip_is_a_switch(budget: int, block: int, topk: int, clipped: int) -> None:
    assert clipped == effective_width(budget, block, topk, clip_width=True)
    assert topk == effective_width(budget, block, topk, clip_width=False)
