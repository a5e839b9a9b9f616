from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.benchmark.chat_chunk import Usage
from autotune.benchmark.metrics import (
    Repeat,
    check_figures,
    measure_repeats,
    ratio_figure,
)
from autotune.benchmark.request_record import Outcome, RequestRecord
from autotune.benchmark.success_rate import SuccessCount
from autotune.errors import ImpossibleMetric, NothingSucceeded, TooManyFailures, UsageMissing
from autotune.trial import Cell, CellMeasurement, Figure

CELL = Cell(256, 1)


def answered(
    index: int = 0, *, sent_at_s: float = 0.0, gap_s: float = 0.1, chunks: int = 10, **more: Any
) -> RequestRecord:
    """One token after 0.5 s, then ``chunks`` chunks of 4 tokens every ``gap_s``."""
    tokens = 1 + 4 * chunks
    first_s = sent_at_s + 0.5
    values: dict[str, Any] = {
        "prompt_id": f"p{index}",
        "repeat": 0,
        "seed": 1,
        "sent_at_s": sent_at_s,
        "ended_at_s": first_s + chunks * gap_s,
        "outcome": Outcome.OK,
        "finish_reason": "length",
        "usage": Usage(100, tokens),
        "chunk_at_s": tuple(first_s + step * gap_s for step in range(chunks + 1)),
        "chunk_tokens": tuple(1 + 4 * step for step in range(chunks + 1)),
    }
    return RequestRecord(**(values | more))


def failed(index: int = 0, error: str = "ConnectError: refused") -> RequestRecord:
    return RequestRecord(f"p{index}", 0, 1, 0.0, 0.1, Outcome.FAILED, error)


def measure(*records: RequestRecord, cell: Cell = CELL, success: float = 1.0, **more: Any) -> CellMeasurement:
    return measure_repeats(cell, [Repeat(tuple(records), 2.0)], min_success_rate=success, **more)


def test_the_figures_of_four_equal_requests():
    measured = measure(*(answered(index, sent_at_s=index * 10.0) for index in range(4)))

    assert (measured.requests, measured.succeeded) == (4, 4)
    assert (measured.output_tokens, measured.prompt_tokens, measured.cached_tokens) == (164, 400, None)
    assert measured.decode_tokens_per_s.value == pytest.approx(40.0)
    assert measured.decode_tokens_per_s.count == 4
    assert measured.decode_tokens_per_s.low == pytest.approx(40.0)
    assert measured.total_tokens_per_s == Figure(82.0, 1)
    assert measured.ttft_s is not None
    assert measured.ttft_s.value == pytest.approx(0.5)
    assert measured.tpot_s is not None
    assert measured.tpot_s.value == pytest.approx(1.0 / 40)
    assert measured.duration_s == 2.0
    assert measured.per_prompt_log_speed == pytest.approx({f"p{index}": math.log(40) for index in range(4)})
    assert measured.notes == ()


def test_a_last_step_cut_by_the_token_limit_does_not_slow_the_decode_speed():
    """Steps of eight tokens every 0.1 s are 80 tokens/s, although the tenth step was cut to one token."""
    at_s = tuple(0.5 + step * 0.1 for step in range(11))
    tokens = (*range(1, 74, 8), 74)
    cut = answered(chunk_at_s=at_s, chunk_tokens=tokens, usage=Usage(100, 74))

    assert measure(cut).decode_tokens_per_s.value == pytest.approx(80.0)
    assert measure(dataclasses.replace(cut, finish_reason="stop")).decode_tokens_per_s.value == pytest.approx(73.0)


def test_everything_failed_has_no_figures():
    """case 22."""
    records = [failed(index, "ConnectError: refused" if index else "HTTP 503: busy") for index in range(20)]

    with pytest.raises(NothingSucceeded, match=r"^ctx256-c1: 0 of 20 .* 19 times: ConnectError: refused"):
        measure(*records)


def test_nothing_sent_has_no_figures():
    """case 22."""
    with pytest.raises(NothingSucceeded, match="0 of 0"):
        measure()


