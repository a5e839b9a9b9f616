from __future__ import annotations

import itertools
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.objectives import expected_cells
from autotune.simulation.catalogue import open_surface
from autotune.simulation.parametric import BLOCKS, WINDOWS, LevelSurface
from autotune.simulation.surface import CellTruth, Obstacle, Surface
from autotune.simulation.truth import find_truth
from autotune.trial import Cell

BUDGETS = st.integers(1, 63)
TREES = st.tuples(BUDGETS, st.integers(2, 8), st.sampled_from(WINDOWS), st.sampled_from(BLOCKS))
LAWFUL = ("roomy", "tight", "stairs")
SHORT, LONG = 1024, 8192

surface_of = cache(open_surface)
truth_of = cache(lambda name: find_truth(surface_of(name)))


def length_of(truth: CellTruth) -> float:
    assert truth.accept_length is not None
    return truth.accept_length


def configuration(budget: int, topk: int, window: int | None = None, block: int = 16):
    return {"budget": budget, "topk": topk, "window": window, "block": block}


@pytest.mark.parametrize("name", LAWFUL)
@given(tree=TREES, concurrency=st.sampled_from([1, 8, 32]))
def test_a_larger_tree_takes_longer_and_accepts_no_less(name, tree, concurrency):
    budget, *rest = tree
    smaller, larger = (
        surface_of(name).truth(configuration(each, *rest), Cell(LONG, concurrency)) for each in (budget, budget + 1)
    )

    assert larger.step_time_s >= smaller.step_time_s
    assert length_of(larger) >= length_of(smaller)


@pytest.mark.parametrize("name", LAWFUL)
@given(tree=TREES)
def test_accept_lengths_do_not_depend_on_the_concurrency_and_stay_within_the_block(name, tree):
    alone, crowd = (surface_of(name).truth(configuration(*tree), Cell(LONG, each)) for each in (1, 32))

    assert alone.accept_length == crowd.accept_length
    assert 1 < length_of(alone) <= tree[3]


@given(tree=TREES)
def test_a_window_acts_only_on_longer_contexts(tree):
    budget, topk, _, block = tree
    truths = {
        (context, window): surface_of("roomy").truth(configuration(budget, topk, window, block), Cell(context, 32))
        for context in (SHORT, LONG)
        for window in (1024, 4096, None)
    }

    assert truths[SHORT, 1024] == truths[SHORT, 4096] == truths[SHORT, None]
    assert length_of(truths[LONG, 1024]) < length_of(truths[LONG, 4096]) < length_of(truths[LONG, None])
    assert truths[LONG, 1024].step_time_s < truths[LONG, 4096].step_time_s < truths[LONG, None].step_time_s


def test_plain_decoding_has_no_accept_length_and_is_an_arm_of_its_own():
    surface = surface_of("roomy")
    plain, smallest = (surface.truth(configuration(each, 4), Cell(SHORT, 1)) for each in (0, 1))

    assert plain.accept_length is None
    assert plain.step_time_s < 0.95 * smallest.step_time_s


def test_prefill_does_not_depend_on_the_tree():
    surface = surface_of("roomy")

    assert len({surface.truth(each, Cell(LONG, 32)).prefill_s for each in surface.space.configurations[:200]}) == 1


def budget_of(name: str, concurrency: int) -> int:
    """The budget that is truly fastest in the short context."""
    surface = surface_of(name)
    fastest = max(
        surface.space.configurations,
        key=lambda each: surface.truth(each, Cell(SHORT, concurrency)).tokens_per_s(concurrency),
    )
    return int(str(fastest["budget"]))


def test_on_a_roomy_machine_large_trees_pay_for_one_user():
    assert budget_of("roomy", 1) >= 32
    assert 4 <= budget_of("roomy", 32) < budget_of("roomy", 1)


def test_on_a_tight_machine_hardly_any_tree_pays_for_many():
    assert budget_of("tight", 1) >= 8
    assert budget_of("tight", 32) <= 4


def test_on_stairs_a_node_may_cost_a_whole_tile():
    surface = surface_of("stairs")
    steps = [surface.truth(configuration(each, 4), Cell(SHORT, 32)).step_time_s for each in range(12, 20)]
    rises = [after - before for before, after in itertools.pairwise(steps)]

    assert max(rises) > 10 * min(rises)


def test_on_stairs_the_whole_context_is_worse_than_a_window():
    surface = surface_of("stairs")
    lengths = {window: length_of(surface.truth(configuration(16, 4, window), Cell(LONG, 1))) for window in WINDOWS}

    assert max(lengths, key=lambda window: lengths[window]) == 2048


def test_a_quarter_of_the_cliff_runs_out_of_memory_and_larger_trees_never_come_back():
    surface = surface_of("cliff")
    met = [surface.find_obstacle(each) for each in surface.space.configurations]

    assert set(met) == {None, Obstacle.OUT_OF_MEMORY}
    assert 0.2 < sum(each is not None for each in met) / len(met) < 0.3
    for topk in range(2, 9):
        out = [surface.find_obstacle(configuration(budget, topk)) is not None for budget in range(1, 65)]
        assert out == sorted(out)


def test_before_the_cliff_everything_is_as_on_the_roomy_machine():
    cliff, roomy = truth_of("cliff"), truth_of("roomy")

    assert len(cliff.values) < len(roomy.values)
    assert all(value == roomy.values[key] for key, value in cliff.values.items())


def test_on_a_flat_surface_nothing_is_faster_than_anything():
    truth = truth_of("flat")
    points = {tuple(round(speed, 6) for speed in value.point) for value in truth.values.values()}

    assert len(points) == 1
    assert truth.best_merit == pytest.approx(1.0)


@pytest.mark.parametrize(("name", "gain"), [("peak-4", 0.04), ("peak-10", 0.10)])
def test_a_peak_is_one_family_of_a_tenth_of_the_space_and_not_the_baseline(name, gain):
    surface, truth = surface_of(name), truth_of(name)
    family = [each for each in surface.space.configurations if LevelSurface.is_in_family(each)]

    assert 0.05 < len(family) / surface.space.size < 0.25
    assert truth.best_merit == pytest.approx(1 + gain)
    assert not LevelSurface.is_in_family(surface.space.resolve(surface.settings.baseline))
    assert {round(truth.merit(key, "balanced"), 6) for key in truth.values} == {1.0, 1 + gain}


@pytest.mark.parametrize("name", [*LAWFUL, "cliff"])
def test_there_is_something_to_win_over_the_baseline(name):
    assert truth_of(name).best_merit > 1.03


@pytest.mark.parametrize("name", [*LAWFUL, "cliff", "flat"])
def test_a_surface_answers_for_every_cell_of_its_study(name):
    surface: Surface = surface_of(name)
    for cell in expected_cells(surface.settings):
        assert surface.truth(surface.space.resolve(surface.settings.baseline), cell).tokens_per_s(cell.concurrency) > 0


@pytest.mark.parametrize("name", ["cliff", "brim"])
def test_what_leaves_too_little_memory_free_does_not_serve(name: str):
    surface = open_surface(name)
    free = [surface.free_memory_gb(each) for each in surface.space.configurations]
    serves = [surface.find_obstacle(each) is None for each in surface.space.configurations]

    known = [value for value in free if value is not None]
    assert len(known) == len(free)
    assert min(value for value, is_fine in zip(known, serves, strict=True) if is_fine) > max(
        value for value, is_fine in zip(known, serves, strict=True) if not is_fine
    )
    assert 0.2 < serves.count(False) / len(serves) < 0.6
