"""Whether 95 % intervals hold the truth in 95 of 100 invented studies; the long run is ``tests.benchmarks.interval_coverage``."""

from __future__ import annotations

import pytest

from tests.benchmarks.interval_coverage import WORLDS, cover

BY_NAME = {world.name: world for world in WORLDS}


@pytest.mark.parametrize(
    ("name", "boots", "concurrency"),
    [
        ("boots differ most", (3, 1), 32),
        ("requests hang together", (2, 2), 32),
        ("all alike", (5, 1), 1),
        ("prompts differ most", (3, 1), 1),
    ],
)
def test_intervals_of_gains_hold_the_true_gain_in_95_of_100_studies(
    name: str, boots: tuple[int, int], concurrency: int
):
    """Over prompts alone it would be 10 to 80, with normal quantiles 80, without the trial's own boot 60."""
    covered = cover(BY_NAME[name], boots, concurrency, studies=500, seed=11)

    # Five hundred studies leave a standard error of one point.
    assert 0.925 <= covered.held <= 0.98
    assert covered.false_alarms <= 0.05