def test_more_failures_than_chance_explains_fail_the_cell():
    with pytest.raises(TooManyFailures, match="5 of 10 requests succeeded, so at most 85% do; 95% are demanded"):
        measure(*(answered(index, sent_at_s=index * 10.0) for index in range(5)), *[failed(9)] * 5, success=0.95)


def test_one_failure_of_four_is_no_proof_against_the_server():
    measured = measure(*(answered(index, sent_at_s=index * 10.0) for index in range(3)), failed(3), success=0.95)

    assert measured.notes[0] == "1 of 4 requests did not succeed"


def test_failures_of_earlier_cells_of_the_boot_count_too():
    records = [*(answered(index, sent_at_s=index * 10.0) for index in range(3)), failed(3)]

    with pytest.raises(TooManyFailures, match="53 of 64 requests succeeded since this server was booted"):
        measure(*records, success=0.95, earlier=SuccessCount(50, 60))


def test_every_request_must_succeed_where_that_is_demanded():
    with pytest.raises(TooManyFailures):
        measure(answered(0), failed(1), success=1.0)


def test_requests_that_were_in_flight_together_are_one_observation():
    """At C=2 six requests are three batches; the two of a batch share what disturbs them."""
    gaps_s = (0.10, 0.10, 0.08, 0.08, 0.12, 0.12)
    records = [answered(index, sent_at_s=(index // 2) * 10.0, gap_s=gap_s) for index, gap_s in enumerate(gaps_s)]

    measured = measure(*records, cell=Cell(256, 2))

    # Three batches of 80 tokens in 2.0, 1.6 and 2.4 stream seconds, two streams at a time.
    figure = ratio_figure([(80.0, 2.0), (80.0, 1.6), (80.0, 2.4)], 2.0)
    assert measured.decode_tokens_per_s.value == pytest.approx(figure.value)
    assert measured.decode_tokens_per_s.low == pytest.approx(figure.low)
    assert measured.decode_tokens_per_s.count == 6


def test_one_batch_shows_no_interval():
    measured = measure(*(answered(index) for index in range(4)), cell=Cell(256, 4))

    assert measured.decode_tokens_per_s == Figure(pytest.approx(160.0), 4)  # type: ignore[arg-type]
    assert measured.ttft_s == Figure(pytest.approx(0.5), 4)  # type: ignore[arg-type]


def test_rounds_repeat_prompts_and_show_the_noise_inside_the_boot():
    first = Repeat(tuple(answered(index, sent_at_s=index * 10.0) for index in range(4)), 30.0)
    second = Repeat(
        tuple(answered(index, sent_at_s=100 + index * 10.0, gap_s=0.2) for index in range(4)), 30.0, round=1
    )

    measured = measure_repeats(CELL, [first, second], min_success_rate=1.0)

    assert measured.round_log_speeds == pytest.approx((math.log(40), math.log(20)))
    assert measured.per_prompt_log_speed["p2"] == pytest.approx((math.log(40) + math.log(20)) / 2)
    figure = measured.decode_tokens_per_s
    assert figure.low == pytest.approx(figure.value), "a prompt that was sent twice is one prompt"


def test_one_round_says_nothing_about_the_noise():
    assert measure(answered(0)).round_log_speeds == ()


def test_prefill_is_a_figure_of_its_own():
    measured = measure(*(answered(index, sent_at_s=index * 10.0) for index in range(4)))

    assert measured.prefill_tokens_per_s == Figure(200.0, 1)
    assert measured.latencies is not None
    assert measured.latencies.itl_s is not None
    assert measured.latencies.itl_s.p50 == pytest.approx(0.025)


def test_failures_within_the_limit_are_left_out_of_every_figure():
    """case 17."""
    cut = answered(3, sent_at_s=30.0, gap_s=9.0, outcome=Outcome.TRUNCATED, usage=None)

    measured = measure(*(answered(index, sent_at_s=index * 10.0) for index in range(3)), cut, success=0.5)

    assert (measured.requests, measured.succeeded, measured.output_tokens) == (4, 3, 123)
    assert measured.decode_tokens_per_s.value == pytest.approx(40.0)
    assert set(measured.per_prompt_log_speed) == {"p0", "p1", "p2"}
    assert measured.notes == ("1 of 4 requests did not succeed",)


@pytest.mark.parametrize("usage", [None, Usage(100, None), Usage(100, 0)])
def test_missing_usage_fails_the_cell(usage: Usage | None):
    """case 12."""
    with pytest.raises(UsageMissing, match="1 of 2 answers"):
        measure(answered(0), answered(1, sent_at_s=10.0, usage=usage))


def test_more_tokens_than_were_allowed_are_refused():
    """case 39."""
    assert measure(answered(max_tokens=41)).output_tokens == 41
    with pytest.raises(ImpossibleMetric, match="is 41 for prompt p0, sent with max_tokens 40"):
        measure(answered(max_tokens=40))


def test_one_token_answers_have_no_speed():
    """case 19."""
    single = answered(0, chunks=0)

    with pytest.raises(ImpossibleMetric, match="decode speed is unknown"):
        measure(single)


def test_empty_answers_are_no_measurement():
    """case 22."""
    with pytest.raises(ImpossibleMetric, match="0 output tokens"):
        measure(answered(0, usage=Usage(5, 0), chunk_at_s=(), chunk_tokens=None))


@pytest.mark.parametrize("value", [math.inf, math.nan, -1.0, 0.0])
@pytest.mark.parametrize("name", ["decode_tokens_per_s", "total_tokens_per_s", "ttft_s", "tpot_s"])
def test_impossible_figures_are_refused_by_name(name: str, value: float):
    """case 39."""
    changes: dict[str, Any] = {name: Figure(value, 1)}
    measured = dataclasses.replace(measure(answered()), **changes)

    with pytest.raises(ImpossibleMetric, match=f"{name} is"):
        check_figures(measured)


def test_a_window_of_no_time_is_refused():
    """case 39."""
    with pytest.raises(ImpossibleMetric, match="total_tokens_per_s is inf"):
        measure_repeats(CELL, [Repeat((answered(),), 0.0)], min_success_rate=1.0)


@pytest.mark.parametrize(("value", "is_refused"), [(0.0, True), (0.99, True), (1.0, False), (4.2, False)])
def test_an_accept_length_below_one_is_refused(value: float, is_refused: bool):
    """case 33."""
    measured = dataclasses.replace(measure(answered()), accept_length=Figure(value, 1))

    if is_refused:
        with pytest.raises(ImpossibleMetric, match="accept_length"):
            check_figures(measured)
    else:
        check_figures(measured)


def test_cached_tokens_are_summed_and_reported():
    """case 24."""
    measured = measure(answered(usage=Usage(100, 41, 80)))

    assert measured.cached_tokens == 80
    assert measured.notes == (
        "80 of 100 prompt tokens came from the server's prefix cache; times to first token are too good",
    )


def test_a_shared_beginning_of_prompts_is_no_surprise():
    """case 24."""
    assert measure(answered(usage=Usage(60, 41, 20))).notes == ()


def test_oddities_are_said():
    measured = measure(answered(finish_reason="stop", chunk_tokens_estimated=True), cell=Cell(256, 2))

    assert [note.split(" ")[:4] for note in measured.notes] == [
        ["at", "most", "1", "of"],
        ["1", "answers", "without", "continuous"],
        ["1", "of", "1", "answers"],
    ]


def test_a_ratio_of_sums_has_the_interval_of_its_linearisation():
    figure = ratio_figure([(10.0, 1.0), (14.0, 1.0), (12.0, 1.0)])

    # Denominators of one make it the mean: 12 +- 4.303 * 2 / sqrt(3).
    assert figure.value == pytest.approx(12.0)
    assert figure.low == pytest.approx(12 - 4.302652 * 2 / math.sqrt(3))
    assert figure.high == pytest.approx(12 + 4.302652 * 2 / math.sqrt(3))


@given(st.lists(st.tuples(st.floats(0.1, 1e3), st.floats(0.1, 1e3)), min_size=3, max_size=20))
def test_a_ratio_lies_inside_its_interval(pairs: list[tuple[float, float]]):
    figure = ratio_figure(pairs)

    assert figure.low is not None
    assert figure.high is not None
    assert figure.low <= figure.value <= figure.high
    assert min(a / b for a, b in pairs) * 0.999 <= figure.value <= max(a / b for a, b in pairs) * 1.001
