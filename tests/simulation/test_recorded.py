from __future__ import annotations

import csv
import statistics
from functools import cache

import pytest

from autotune.objectives import expected_cells
from autotune.packaged import find_packaged
from autotune.simulation.catalogue import open_surface
from autotune.simulation.recorded import EARLIER_TABLE, LARGE_TABLE, TABLES, RecordedTable
from autotune.simulation.surface import CellTruth
from autotune.trial import Cell

RECORDED = ("h200-large", "h200-small", "h200-big")
surface_of = cache(open_surface)


def rows_of(table: RecordedTable) -> list[dict[str, str]]:
    path = find_packaged(TABLES, table.file)
    assert path is not None
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def length_of(truth: CellTruth) -> float:
    assert truth.accept_length is not None
    return truth.accept_length


def configuration(budget: int, topk: int = 4, window: int | None = None, block: int = 16):
    return {"budget": budget, "topk": topk, "window": window, "block": block}


@pytest.mark.parametrize("name", RECORDED)
def test_the_table_answers_for_the_whole_space(name):
    surface = surface_of(name)
    for cell in expected_cells(surface.settings):
        for each in surface.space.configurations:
            truth = surface.truth(each, cell)
            assert truth.step_time_s > 0
            assert (truth.accept_length is None) == (each["budget"] == 0)
            assert truth.accept_length is None or 1 < truth.accept_length <= 16
            assert surface.find_obstacle(each) is None


def test_recorded_accept_lengths_are_those_of_32_prompts():
    rows = rows_of(LARGE_TABLE)
    wanted = {"budget": "16", "topk": "4", "window": "64", "block": "16", "concurrency": "32", "context": "1536"}
    (length,) = {float(row["accept_length"]) for row in rows if row.items() >= wanted.items()}

    for concurrency in (1, 32):
        truth = surface_of("h200-large").truth(configuration(16, 4, 64), Cell(1536, concurrency))
        assert truth.accept_length == length


def test_between_recorded_budgets_is_halfway():
    surface, cell = surface_of("h200-small"), Cell(400, 1)
    below, between, above = (surface.truth(configuration(budget), cell) for budget in (32, 48, 64))

    assert length_of(between) == pytest.approx((length_of(below) + length_of(above)) / 2)
    assert between.step_time_s == pytest.approx((below.step_time_s + above.step_time_s) / 2)


def test_a_steady_table_is_taken_as_it_is():
    for model, name in (("small", "h200-small"), ("big", "h200-big")):
        rows = [row for row in rows_of(EARLIER_TABLE) if row["model"] == model]
        for row in rows[:20]:
            if row["budget"] == "0":
                continue
            window = None if row["window"] == "none" else int(row["window"])
            each = configuration(int(row["budget"]), int(row["topk"]), window)
            truth = surface_of(name).truth(each, Cell(400, int(row["concurrency"])))
            assert truth.step_time_s == pytest.approx(float(row["ms_step"]) / 1000)


def test_a_noisy_table_is_smoothed_to_a_line_through_all_boots():
    surface, cell = surface_of("h200-large"), Cell(256, 32)
    steps = [surface.truth(configuration(budget), cell).step_time_s for budget in (2, 4, 8, 16, 32, 64)]
    slopes = [
        (after - before) / (larger - smaller)
        for before, after, smaller, larger in zip(steps, steps[1:], (2, 4, 8, 16, 32), (4, 8, 16, 32, 64), strict=False)
    ]
    trees = [
        float(row["step_ms"]) / 1000
        for row in rows_of(LARGE_TABLE)
        if (row["concurrency"], row["context"]) == ("32", "256") and int(row["topk"]) > 1
    ]

    assert slopes[0] > 0
    assert slopes == pytest.approx([slopes[0]] * len(slopes))
    assert min(trees) < statistics.fmean(steps) < max(trees)
    assert surface.truth(configuration(16, 2, 64, 8), cell).step_time_s == steps[3]


def test_what_was_not_recorded_is_not_in_the_space():
    surface = surface_of("h200-large")
    chains = {
        (int(str(each["block"])), int(str(each["budget"])))
        for each in surface.space.configurations
        if each["topk"] == 1
    }

    assert max(budget for block, budget in chains if block == 16) == 12
    assert max(budget for block, budget in chains if block == 8) == 6
    with pytest.raises(ValueError, match="holds no cell ctx9-c1"):
        surface.truth(configuration(16), Cell(9, 1))
