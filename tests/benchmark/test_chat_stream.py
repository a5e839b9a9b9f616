from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.benchmark.chat_chunk import Usage
from autotune.benchmark.chat_stream import ChatStream, spread_tokens
from autotune.benchmark.request_record import Outcome, RequestRecord
from tests.benchmark.scripted_server import DONE, ROLE, STOP, content, event, usage

Timed = list[tuple[float, bytes]]


def record(
    timed: Timed, *, ended_at_s: float | None = None, stopped: tuple[Outcome, str] | None = None, cut: int = 0
) -> RequestRecord:
    """Feed reads; ``cut`` > 0 feeds so many bytes at a time, all of a read at its time."""
    stream = ChatStream()
    for at_s, data in timed:
        for start in range(0, len(data), cut or len(data) or 1):
            stream.feed(data[start : start + cut] if cut else data, at_s)
    ended = timed[-1][0] if ended_at_s is None and timed else ended_at_s or 0.0
    return stream.close(prompt_id="p", repeat=0, seed=1, sent_at_s=0.0, ended_at_s=ended, stopped=stopped)


@pytest.fixture(params=[0, 1, 2, 7], ids=["whole", "bytewise", "pairs", "sevens"])
def recorded(request: pytest.FixtureRequest) -> Callable[..., RequestRecord]:
    return lambda timed, **more: record(timed, cut=request.param, **more)


def test_three_tokens_in_one_chunk_are_counted_by_usage(recorded: Callable[..., RequestRecord]):
    """case 10."""
    chunks = [(0.5, content("ab ")), (0.6, content("cd ")), (0.7, content("ef ")), (0.8, content("gh "))]

    result = recorded([*chunks, (0.8, STOP + usage(10) + DONE)])

    assert result.outcome is Outcome.OK
    assert result.output_tokens == 10
    assert result.ttft_s == 0.5
    assert result.decode_window_s == pytest.approx(0.3)
    assert result.tpot_s == pytest.approx(0.3 / 9)
    assert result.chunk_tokens == (3, 5, 8, 10)
    assert result.chunk_tokens_estimated


def test_continuous_usage_says_how_many_tokens_each_chunk_holds(recorded: Callable[..., RequestRecord]):
    """case 10."""
    chunks = [(0.5, content("a", 1)), (0.6, content("bbbbb", 6)), (0.7, content("c", 8))]

    result = recorded([*chunks, (0.7, STOP + usage(9) + DONE)])

    assert result.chunk_tokens == (1, 6, 8)
    assert not result.chunk_tokens_estimated
    assert result.output_tokens == 9


@pytest.mark.parametrize("counts", [(0, 0, 0), (3, 2, 1), (9, 9, 99), (5, 5, 5)])
def test_unsound_continuous_usage_is_not_believed(counts: tuple[int, ...]):
    chunks = [(0.5 + index / 10, content("a", count)) for index, count in enumerate(counts)]

    result = record([*chunks, (0.8, STOP + usage(9) + DONE)])

    assert result.chunk_tokens == (3, 6, 9)
    assert result.chunk_tokens_estimated


def test_without_usage_the_token_count_is_unknown(recorded: Callable[..., RequestRecord]):
    """case 12."""
    result = recorded([*((index / 10, content("x")) for index in range(24)), (2.4, STOP + DONE)])

    assert result.outcome is Outcome.OK
    assert result.output_tokens is None
    assert result.tpot_s is None
    assert result.chunk_tokens is None
    assert len(result.chunk_at_s) == 24


def test_fewer_tokens_than_chunks_with_text_are_a_doubtful_count(recorded: Callable[..., RequestRecord]):
    """case 10: a chunk may hold several tokens, never less than one."""
    chunks = [(0.1 * index, content("a")) for index in range(1, 4)]
    doubtful = recorded([*chunks, (0.5, STOP + usage(2) + DONE)])
    sound = recorded([*chunks, (0.5, STOP + usage(3) + DONE)])

    assert doubtful.notes == ("the server counted fewer tokens than chunks with text, so its count is in doubt",)
    assert sound.notes == ()


def test_text_that_the_server_counts_as_no_token_is_not_counted(recorded: Callable[..., RequestRecord]):
    """case 12."""
    result = recorded([(0.1, content("a")), (0.2, content("b")), (0.3, STOP + usage(0) + DONE)])

    assert result.outcome is Outcome.OK
    assert result.output_tokens is None
    assert result.chunk_tokens is None
    assert result.tpot_s is None
    assert "the server counted 0 tokens for an answer with text" in result.notes


@pytest.mark.parametrize(
    "last",
    [
        b'data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":7}}\n\n',
        b'data: {"usage":{"prompt_tokens":9,"completion_tokens":7}}\n\n',
        b'data: {"choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":7}}\n\n',
    ],
)
def test_the_final_usage_moves_no_time(recorded: Callable[..., RequestRecord], last: bytes):
    """case 13."""
    chunks = [(0.1, content("a")), (0.4, content("b")), (0.4, STOP)]

    result = recorded([*chunks, (0.8, last), (0.8, DONE)])

    assert result.outcome is Outcome.OK
    assert result.usage == Usage(9, 7)
    assert result.chunk_at_s == (0.1, 0.4)
    assert result.decode_window_s == pytest.approx(0.3)


