from __future__ import annotations

import pytest

from autotune.servers.sglang_traffic import count_in_loads, count_in_metrics


def metrics(running: float, queued: float, generated: float) -> str:
    return (
        f'sglang:num_running_reqs{{tp_rank="0"}} {running}\n'
        f"sglang:num_queue_reqs {queued}\nsglang:generation_tokens_total {generated}\n"
    )


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (metrics(2, 1, 10), metrics(2, 1, 50), 3),
        (metrics(32, 0, 10), metrics(32, 0, 10), 0),
        (metrics(2, 0, 10), metrics(0, 0, 30), 0),
        (metrics(0, 0, 10), metrics(1, 0, 10), 1),
        ("sglang:generation_tokens_total 5", "sglang:generation_tokens_total 6", None),
        ("", "", None),
    ],
    ids=["working", "stale gauge of an idle server", "just finished", "just begun", "no gauge", "nothing"],
)
def test_requests_are_counted_where_something_moves(before: str, after: str, expected: int | None):
    assert count_in_metrics(before, after) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"loads": [{"num_running_reqs": 2, "num_waiting_reqs": 1}, {"num_running_reqs": 1}]}, 4),
        ([{"dp_rank": 0, "num_reqs": 5, "num_waiting_reqs": 2}, {"dp_rank": 1, "num_reqs": 1}], 6),
        ({"num_running_reqs": 0, "num_waiting_reqs": 0}, 0),
        ({"loads": []}, None),
        ({"loads": "many"}, None),
        ([{"num_reqs": True}, {"num_reqs": -1}, "x", None], None),
        (None, None),
        ("busy", None),
    ],
)
def test_requests_are_counted_over_all_ranks(body: object, expected: int | None):
    assert count_in_loads(body) == expected
