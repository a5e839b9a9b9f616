from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.benchmark.decode_window import Contribution, Stream, find_window


def steady(start_s: float, gap_s: float, per_chunk: int, chunks: int, first: int = 1) -> Stream:
    """A chunk of ``first`` tokens at ``start_s``, then ``chunks`` chunks of ``per_chunk`` tokens."""
    return Stream(
        tuple(start_s + index * gap_s for index in range(chunks + 1)),
        tuple(first + index * per_chunk for index in range(chunks + 1)),
    )


def rate(repeats: list[list[Stream]], concurrency: int) -> float:
    window = find_window(repeats, concurrency)
    assert window is not None
    tokens = sum(item.tokens for item in window.contributions)
    return window.mean_streams * tokens / sum(item.time_s for item in window.contributions)


def test_one_stream_is_tokens_after_the_first_chunk_over_the_decode_window():
    """case 10."""
    stream = Stream((0.5, 0.6, 0.7, 0.8), (3, 5, 8, 10))

    assert rate([[stream]], 1) == pytest.approx(7 / 0.3)


def test_single_streams_are_pooled_as_a_ratio_of_sums():
    fast, slow = steady(0.0, 0.1, 4, 10), steady(5.0, 0.2, 4, 10)

    assert rate([[fast, slow]], 1) == pytest.approx(80 / 3.0)
    assert rate([[fast], [slow]], 1) == pytest.approx(80 / 3.0)


def test_prefill_between_single_requests_is_not_decode_time():
    streams = [steady(index * 10.0, 0.1, 4, 10) for index in range(4)]

    assert rate([streams], 1) == pytest.approx(40.0)


def test_ramp_up_and_drain_are_outside():
    # 32 streams join one after the other, decode at 40 tokens/s each while all are there, and speed up as some leave.
    streams = []
    for index in range(32):
        full = steady(2.0, 0.1, 4, 10 + index)
        ramp = tuple(index * 0.05 + step * 0.01 for step in range(3))
        at_s = (*ramp, *full.at_s)
        streams.append(Stream(at_s, tuple(range(1, 4)) + tuple(3 + count for count in full.tokens)))
    streams[-1] = Stream(streams[-1].at_s[3:], streams[-1].tokens[3:])

    window = find_window([streams], 32)

    assert window is not None
    assert (window.streams, window.mean_streams) == (32, 32.0)
    assert window.duration_s == pytest.approx(1.0)
    assert rate([streams], 32) == pytest.approx(32 * 40.0)


def test_chunks_that_arrive_together_with_the_first_one_are_not_decoded_in_zero_time():
    assert rate([[Stream((1.0, 1.0, 1.1), (1, 5, 9))]], 1) == pytest.approx(4 / 0.1)


def test_refilled_slots_count_only_while_all_decode():
    first = [steady(0.0, 0.1, 2, 20), steady(0.0, 0.1, 2, 30)]
    refill = steady(2.5, 0.1, 2, 20)

    window = find_window([[*first, refill]], 2)

    assert window is not None
    assert window.duration_s == pytest.approx(2.0 + 0.5)
    assert rate([[*first, refill]], 2) == pytest.approx(40.0)


def test_fewer_streams_are_used_when_the_server_never_decodes_all_together():
    waves = [steady(0.0, 0.1, 4, 20) for _ in range(16)] + [steady(5.0, 0.1, 4, 20) for _ in range(16)]

    window = find_window([waves], 32)

    assert window is not None
    assert window.streams == 16
    assert rate([waves], 32) == pytest.approx(16 * 40.0)


def test_failed_requests_are_no_streams():
    streams = [*(steady(0.0, 0.1, 4, 20) for _ in range(31)), Stream((), ())]

    window = find_window([streams], 32)

    assert window is not None
    assert window.streams == 31
    assert window.contributions[31] == Contribution(0, 0.0)


@pytest.mark.parametrize("streams", [[], [Stream((), ())], [Stream((1.0,), (5,))], [Stream((1.0, 1.0), (1, 5))]])
def test_without_two_chunks_at_different_times_there_is_no_window(streams: list[Stream]):
    """case 19."""
    assert find_window([streams], 1) is None


@given(
    concurrency=st.sampled_from([1, 2, 8, 32]),
    gap_s=st.floats(0.005, 0.5),
    per_chunk=st.integers(1, 12),
    seed=st.integers(0, 1000),
)
def test_constant_streams_give_their_true_rate_whatever_their_start_and_length(
    concurrency: int, gap_s: float, per_chunk: int, seed: int
):
    rng = random.Random(seed)  # noqa: S311
    streams = [
        steady(rng.uniform(0, 5 * gap_s), gap_s, per_chunk, rng.randint(20, 40), first=rng.randint(1, 9))
        for _ in range(concurrency)
    ]

    assert rate([streams], concurrency) == pytest.approx(concurrency * per_chunk / gap_s, rel=1e-6)


@given(concurrency=st.sampled_from([1, 4, 32]), seed=st.integers(0, 1000))
def test_verify_steps_of_random_length_give_the_true_rate_within_noise(concurrency: int, seed: int):
    """A shared step time, one to eight tokens per step and stream, 128 tokens per answer, two repeats."""
    rng = random.Random(seed)  # noqa: S311
    step_s = 0.02
    repeats: list[list[Stream]] = []
    for _ in range(2):
        streams: list[Stream] = []
        for _ in range(concurrency if concurrency > 1 else 4):
            at_s: list[float] = []
            tokens: list[int] = []
            count = 1
            start = 0.0 if concurrency > 1 else len(streams) * 10.0
            while count < 128:
                at_s.append(start + len(at_s) * step_s + rng.uniform(0, 0.002))
                tokens.append(count)
                count += rng.randint(1, 8)
            streams.append(Stream(tuple(at_s), tuple(tokens)))
        repeats.append(streams)

    # 8 answers of about 28 steps have a standard error of 3.4 %; five of them.
    assert rate(repeats, concurrency) == pytest.approx(concurrency * 4.5 / step_s, rel=0.18)
