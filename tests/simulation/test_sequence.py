from __future__ import annotations

import random
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from autotune.sampling.base import History
from autotune.search_space import load_search_space
from autotune.simulation.sequence import SequenceSampler, draw_order, spread_grid
from autotune.trial import Configuration, TrialKind, TrialRecord
from tests.records import make_settings, make_trial
from tests.simulation.table_surface import TableSurface

SPACE = TableSurface({1: (1.0, 1.0, 1.0), 9: (1.0, 1.0, 1.0)}).space
DDTREE = load_search_space("ddtree", proofs=frozenset({"best-first-tree"}))


def propose(
    sampler: SequenceSampler,
    trials: Sequence[TrialRecord] = (),
    pending: Sequence[Configuration] = (),
    seed: int = 1,
) -> Configuration:
    history = History(make_settings(), tuple(trials), None)
    return sampler.propose(history, SPACE, pending, random.Random(seed))  # noqa: S311


def test_a_sequence_is_proposed_in_its_order_whatever_was_measured():
    sampler = SequenceSampler([{"budget": 3}, {"budget": 5}, {"budget": 2}])
    measured = make_trial(1, configuration={"budget": 3})

    assert propose(sampler) == {"budget": 3}
    assert propose(sampler, [measured]) == {"budget": 5}
    assert propose(sampler, [measured], [{"budget": 5}]) == {"budget": 2}


def test_the_baseline_was_not_asked_for_by_the_sequence():
    baseline = make_trial(0, configuration={"budget": 3}, kind=TrialKind.BASELINE)

    assert propose(SequenceSampler([{"budget": 3}]), [baseline]) == {"budget": 3}


def test_after_the_last_one_is_drawn_at_random():
    drawn = {propose(SequenceSampler([]), seed=seed)["budget"] for seed in range(50)}

    assert len(drawn) > 5


def test_a_drawn_order_depends_on_its_seed_alone_and_names_each_once():
    order = draw_order(DDTREE, 100, 3)

    assert order == draw_order(DDTREE, 100, 3)
    assert order != draw_order(DDTREE, 100, 4)
    assert len({DDTREE.key(each) for each in order}) == 100
    assert len(draw_order(SPACE, 100, 1)) == SPACE.size


@given(st.integers(1, 60))
def test_a_grid_has_as_many_points_as_asked_for_unless_they_are_the_same(count):
    grid = spread_grid(SPACE, count)

    assert len({SPACE.key(each) for each in grid}) == len(grid) == min(count, SPACE.size)


def test_a_grid_reaches_both_ends_of_every_parameter():
    grid = spread_grid(DDTREE, 40)

    assert {0, 64} <= {each["budget"] for each in grid}
    assert {1, 8} <= {each["topk"] for each in grid}
    assert {32, None} <= {each["window"] for each in grid}


def test_every_beginning_of_a_grid_is_spread_out():
    budgets = [int(str(each["budget"])) for each in spread_grid(DDTREE, 40)[:10]]

    assert max(budgets) > 40
    assert min(budgets) < 15


def test_a_grid_is_canonical():
    grid = spread_grid(DDTREE, 200)

    assert all(DDTREE.canonicalise(each) == each for each in grid)
