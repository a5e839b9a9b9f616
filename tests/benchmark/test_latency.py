"""Distributions of times over requests and tokens."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.benchmark.chat_chunk import Usage
from autotune.benchmark.latency import describe, measure_latencies, measure_prefill, token_gaps
from autotune.benchmark.request_record import Outcome, RequestRecord


def record(at_s: tuple[float, ...], tokens: tuple[int, ...] | None, **more: Any) -> RequestRecord:
    values: dict[str, Any] = {
        "prompt_id": "p",
        "repeat": 0,
        "seed": 1,
        "sent_at_s": 0.0,
        "ended_at_s": 9.0,
        "outcome": Outcome.OK,
        "usage": Usage(100, tokens[-1] if tokens else None),
        "chunk_at_s": at_s,
        "chunk_tokens": tokens,
    }
    return RequestRecord(**(values | more))


def test_a_chunk_of_several_tokens_shares_out_its_gap():
    """case 10: ten tokens in four chunks are nine gaps, none of them as long as the wait for a chunk."""
    gaps = token_gaps(record((0.5, 0.6, 0.7, 0.8), (1, 4, 7, 10)))

    assert [(round(gap_s, 6), count) for gap_s, count in gaps] == [(0.033333, 3)] * 3
    latencies = measure_latencies([record((0.5, 0.6, 0.7, 0.8), (1, 4, 7, 10))])
    assert latencies.itl_s is not None
    assert latencies.chunk_gap_s is not None
    assert latencies.itl_s.count == 9
    assert latencies.itl_s.mean == pytest.approx(0.3 / 9)
    assert latencies.chunk_gap_s.p50 == pytest.approx(0.1)


def test_a_chunk_without_a_token_adds_its_time_to_the_next():
    ((gap_s, count),) = token_gaps(record((0.0, 0.1, 0.3), (1, 1, 3)))

    assert gap_s == pytest.approx(0.15)
    assert count == 2


def test_a_single_token_has_no_gap():
    """case 19."""
    latencies = measure_latencies([record((0.9,), (1,))])

    assert latencies.itl_s is None
    assert latencies.tpot_s is None
    assert latencies.ttft_s is not None
    assert latencies.ttft_s.largest == pytest.approx(0.9)


def test_failures_have_no_times():
    """case 22."""
    latencies = measure_latencies([record((0.5, 0.6), (1, 2), outcome=Outcome.TRUNCATED)])

    assert latencies == type(latencies)()


def test_a_latency_ends_with_the_last_token_and_not_with_the_last_chunk():
    """case 13: usage arrived 8 s later."""
    latencies = measure_latencies([record((0.5, 1.0), (1, 2))])

    assert latencies.request_s is not None
    assert latencies.request_s.p99 == pytest.approx(1.0)


@given(st.lists(st.tuples(st.floats(0, 1e3), st.integers(1, 5)), min_size=1, max_size=30))
def test_percentiles_are_values_of_the_data_in_order(values: list[tuple[float, int]]):
    found = describe(values)
    expanded = sorted(value for value, times in values for _ in range(times))

    assert found is not None
    assert found.count == len(expanded)
    assert found.p50 == expanded[-(-len(expanded) // 2) - 1]
    assert found.p50 <= found.p90 <= found.p95 <= found.p99 <= found.largest == expanded[-1]


def test_prefill_counts_the_time_in_which_somebody_waits_once():
    together = [
        record((1.0, 2.0), (1, 5)),
        record((1.5, 2.0), (1, 5), sent_at_s=0.5),
        record((4.0, 5.0), (1, 5), sent_at_s=3.0),
    ]

    found = measure_prefill(together)

    assert found is not None
    assert found[0] == 300.0
    assert found[1] == pytest.approx(2.5)


def test_prefill_leaves_out_what_a_cache_answered():
    """case 24."""
    assert measure_prefill([record((1.0,), (1,), usage=Usage(100, 1, 60))]) == (40.0, 1.0)
    assert measure_prefill([record((1.0,), (1,), usage=Usage(100, 1, 100))]) is None


def test_prefill_is_unknown_where_prompt_tokens_are():
    assert measure_prefill([record((1.0,), (1,), usage=Usage(None, 1))]) is None
    assert measure_prefill([]) is None
