from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.servers.server_metrics import CounterDifference, parse_metrics, subtract

TEXT = """# HELP sglang:generation_tokens_total Tokens.
# TYPE sglang:generation_tokens_total counter
sglang:generation_tokens_total{model_name="a b",engine="{}"} 1.2e3
sglang:spec_verify_calls_total{dp_rank="0"} 100
sglang:spec_verify_calls_total{dp_rank="1"} 50 1700000000000
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


def test_ranks_that_do_the_same_work_are_not_summed():
    """Each tensor-parallel rank counts every verify step: their sum would make accept lengths eight times too small."""
    text = "".join(
        f'sglang:spec_verify_calls_total{{model_name="m",dp_rank="{dp}",tp_rank="{tp}"}} {100 * (dp + 1)}\n'
        for dp in (0, 1)
        for tp in range(8)
    )

    assert parse_metrics(text) == {"spec_verify_calls_total": 300.0}


def test_vllm_counts_the_same_things_by_other_names():
    text = (
        'vllm:spec_decode_num_drafts_total{engine="0"} 40\nvllm:generation_tokens_total 130\n'
        "vllm:num_requests_running 3\nvllm:num_requests_waiting 1\n"
    )

    assert parse_metrics(text) == {
        "spec_verify_calls_total": 40.0,
        "generation_tokens_total": 130.0,
        "num_running_reqs": 3.0,
        "num_queue_reqs": 1.0,
    }


def test_an_exemplar_or_a_fractional_time_hides_no_sample():
    text = (
        'a_total 1.0 # {trace="x"} 1 2\n'
        'b_total{rank="} 5"} 3 # {trace="y"} 7 8\n'
        "c_total 4 1234.5\n"
        'd_total{rank="0",text="\\"\u2028{"} 6 1.7e12 # {} 9\r\n'
        'e_total{rank="0"}2\n'
    )

    assert parse_metrics(text) == {"a_total": 1.0, "b_total": 3.0, "c_total": 4.0, "d_total": 6.0, "e_total": 2.0}


@pytest.mark.parametrize("value", ["1_0", "0x10", "٣", "NaN", "+Inf", "1e999", "-", ".", "1.2.3", ""])
def test_what_is_no_finite_number_is_left_out(value: str):
    assert parse_metrics(f"a_total {value}\nb 1\n") == {"b": 1.0}


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
