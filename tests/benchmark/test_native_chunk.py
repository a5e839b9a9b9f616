from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.benchmark.api_fields import NATIVE
from autotune.benchmark.chat_chunk import Usage
from autotune.benchmark.chat_stream import ChatStream
from autotune.benchmark.client import render_request
from autotune.benchmark.native_chunk import NativeReader
from autotune.benchmark.request_record import Outcome, RequestRecord
from autotune.settings import SamplingSettings


def info(tokens: int, steps: int | None = None, reason: Any = None) -> dict[str, Any]:
    counts = {"prompt_tokens": 9, "completion_tokens": tokens, "cached_tokens": 2, "finish_reason": reason}
    return counts if steps is None else counts | {"spec_verify_ct": steps}


def event(text: str, ids: int, tokens: int, steps: int | None = None, reason: Any = None) -> bytes:
    value = {"text": text, "output_ids": list(range(ids)), "meta_info": info(tokens, steps, reason)}
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def read(*pieces: bytes) -> RequestRecord:
    stream = ChatStream(NativeReader().read)
    for at, piece in enumerate(pieces):
        stream.feed(piece, float(at))
    return stream.close(prompt_id="p", repeat=0, seed=1, sent_at_s=0.0, ended_at_s=9.0, max_tokens=64)


WHOLE = [
    event("ab", 2, 2, 1),
    event("abcd", 4, 4, 2),
    event("abcdefg", 7, 7, 3, {"type": "length", "length": 7}),
    b"data: [DONE]\n\n",
]


def test_an_answer_of_generate_is_read_with_its_verify_steps():
    record = read(*WHOLE)

    assert record.outcome is Outcome.OK
    assert record.text == "abcdefg"
    assert record.finish_reason == "length"
    assert record.usage == Usage(9, 7, 2)
    assert record.chunk_tokens == (2, 4, 7)
    assert not record.chunk_tokens_estimated
    assert record.verify_steps == 3


def test_a_finished_answer_says_how_many_drafted_tokens_its_steps_accepted():
    def told(histogram: Any) -> tuple[int, ...]:
        whole = info(7, 3, {"type": "stop"}) | {"spec_correct_drafts_histogram": histogram}
        data = json.dumps({"text": "x", "output_ids": [1], "meta_info": whole}).encode()
        return read(b"data: " + data + b"\n\n", b"data: [DONE]\n\n").accepted

    assert told([0, 1, 2]) == (0, 1, 2)
    for wrong in (None, 3, "12", [1, -1], [1, True], [1, 2.5], [1] * 100_000):
        assert told(wrong) == ()


def test_text_that_comes_piece_by_piece_is_not_cut():
    record = read(event("ab", 2, 2), event("ab", 2, 4), event("c", 1, 5, reason={"type": "stop"}), b"data: [DONE]\n\n")

    assert record.text == "ababc"
    assert record.chunk_tokens == (2, 4, 5)
    assert record.verify_steps is None


def test_an_answer_cut_off_is_truncated():
    """case 17."""
    assert read(*WHOLE[:2]).outcome is Outcome.TRUNCATED


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b'{"error": {"message": "too long"}}', "too long"),
        (b'{"choices": [{"delta": {"content": "x"}}]}', "meta_info"),
        (b"[]", "not a JSON object"),
        (b"{", "not JSON"),
    ],
)
def test_what_is_no_event_of_generate_is_an_error(data: bytes, words: str):
    record = read(b"data: " + data + b"\n\n")

    assert record.outcome is Outcome.FAILED
    assert words in (record.error or "")


def test_a_request_states_its_sampling_and_is_one_text():
    """case 27."""
    request = render_request(
        prompt_id="p",
        repeat=0,
        model="m",
        messages=(("user", "a"), ("assistant", "b"), ("user", "c")),
        sampling=SamplingSettings(temperature=0.5, top_p=0.9, top_k=7),
        seed=3,
        max_tokens=9,
        ignore_eos=False,
        fields=NATIVE,
    )

    assert request.is_native
    assert json.loads(request.body) == {
        "text": "user: a\n\nassistant: b\n\nuser: c\n\nassistant:",
        "sampling_params": {
            "temperature": 0.5, "top_p": 0.9, "top_k": 7, "sampling_seed": 3, "max_new_tokens": 9, "ignore_eos": False,
        },
        "stream": True,
    }  # fmt: skip


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.binary(max_size=60) | st.fixed_dictionaries({"text": JSON, "output_ids": JSON, "meta_info": JSON}))
def test_no_event_raises(value: bytes | dict[str, Any]):
    NativeReader().read(value if isinstance(value, bytes) else json.dumps(value).encode())


@given(
    st.fixed_dictionaries(
        dict.fromkeys(("prompt_tokens", "completion_tokens", "finish_reason", "spec_verify_ct"), JSON)
    )
)
def test_no_meta_info_raises(meta_info: dict[str, Any]):
    NativeReader().read(json.dumps({"text": "x", "output_ids": [1], "meta_info": meta_info}).encode())
