"""Accept lengths that a GPU really reached, in bfloat16, against a replay of drafts that were recorded with them."""

from __future__ import annotations

import math
import statistics
from pathlib import Path

from tests.benchmarks.replay_accuracy import compare_recorded

TABLE = Path(__file__).parent.parent.parent / "studies" / "tables" / "h200_large_drafts"


def test_every_recorded_tree_is_predicted_within_a_few_per_cent():
    found = list(compare_recorded(TABLE))

    assert len(found) == 34
    assert all(abs(item.error) < math.log(1.05) for item in found)
    assert abs(statistics.fmean(item.error for item in found)) < 0.02
