"""A log of drafts as a server writes it, and logs that are none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from autotune.errors import MeasurementError
from autotune.replay.draft_log import read_answers


def line(rid: str = "a#1", **fields: Any) -> bytes:
    return json.dumps({"rid": rid, **fields}).encode() + b"\n"


def draft(rid: str, position: int, first: int, committed: list[int] | None = None, **fields: Any) -> bytes:
    fields |= {} if committed is None else {"committed": committed}
    tokens, logprobs = [[first, 1], [first + 1, 1]], [[-0.1, -3.0], [-0.2, -4.0]]
    return line(rid, position=position, tokens=tokens, logprobs=logprobs, **fields)


LOG = [
    draft("a#1", 11, 20, [5]),
    draft("b#2", 31, 20, [7]),
    draft("a#1", 13, 40, [20, 21]),
    line("a#1", committed=[40]),
    draft("b#2", 32, 50, [8]),
]


def test_requests_are_told_apart_and_their_texts_put_together():
    a, b = read_answers(LOG, "log")

    assert a.text == [5, 20, 21, 40]
    assert (a.prompt_tokens, a.longest_context) == (10, 12)
    assert b.text == [7, 8]
    text = a.with_window(None)
    assert text is not None
    assert text.text.tolist() == [5, 20, 21, 40]
    assert text.places.tolist() == [0, 2]
    assert text.tokens[:, 0, 0].tolist() == [20, 40]
    assert text.logprobs.shape == (2, 2, 2)


def test_a_smaller_window_has_its_own_drafts_where_it_acts_and_else_those_of_the_server():
    lines = [
        draft("a#1", 11, 20, [5]),  # context 10
        draft("a#1", 12, 30, [20]),  # context 11
        draft("a#1", 12, 31, window=10),
        draft("a#1", 13, 40, [30]),  # context 12
        draft("a#1", 13, 41, window=10),
    ]
    (answer,) = read_answers(lines, "log")

    def first_tokens(window: int | None) -> dict[int, int]:
        text = answer.with_window(window)
        assert text is not None
        return dict(zip(text.places.tolist(), text.tokens[:, 0, 0].tolist(), strict=True))

    assert first_tokens(10) == {0: 20, 1: 31, 2: 41}
    assert first_tokens(12) == first_tokens(None) == {0: 20, 1: 30, 2: 40}
    assert answer.with_window(11) is answer.with_window(9) is None


def test_a_request_that_ended_with_its_prompt_is_left_out():
    assert read_answers([line("a#1", committed=[3])], "log") == ()


def test_a_line_that_was_cut_off_ends_the_log():
    answers = read_answers([*LOG[:2], LOG[2][:20]], "log")

    assert [answer.text for answer in answers] == [[5], [7]]


@pytest.mark.parametrize(
    "bad",
    [
        b"Decode batch, #running-req: 1\n",
        b"[1, 2]\n",
        line("a#1", position=13),
        line("a#1", committed=[1], position=13, tokens=[[1]], logprobs=[[-1.0]]),
        line("a#1", committed=[1, 2], position=13, tokens=[[1, 2], [3]], logprobs=[[-1.0, -2.0], [-1.0]]),
        draft("a#1", 25, 1, [20, 21]),
        line("a#1", committed=[20, 21], position=13, tokens=[[1, 2], [3, 4]], logprobs=[[0.5, -2.0], [-1.0, -2.0]]),
        draft("c#3", 11, 1, []),
    ],
)
def test_a_line_that_is_no_draft_is_named(bad: bytes):
    with pytest.raises(MeasurementError, match="line 2 of the log"):
        read_answers([LOG[0], bad], "log")