def test_a_character_cut_in_two_is_one_character(recorded: Callable[..., RequestRecord]):
    """case 15."""
    stream = b": ping\n\n" + content("中", 1).replace(b"data: ", b"data:").replace(b"\n", b"\r\n")

    result = recorded([(0.1, stream), (0.2, content("文", 2)), (0.3, STOP + usage(2) + DONE)])

    assert result.text == "中文"
    assert result.chunk_tokens == (1, 2)


def test_an_event_has_the_time_of_its_completing_byte():
    """case 15."""
    data = content("中", 1)
    cut = data.index("中".encode()) + 1

    result = record([(0.1, data[:cut]), (0.7, data[cut:]), (0.8, STOP + usage(1) + DONE)])

    assert result.text == "中"
    assert result.ttft_s == 0.7


def test_a_stream_that_just_stops_is_truncated(recorded: Callable[..., RequestRecord]):
    """case 17."""
    result = recorded([(index / 10, content("x")) for index in range(12)])

    assert result.outcome is Outcome.TRUNCATED
    assert not result.is_ok
    assert result.ttft_s is None
    assert result.tpot_s is None
    assert result.error == "the stream ended after 12 chunks without finish reason and usage"


def test_finish_reason_and_usage_prove_an_answer_whose_end_mark_is_missing(recorded: Callable[..., RequestRecord]):
    """case 17."""
    result = recorded([(0.1, content("x")), (0.2, content("y")), (0.2, STOP + usage(2))])

    assert result.outcome is Outcome.OK
    assert result.notes == ("the stream ended without [DONE]",)


@pytest.mark.parametrize("rest", [b"", STOP, usage(2), b'data: {"choices":[{"del'])
def test_half_a_proof_is_none(rest: bytes):
    """case 17."""
    assert record([(0.1, content("x")), (0.2, content("y") + rest)]).outcome is Outcome.TRUNCATED


def test_a_continuously_counted_stream_without_its_end_is_truncated():
    """case 17."""
    assert record([(0.1, content("x", 1)), (0.2, content("y", 2))]).outcome is Outcome.TRUNCATED


def test_the_role_is_not_the_first_token(recorded: Callable[..., RequestRecord]):
    """case 19."""
    end = event({"choices": [{"delta": {}, "finish_reason": "stop"}]}) + usage(1) + DONE

    result = recorded([(0.01, ROLE), (0.9, content("Hi")), (1.0, end)])

    assert result.ttft_s == 0.9
    assert result.tpot_s is None
    assert result.decode_window_s is None
    assert result.output_tokens == 1


def test_reasoning_counts_as_the_first_token():
    thought = event({"choices": [{"delta": {"reasoning_content": "hm"}}]})

    result = record([(0.2, thought), (0.9, content("Hi")), (1.0, STOP + usage(5) + DONE)])

    assert result.ttft_s == 0.2
    assert (result.reasoning, result.text) == ("hm", "Hi")


def test_an_error_event_fails_the_request():
    result = record([(0.1, content("x")), (0.2, event({"error": {"message": "CUDA out of memory"}}) + DONE)])

    assert (result.outcome, result.error) == (Outcome.FAILED, "CUDA out of memory")
    assert result.ttft_s is None


def test_an_aborted_answer_failed():
    abort = event({"choices": [{"delta": {}, "finish_reason": "abort"}]})

    assert record([(0.1, content("x")), (0.2, abort + usage(1) + DONE)]).outcome is Outcome.FAILED


def test_empty_events_are_ignored():
    assert record([(0.1, b"data:\n\n" + content("x")), (0.2, STOP + usage(1) + DONE)]).is_ok


def test_nothing_after_the_end_mark_counts():
    assert record([(0.1, content("x") + STOP + usage(1) + DONE + content("later"))]).text == "x"


def test_why_reading_stopped_is_kept_unless_the_answer_was_whole():
    stopped = (Outcome.TIMED_OUT, "nothing received for 5 s")

    assert record([(0.1, content("x"))], stopped=stopped).outcome is Outcome.TIMED_OUT
    assert record([(0.1, content("x") + STOP + usage(1) + DONE)], stopped=stopped).outcome is Outcome.OK


def test_no_bytes_at_all_are_truncated():
    assert record([], ended_at_s=0.5).outcome is Outcome.TRUNCATED


@given(st.integers(0, 5000), st.lists(st.integers(1, 50), min_size=1, max_size=40))
def test_spread_tokens_never_fall_and_end_at_the_total(total: int, characters: list[int]):
    counts = spread_tokens(total, characters)

    assert sorted(counts) == list(counts)
    assert counts[-1] == total


@given(st.binary(max_size=400))
def test_no_stream_raises(data: bytes):
    result = record([(0.1, data)])

    assert result.outcome in set(Outcome)
