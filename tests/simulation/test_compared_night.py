from __future__ import annotations

import random
from dataclasses import replace

import pytest

from autotune.errors import UserError
from autotune.sampling.base import History
from autotune.simulation.compared_night import (
    ComparedNight,
    TimedSampler,
    TimedStoppingSampler,
    count_warned,
    find_version,
    know,
    play_night,
)
from autotune.simulation.method import METHODS, find_method
from autotune.simulation.surface import Obstacle
from autotune.trial import Configuration
from tests.records import make_settings
from tests.simulation.table_surface import TableSurface

HISTORY, SPACE = History(make_settings(), (), None), TableSurface({1: (1.0, 1.0, 1.0)}).space
MEMORY, REFUSED = Obstacle.OUT_OF_MEMORY, Obstacle.REFUSED


class Ticking:
    """Three seconds pass while it proposes."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def clock(self) -> float:
        return self.now_s

    def propose(self, *_asked: object) -> Configuration:
        self.now_s += 3.0
        return {"budget": 1}

    def explain_exhaustion(self, *_asked: object) -> str:
        return "enough"


def test_the_time_of_proposals_is_added_up():
    ticking = Ticking()
    timed = TimedSampler(ticking, ticking.clock)

    for _ in range(2):
        timed.propose(HISTORY, SPACE, (), random.Random(1))  # noqa: S311

    assert (timed.proposed, timed.proposing_s) == (2, 6.0)


def test_only_a_method_that_may_stop_ends_a_night():
    ticking = Ticking()

    assert not hasattr(TimedSampler(ticking), "explain_exhaustion")
    assert TimedStoppingSampler(ticking).explain_exhaustion(HISTORY, SPACE) == "enough"


def test_waste_is_what_meets_a_known_kind_of_obstacle_again():
    assert count_warned([]) == (0, 0)
    assert count_warned([None, MEMORY, None, None]) == (2, 0)
    assert count_warned([MEMORY, REFUSED, MEMORY, REFUSED]) == (3, 2)


def test_an_unknown_method_is_answered_with_the_nearest_name():
    with pytest.raises(UserError, match="did you mean 'greybox'"):
        find_method("graybox")


def test_a_night_of_a_comparison_is_the_same_every_time_and_judged_after_every_trial():
    night = ComparedNight(METHODS["random"], "h200-small", 1, 3)

    score = play_night(night)

    assert replace(play_night(night), proposing_s=0) == replace(score, proposing_s=0)
    assert score.key == night.key
    assert [standing.counted for standing in score.standings] == [0, 1, 2, 3]
    assert all(standing.regret >= 0 for standing in score.standings)


def test_methods_of_one_seed_begin_with_the_same_figures():
    first, second = (
        play_night(ComparedNight(METHODS[name], "h200-small", 2, 2)).standings for name in ("random", "grid")
    )

    assert [replace(standing, elapsed_s=0) for standing in first[:2]] == [
        replace(standing, elapsed_s=0) for standing in second[:2]
    ]


def test_the_boot_of_a_profile_is_counted():
    with_profile = play_night(ComparedNight(METHODS["greybox-replay-3"], "h200-small", 1, 1)).standings
    without = play_night(ComparedNight(METHODS["greybox"], "h200-small", 1, 1)).standings

    assert [standing.boots for standing in with_profile] == [standing.boots + 1 for standing in without]


def test_obstacles_are_counted_where_a_surface_has_them():
    score = play_night(ComparedNight(METHODS["grid"], "cliff", 1, 8))

    assert score.infeasible >= 1
    assert score.infeasible_warned <= score.warned <= 8


def test_a_surface_is_worked_out_once():
    assert know("roomy") is know("roomy")


def test_the_version_of_a_night_changes_with_its_conditions():
    assert find_version("roomy", 1) == find_version("roomy", 1)
    assert len({find_version("roomy", 1), find_version("roomy", 2), find_version("tight", 1)}) == 3
