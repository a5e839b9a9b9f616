"""What is grown for all drafts at once is what a heap grows for each, step by step."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.errors import MeasurementError
from autotune.replay.acceptance import count_accepted
from autotune.replay.grown_tree import GrownTrees, count_grown, find_rule
from autotune.replay.table import predict
from tests.replay.drafts import random_texts

BUDGET = 24


def grow(rows: Sequence[Sequence[float]], topk: int, budget: int, rule: GrownTrees) -> set[tuple[int, ...]]:
    """Build one tree as a set of paths of ranks, choosing among all open paths each time."""
    depth = len(rows)
    if budget <= depth:
        return {(0,) * length for length in range(1, budget + 1)}
    width = min(topk, max(budget // depth + 1, 2))

    def score(path: tuple[int, ...]) -> float:
        return sum(row[rank] for row, rank in zip(rows, path, strict=False)) + rule.bonus * (len(path) - 1)

    lowest = score((0,)) - math.log(budget) - rule.margin
    open_paths: set[tuple[int, ...]] = {(0,)}
    tree: set[tuple[int, ...]] = set()
    while open_paths and len(tree) < budget:
        path = min(open_paths, key=lambda each: (-score(each), each))
        open_paths.remove(path)
        if any(path) and score(path) < lowest:
            continue
        tree.add(path)
        if path[-1] + 1 < width:
            open_paths.add((*path[:-1], path[-1] + 1))
        if len(path) < depth:
            open_paths.add((*path, 0))
    return tree


def reach(tree: set[tuple[int, ...]], ranks: Sequence[int]) -> int:
    """Return how many tokens of a text are in a tree."""
    return sum(1 for _ in itertools.takewhile(tree.__contains__, (tuple(ranks[:n]) for n in range(1, len(ranks) + 1))))


@st.composite
def _drafts(draw: st.DrawFn) -> tuple[list[list[float]], list[int], GrownTrees]:
    positions, width = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    value = st.floats(-6.0, -1e-3, allow_subnormal=False)
    rows = [
        sorted(draw(st.lists(value, min_size=width, max_size=width, unique=True)), reverse=True)
        for _ in range(positions)
    ]
    # Scores that differ by no more than rounding would be in either order.
    rows = [
        [each + 1e-7 * math.sin(97.0 * (position * 7 + rank + each)) for rank, each in enumerate(row)]
        for position, row in enumerate(rows)
    ]
    ranks = draw(st.lists(st.integers(-1, width - 1), min_size=positions, max_size=positions))
    return rows, ranks, GrownTrees(draw(st.sampled_from([0.2, 0.0, 1.5, -0.3])), draw(st.sampled_from([1.0, 0.1, 5.0])))


@settings(deadline=None, max_examples=200)
@given(_drafts())
def test_every_tree_accepts_what_its_nodes_hold(draft: tuple[list[list[float]], list[int], GrownTrees]):
    rows, ranks, rule = draft
    topks = range(1, len(rows[0]) + 1)
    options: dict[str, Any] = {"topks": topks, "largest_budget": BUDGET, "positions": len(rows)}

    found = count_grown(np.array([rows]), np.array([ranks]), rule, **options)

    for topk in topks:
        expected = [reach(grow(rows, topk, budget, rule), ranks) for budget in range(1, BUDGET + 1)]
        assert expected == found[0, topk - 1].tolist()


def test_many_drafts_are_grown_as_each_alone():
    rng = np.random.default_rng(5)
    logprobs = np.log(-np.sort(-rng.dirichlet([1.0] * 8, (300, 7)), axis=2)[:, :, :5])
    ranks = np.where(rng.random((300, 7)) < 0.6, 0, rng.integers(-1, 5, (300, 7)))
    rule = GrownTrees()

    found = count_grown(logprobs, ranks, rule, topks=[2, 5], largest_budget=40, positions=7)

    for number in range(0, 300, 7):
        for column, topk in enumerate((2, 5)):
            for budget in (1, 7, 8, 13, 14, 22, 28, 40):
                tree = grow(logprobs[number], topk, budget, rule)
                assert reach(tree, ranks[number]) == found[number, column, budget - 1]


def test_without_bonus_and_limits_it_is_the_best_first_tree():
    rng = np.random.default_rng(6)
    logprobs = np.log(-np.sort(-rng.dirichlet([1.0] * 6, (200, 4)), axis=2)[:, :, :3])
    ranks = rng.integers(-1, 3, (200, 4))
    options: dict[str, Any] = {"topks": [2, 3], "largest_budget": 30, "positions": 4}

    grown = count_grown(logprobs, ranks, GrownTrees(0.0, math.inf), **options)
    best = count_accepted(logprobs, ranks, **options)

    assert grown[:, 0, 4:].tolist() == best[:, 0, 4:].tolist()  # larger than a chain
    assert grown[:, 1, 7:].tolist() == best[:, 1, 7:].tolist()  # and wide enough for three tokens
    assert (grown[:, :, :4] != best[:, :, :4]).any()


def test_a_drafter_that_is_unsure_makes_this_rule_matter():
    """Accept lengths of such trees differ from those of best-first trees, so the rule has to be the server's own."""
    options: dict[str, Any] = {"window": None, "block": 8, "topks": (4,), "largest_budget": 28}
    texts = random_texts(9, 6)

    grown, best = predict(texts, rule=GrownTrees(), **options), predict(texts, **options)

    assert grown is not None
    assert best is not None
    found = [table.find(28, 4) for table in (grown, best)]
    assert found[0] != found[1]
    assert grown.find(7, 4) is not None


@pytest.mark.parametrize(
    ("proofs", "variables", "rule"),
    [
        (("best-first-tree",), {}, None),
        ((), {"SGLANG_DDTREE_DEPTH_BONUS": "0.5"}, None),
        (("depth-bonus-tree",), {}, GrownTrees(0.2, 1.0)),
        (("depth-bonus-tree",), {"SGLANG_DDTREE_DEPTH_BONUS": "0.5"}, GrownTrees(0.5, 1.0)),
    ],
)
def test_the_rule_is_what_the_server_is_known_to_do(
    proofs: tuple[str, ...], variables: dict[str, str], rule: GrownTrees | None
):
    assert find_rule(proofs, variables) == rule


@pytest.mark.parametrize("text", ["much", "nan", "inf", ""])
def test_a_bonus_that_is_no_number_is_said(text: str):
    with pytest.raises(MeasurementError, match="cannot be rebuilt"):
        find_rule(("depth-bonus-tree",), {"SGLANG_DDTREE_DEPTH_BONUS": text})


def test_ranks_that_were_not_logged_cannot_be_told():
    with pytest.raises(ValueError, match="topk 1 to 3 cannot be told from 2 ranks"):
        count_grown(
            np.zeros((1, 2, 2)), np.zeros((1, 2), int), GrownTrees(), topks=[1, 3], largest_budget=4, positions=2
        )
