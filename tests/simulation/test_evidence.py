"""Evidence of accept lengths about a surface, with errors of a chosen size."""

from __future__ import annotations

import math
import statistics
from typing import Any

import pytest

from autotune.search_space import search_space_of
from autotune.settings import parse_settings
from autotune.simulation.evidence import evidence_of
from autotune.simulation.surface import CellTruth, Obstacle, Surface
from autotune.trial import Cell, Configuration

STUDY = """
name = "lengths"
[baseline]
budget = 16
[benchmark]
stages = [{ name = "all", cells = [
  { context = 64, concurrency = 32 }, { context = 512, concurrency = 32 }, { context = 64, concurrency = 1 },
] }]
[objectives]
context_weights = { 64 = 3.0, 512 = 1.0 }
"""


class Lengths(Surface):
    """Accept lengths that grow with the budget, and by half in the short context; budgets above 60 do not serve."""

    name, summary = "lengths", "accept lengths only"
    settings = parse_settings(STUDY, "study.toml")
    space = search_space_of(settings)

    def truth(self, configuration: Configuration, cell: Cell) -> CellTruth:
        budget = int(str(configuration["budget"]))
        length = (1.5 if cell.context == 64 else 1.0) * (2 + budget / 10)
        return CellTruth(0.01, length if budget else None, 0.1)

    def find_obstacle(self, configuration: Configuration) -> Obstacle | None:
        return Obstacle.OUT_OF_MEMORY if int(str(configuration["budget"])) > 60 else None

    def boot_s(self, _configuration: Configuration) -> float:
        return 1.0


def logs_of(**options: Any) -> dict[str, float]:
    surface = Lengths()
    found = evidence_of(surface, **options)
    return {
        surface.space.key(item.configuration): math.log(item.accept_length)
        - math.log(1.5**0.75 * (2 + int(str(item.configuration["budget"])) / 10))
        for item in found
    }


def test_without_errors_it_is_the_truth_of_all_that_speculate_and_serve():
    errors = logs_of(common_sd=0.0, own_sd=0.0)

    assert all(error == pytest.approx(0) for error in errors.values())
    surface = Lengths()
    assert len(errors) == sum(0 < int(str(item["budget"])) <= 60 for item in surface.space.configurations)


def test_the_common_error_is_one_for_all_and_another_for_another_seed():
    first, again, second = (logs_of(common_sd=0.1, own_sd=0.0, seed=seed) for seed in (1, 1, 2))

    assert first == again
    assert statistics.pstdev(first.values()) == pytest.approx(0)
    assert next(iter(first.values())) != pytest.approx(next(iter(second.values())))


def test_own_errors_have_their_size_and_the_stated_deviation_holds_both():
    errors = logs_of(common_sd=0.0, own_sd=0.05, seed=3)

    assert statistics.pstdev(errors.values()) == pytest.approx(0.05, rel=0.1)
    assert {item.deviation for item in evidence_of(Lengths(), common_sd=0.03, own_sd=0.04)} == {0.05}


def test_nothing_is_accepted_that_was_not_there():
    assert all(item.accept_length >= 1 for item in evidence_of(Lengths(), common_sd=3.0, seed=4))
