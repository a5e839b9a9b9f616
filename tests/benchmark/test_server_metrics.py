from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from autotune.benchmark.server_metrics import CounterDifference, parse_metrics, subtract

TEXT = """# HELP sglang:generation_tokens_total Tokens.
# TYPE sglang:generation_tokens_total counter
sglang:generation_tokens_total{model_name="a b",engine="{}"} 1.2e3
sglang:spec_verify_calls_total{tp_rank="0"} 100
sglang:spec_verify_calls_total{tp_rank="1"} 50 1700000000000
sglang:spec_accept_length NaN
sglang:inter_token_latency_seconds_bucket{le="+Inf"} 7
up 1
broken{ 3
"""


def test_samples_are_summed_over_labels():
    assert parse_metrics(TEXT) == {
        "generation_tokens_total": 1200.0,
        "spec_verify_calls_total": 150.0,
        "inter_token_latency_seconds_bucket": 7.0,
        "up": 1.0,
    }


def test_a_window_is_a_difference_of_counters():
    before = {"generation_tokens_total": 100.0, "spec_verify_calls_total": 90.0}
    after = {"generation_tokens_total": 500.0, "spec_verify_calls_total": 190.0}

    assert subtract(before, after) == CounterDifference(400.0, 100.0)


def test_a_counter_that_fell_or_is_missing_says_nothing():
    """case 33."""
    assert subtract({"generation_tokens_total": 500.0}, {"generation_tokens_total": 20.0}) == CounterDifference(
        None, None
    )


def test_a_counter_that_appeared_started_at_zero():
    assert subtract({}, {"spec_verify_calls_total": 8.0}) == CounterDifference(None, 8.0)


@given(st.text(max_size=300))
def test_no_text_raises(text: str):
    parse_metrics(text)
