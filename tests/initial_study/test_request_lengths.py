from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.initial_study.request_lengths import FEWEST_BATCHES, RequestLengths, read_lengths


def prefill(sequences: int, new: int, cached: int = 0) -> str:
    return (
        f"[2026-07-20 10:00:00 TP0] Prefill batch, #new-seq: {sequences}, #new-token: {new}, #cached-token: {cached}, "
        "token usage: 0.01, #running-req: 3, #queue-req: 0, cuda graph: False, input throughput (token/s): 91.40"
    )


def test_cached_tokens_are_part_of_a_prompt_and_a_batch_counts_with_its_mean():
    lines = [prefill(1, 100), prefill(2, 700, 100), "unrelated", prefill(1, 9000, 1000)]

    assert read_lengths(lines, fewest=1) == RequestLengths(
        batches=3, requests=4, median=400, p90=10_000, longest=10_000, busiest=None
    )


def test_the_most_requests_at_once_come_from_decode_lines_of_each_age():
    """Case 30: the line has changed its shape."""
    lines = [
        prefill(1, 10),
        "Decode batch. #running-req: 7, #token: 492, token usage: 0.00",
        "[2026-02-01 TP0] Decode batch [1200], #running-req: 31, #token: 9, accept len: 6.10, #queue-req: 0,",
    ]

    lengths = read_lengths(lines, fewest=1)

    assert lengths is not None
    assert lengths.busiest == 31


def test_without_a_prefill_line_nothing_is_known():
    assert read_lengths([]) is None
    assert (
        read_lengths(["Prefill batch, #new-seq: 0, #new-token: 0", "a prompt that says Decode batch, #running"]) is None
    )


READY = "[2026-07-20 10:00:00] The server is fired up and ready to roll!"
DECODE = "Decode batch. #running-req: {}, #token: 492, token usage: 0.00"


def test_too_few_batches_say_nothing():
    assert read_lengths([prefill(1, 100)] * (FEWEST_BATCHES - 1)) is None
    assert read_lengths([prefill(1, 100)] * FEWEST_BATCHES) is not None


@pytest.mark.parametrize(
    "end",
    [
        "Stopped sglang.service - SGLang.",
        "sglang.service: Deactivated successfully.",
        "sglang.service: Main process exited, code=killed, status=9/KILL",
        "sglang.service: Failed with result 'exit-code'.",
        "[2026-07-20 09:59:00] server_args=ServerArgs(model_path='/m', port=30000)",
    ],
)
def test_what_a_server_computes_before_it_is_ready_is_no_traffic(end: str):
    warm_up = [prefill(1, 2), DECODE.format(32), READY]
    lines = [*warm_up, prefill(1, 500), DECODE.format(3), end, *warm_up, prefill(1, 700), end, prefill(1, 2)]

    assert read_lengths(lines, fewest=1) == RequestLengths(
        batches=2, requests=2, median=500, p90=700, longest=700, busiest=3
    )


def test_lines_that_begin_in_the_middle_of_a_servers_life_count():
    lengths = read_lengths([prefill(1, 500), "Stopped sglang.service - SGLang.", prefill(1, 2), READY], fewest=1)

    assert lengths is not None
    assert (lengths.batches, lengths.longest) == (1, 500)


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 10_000)), min_size=1, max_size=40))
def test_the_figures_are_in_order_and_count_every_request(batches):
    lengths = read_lengths([prefill(count, count * tokens) for count, tokens in batches], fewest=1)

    assert lengths is not None
    assert lengths.median <= lengths.p90 <= lengths.longest == max(tokens for _, tokens in batches)
    assert lengths.requests == sum(count for count, _ in batches)
    assert sum(tokens > lengths.p90 for _, tokens in batches) <= len(batches) / 10
