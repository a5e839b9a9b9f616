from __future__ import annotations

import pytest

from autotune.simulation.night_score import NightKey, NightScore
from autotune.simulation.regret import Standing
from autotune.simulation.summary import Comparison, Mean, mean_of, regret_of


def night(
    method: str, seed: int, *regrets: float, surface: str = "roomy", warned: tuple[int, int] = (0, 0)
) -> NightScore:
    standings = tuple(
        Standing(counted, counted + 1, 0.0, "budget=1", regret, breaks_rule=False, hypervolume_regrets=(0.0, 0.0))
        for counted, regret in enumerate(regrets)
    )
    key = NightKey(method, surface, "v", seed, len(regrets) - 1)
    return NightScore(key, standings, "done", 0, 0, warned[0], warned[1], 2, 0.5)


NIGHTS = Comparison(
    (
        night("a", 1, 0.5, 0.3, 0.1),
        night("a", 2, 0.5, 0.4, 0.2, warned=(10, 1)),
        night("b", 1, 0.5, 0.5, 0.3),
        night("b", 2, 0.5, 0.4, 0.2),
        night("b", 3, 0.5, 0.4, 0.9, surface="tight"),
    )
)


def figures(mean: Mean | None) -> tuple[float, float | None, int]:
    assert mean is not None
    return mean.value, mean.error, mean.count


def test_a_mean_has_the_standard_error_of_its_nights():
    assert mean_of([]) is None
    assert mean_of([3.0]) == Mean(3.0, None, 1)
    assert figures(NIGHTS.mean("a", regret_of, 2)) == pytest.approx((0.15, 0.05, 2))


def test_a_shorter_budget_is_the_beginning_of_the_same_nights():
    assert figures(NIGHTS.mean("a", regret_of, 1)) == pytest.approx((0.35, 0.05, 2))


def test_a_night_that_was_not_allowed_so_many_trials_says_nothing_of_them():
    assert NIGHTS.mean("a", regret_of, 3) is None


def test_differences_are_taken_in_pairs_of_one_surface_and_seed():
    assert figures(NIGHTS.difference("a", "b", regret_of, (2, 2))) == pytest.approx((-0.1, 0.1, 2))
    assert figures(NIGHTS.difference("a", "b", regret_of, (1, 2))) == pytest.approx((0.1, 0.1, 2))


def test_one_surface_can_be_looked_at_alone():
    assert NIGHTS.mean("b", regret_of, 2, "tight") == Mean(0.9, None, 1)
    assert NIGHTS.mean("a", regret_of, 2, "tight") is None


def test_the_best_method_has_the_smallest_mean():
    assert NIGHTS.best(["b", "a", "nobody"], regret_of, 2) == "a"
    assert NIGHTS.best(["nobody"], regret_of, 2) is None


def test_the_wasted_share_is_of_the_trials_that_had_been_warned():
    assert NIGHTS.wasted_share("a") == pytest.approx(0.1)
    assert NIGHTS.wasted_share("b") is None


def test_the_time_of_a_proposal_is_over_all_proposals():
    assert NIGHTS.proposing_s("a") == pytest.approx(0.25)


def test_figures_after_so_many_boots():
    assert figures(NIGHTS.mean_after_boots("a", regret_of, 2)) == pytest.approx((0.35, 0.05, 2))
