from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.benchmark.chat_chunk import ChatChunk, Usage, explain_error, parse_chunk, parse_usage


def parse(value: Any) -> ChatChunk:
    return parse_chunk(json.dumps(value, ensure_ascii=False).encode())


def test_content_is_a_token():
    chunk = parse({"choices": [{"delta": {"content": "中"}}]})

    assert chunk == ChatChunk(content="中")
    assert chunk.is_token


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_both_names_of_the_reasoning_channel_are_tokens(field: str):
    chunk = parse({"choices": [{"delta": {"content": None, field: "hm"}}]})

    assert chunk == ChatChunk(reasoning="hm")
    assert chunk.is_token


def test_content_in_parts_is_joined_by_channel():
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "h"}, {"type": "text", "text": "m"}]},
        {"type": "text", "text": "a"},
        {"type": "image", "text": "no"},
        {"type": "text", "text": None},
        {"type": "text"},
        "noise",
        {"type": "text", "text": "b"},
    ]

    assert parse({"choices": [{"delta": {"content": parts}}]}) == ChatChunk(content="ab", reasoning="hm")
    assert parse({"choices": [{"delta": {"content": [{"type": "thinking", "thinking": 7}]}}]}) == ChatChunk()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"<html><head>\n<title> 502 Bad\nGateway </title></head>" + b"x" * 9000, "a web page, '502 Bad Gateway'"),
        (b"<html><body>no title</body></html>", "<html><body>no title</body></html>"),
        (b'{"error": {"message": "no room"}}', "no room"),
        (b"", "error without a message"),
    ],
)
def test_the_body_of_an_error_is_explained_in_a_line(body: bytes, said: str):
    assert explain_error(body) == said


def test_a_tool_call_is_a_token():
    call = {"index": 0, "function": {"name": "f", "arguments": '{"a":'}}

    chunk = parse({"choices": [{"delta": {"tool_calls": [call]}}]})

    assert chunk.tool_text == 'f{"a":'
    assert chunk.is_token


def test_the_opening_role_is_no_token():
    """case 19."""
    assert not parse({"choices": [{"delta": {"role": "assistant", "content": ""}}]}).is_token


def test_the_closing_chunk_is_no_token():
    """case 19."""
    chunk = parse({"choices": [{"delta": {}, "finish_reason": "stop"}]})

    assert chunk == ChatChunk(finish_reason="stop")
    assert not chunk.is_token


@pytest.mark.parametrize("choices", [{"choices": []}, {}, {"choices": None}, {"choices": [None]}, {"choices": "x"}])
def test_usage_without_choices_is_taken(choices: dict[str, Any]):
    """case 13."""
    chunk = parse(choices | {"usage": {"prompt_tokens": 9, "completion_tokens": 7}})

    assert chunk == ChatChunk(usage=Usage(9, 7))
    assert not chunk.is_token


def test_usage_beside_the_finish_reason_is_taken():
    """case 13."""
    usage = {"prompt_tokens": 9, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 4}}

    chunk = parse({"choices": [{"delta": {}, "finish_reason": "length"}], "usage": usage})

    assert chunk == ChatChunk(finish_reason="length", usage=Usage(9, 7, 4))


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 1, "completion_tokens": 0}, Usage(1, 0)),
        ({"completion_tokens": -1}, None),
        ({"completion_tokens": True}, None),
        ({"completion_tokens": 1.5, "prompt_tokens": 2}, Usage(2, None)),
        ({"completion_tokens": "7"}, None),
        ({"completion_tokens": 7, "prompt_tokens_details": None}, Usage(None, 7)),
        ({"completion_tokens": 7, "completion_tokens_details": {"reasoning_tokens": 5}}, Usage(None, 7, None, 5)),
        ([], None),
    ],
)
def test_usage_holds_numbers_or_nothing(usage: Any, expected: Usage | None):
    assert expected == parse_usage(usage)


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ({"error": {"message": "out of\nmemory", "code": 500}}, "out of memory"),
        ({"error": "busy"}, "busy"),
        ({"object": "error", "message": "no such model"}, "no such model"),
        ([1], "chunk is not a JSON object but list"),
    ],
)
def test_errors_are_words(value: Any, error: str):
    assert parse(value) == ChatChunk(error=error)


def test_what_is_no_json_is_an_error():
    chunk = parse_chunk(b'{"choices": [')

    assert chunk.error is not None
    assert chunk.error.startswith("chunk is not JSON")


def test_invalid_utf8_is_replaced():
    """case 15."""
    assert parse_chunk(b'{"choices":[{"delta":{"content":"a\xffb"}}]}').content == "a\ufffdb"


def test_half_a_surrogate_pair_is_replaced():
    """case 15."""
    text = parse_chunk(b'{"choices":[{"delta":{"content":"a\\ud83d"}}]}').content

    assert text.encode()
    assert text[0] == "a"
    assert parse_chunk(b'{"choices":[{"delta":{"content":"\\ud83d\\ude00"}}]}').content == "\U0001f600"


def test_deep_nesting_is_an_error_not_a_crash():
    assert parse_chunk(b"[" * 100_000).error is not None


@given(st.binary(max_size=200))
def test_no_bytes_raise(data: bytes):
    parse_chunk(data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(["choices", "usage", "error", "object", "message"])
INNER = st.sampled_from(
    ["delta", "content", "tool_calls", "function", "finish_reason", "reasoning", "completion_tokens"]
)


@given(st.dictionaries(KEYS, JSON | st.lists(st.dictionaries(INNER, JSON | st.dictionaries(INNER, JSON)), max_size=2)))
def test_no_json_raises_and_texts_are_texts(value: dict[str, Any]):
    chunk = parse(value)

    assert isinstance(chunk.content, str)
    assert isinstance(chunk.reasoning, str)
    assert chunk.finish_reason is None or isinstance(chunk.finish_reason, str)
