from __future__ import annotations

import asyncio
import dataclasses
import json
import time
from typing import Any

import pytest

from autotune.api_key import ApiKey
from autotune.benchmark.client import ChatClient, ChatRequest, RequestLimits, render_request
from autotune.benchmark.lateness import Lateness
from autotune.benchmark.request_record import Outcome, RequestRecord
from autotune.settings import SamplingSettings
from tests.benchmark.scripted_server import (
    DONE,
    ROLE,
    STOP,
    Answer,
    Script,
    Scripts,
    closed_port,
    content,
    event,
    running,
    steady,
    usage,
)

LIMITS = RequestLimits(connect_s=2, first_token_s=5, gap_s=5, request_s=10)


def make_request(max_tokens: int = 16, **more: Any) -> ChatRequest:
    return render_request(
        prompt_id="p",
        repeat=0,
        model="m",
        messages=(("user", "Hi"),),
        sampling=SamplingSettings(**more),
        seed=7,
        max_tokens=max_tokens,
        ignore_eos=False,
    )


def ask(url: str, request: ChatRequest | None = None, limits: RequestLimits = LIMITS) -> RequestRecord:
    async def main() -> RequestRecord:
        async with ChatClient(url, limits) as client:
            return await client.ask(request or make_request())

    return asyncio.run(main())


def ask_script(script: Script, limits: RequestLimits = LIMITS, **more: Any) -> RequestRecord:
    with running(Scripts(lambda _scripts, _request: script, **more)) as server:
        return ask(server.url, limits=limits)


def test_a_request_leaves_nothing_to_the_server():
    """case 27."""
    body = json.loads(make_request(temperature=0.6, top_p=0.9, top_k=5).body)

    assert body == {
        "model": "m",
        "messages": [{"role": "user", "content": "Hi"}],
        "temperature": 0.6,
        "top_p": 0.9,
        "top_k": 5,
        "seed": 7,
        "max_tokens": 16,
        "ignore_eos": False,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    }


def test_thinking_is_stated_where_it_is_set():
    """case 27."""
    assert json.loads(make_request(thinking=False).body)["chat_template_kwargs"] == {"thinking": False}


@pytest.mark.parametrize("byte_at_a_time", [False, True])
def test_an_answer_is_recorded(byte_at_a_time: bool):
    """case 15."""
    result = ask_script(
        [(0.0, ROLE), (0.02, content("中", 1)), (0.02, content("文", 3)), (0.02, STOP + usage(3) + DONE)],
        byte_at_a_time=byte_at_a_time,
    )

    assert result.outcome is Outcome.OK
    assert (result.text, result.chunk_tokens, result.output_tokens) == ("中文", (1, 3), 3)
    assert result.ttft_s is not None
    assert result.ttft_s >= 0.02
    assert result.chunk_at_s[1] - result.chunk_at_s[0] >= 0.015
    assert result.ended_at_s >= result.chunk_at_s[-1]


def test_the_role_chunk_is_not_the_first_token():
    """case 19."""
    result = ask_script([(0.0, ROLE), (0.1, content("Hi")), (0.0, STOP + usage(1) + DONE)])

    assert result.ttft_s is not None
    assert result.ttft_s >= 0.1


def test_a_refused_connection_failed():
    """case 22."""
    result = ask(f"http://127.0.0.1:{closed_port()}")

    assert result.outcome is Outcome.FAILED
    assert result.error is not None
    assert result.error.startswith("ConnectError")


def test_a_refusal_that_comes_before_the_request_was_read_is_explained():
    """A prompt of megabytes does not fit into the buffers of a connection."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = b'{"detail": "too large"}'
        writer.write(b"HTTP/1.1 413 X\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b" % (len(body), body))
        await writer.drain()
        writer.close()

    async def main() -> RequestRecord:
        server = await asyncio.start_server(refuse, "127.0.0.1", 0, limit=1 << 10)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        request = dataclasses.replace(make_request(), body=b" " * (32 << 20))
        async with ChatClient(url, LIMITS) as client:
            record = await client.ask(request)
        server.close()
        return record

    result = asyncio.run(main())

    assert result.outcome is Outcome.FAILED
    assert result.error is not None
    assert result.error.startswith(("HTTP 413: too large", "WriteError", "ReadError"))


def test_an_error_status_is_explained():
    result = ask_script([], status=503)

    assert (result.outcome, result.error) == (Outcome.FAILED, "HTTP 503: scripted refusal")


def test_an_answer_that_is_no_stream_failed():
    result = ask_script([(0.0, b'{"choices":[]}')], content_type="application/json")

    assert result.outcome is Outcome.FAILED
    assert result.error is not None
    assert "instead of a stream" in result.error


def test_an_error_event_failed():
    result = ask_script([(0.0, event({"error": {"message": "boom"}}) + DONE)])

    assert (result.outcome, result.error) == (Outcome.FAILED, "boom")


@pytest.mark.parametrize(
    ("broken", "error"),
    [
        (event({"error": {"message": "out of memory", "code": 500}}), "out of memory"),
        (event({"object": "error", "message": "aborted", "code": 400}), "aborted"),
        (b"event: error\ndata: the engine died\n\n", "the engine died"),
        (b'event: error\ndata: {"detail": "the engine died"}\n\n', "the engine died"),
        (b"data: {not json}\n\n", "chunk is not JSON"),
    ],
    ids=["OpenAI", "vLLM", "named, text", "named, JSON", "unreadable"],
)
def test_an_error_inside_a_stream_ends_the_request_at_once(broken: bytes, error: str):
    started_s = time.perf_counter()
    result = ask_script([(0.0, content("x", 1)), (0.01, content("y", 2)), (0.01, broken), (5.0, DONE)])

    assert result.outcome is Outcome.FAILED
    assert result.error is not None
    assert result.error.startswith(error)
    assert result.ttft_s is None
    assert time.perf_counter() - started_s < 4


def test_the_word_error_in_an_answer_is_text():
    text = 'data: {"error": 1}\nevent: error'
    result = ask_script([(0.0, content(text, 5)), (0.0, STOP + usage(5) + DONE)])

    assert (result.outcome, result.text) == (Outcome.OK, text)


def test_an_answer_that_the_server_aborts_failed():
    stop = event({"choices": [{"index": 0, "delta": {}, "finish_reason": "abort"}]})
    result = ask_script([(0.0, content("x", 1)), (0.0, stop + usage(1) + DONE)])

    assert result.outcome is Outcome.FAILED
    assert result.error is not None
    assert "abort" in result.error


def test_reasoning_counts_as_generated_text():
    thinking = [event({"choices": [{"delta": {name: "hm"}}]}) for name in ("reasoning_content", "reasoning")]
    result = ask_script([(0.0, ROLE), (0.02, thinking[0]), (0.05, thinking[1]), (0.05, STOP + usage(2) + DONE)])

    assert (result.reasoning, result.text) == ("hmhm", "")
    assert len(result.chunk_at_s) == 2
    assert result.ttft_s is not None
    assert 0.02 <= result.ttft_s < 0.07


@pytest.mark.parametrize("end", [[], [(0.0, b"HANG UP")]])
def test_a_stream_that_stops_is_truncated(end: Script):
    """case 17."""
    result = ask_script([*[(0.001, content("x"))] * 12, *end])

    assert result.outcome is Outcome.TRUNCATED
    assert len(result.chunk_at_s) == 12
    assert result.ttft_s is None


def test_a_lost_connection_after_the_whole_answer_is_no_loss():
    """case 17."""
    result = ask_script([(0.0, content("x", 1)), (0.01, STOP + usage(1)), (0.05, b"HANG UP")])

    assert result.outcome is Outcome.OK


@pytest.mark.parametrize(
    ("script", "limits", "error"),
    [
        ([(5.0, ROLE)], RequestLimits(2, 0.1, 9, 9), "no token within 0.1 s"),
        ([(0.0, ROLE), *[(0.03, b": ping\n\n")] * 50], RequestLimits(2, 0.1, 9, 9), "no token within 0.1 s"),
        ([(0.0, content("x", 1)), (5.0, content("y", 2))], RequestLimits(2, 9, 0.1, 9), "nothing received for 0.1 s"),
        (
            [(0.0, content("x", 1)), *[(0.03, b": ping\n\n")] * 50],
            RequestLimits(2, 9, 0.1, 9),
            "nothing received for 0.1 s",
        ),
        (steady(2000, 1, 0.01), RequestLimits(2, 9, 9, 0.2), "not finished within 0.2 s"),
    ],
    ids=["silence", "keep-alive comments", "gap", "gap with keep-alive comments", "whole"],
)
def test_each_limit_ends_a_request_and_says_so(script: Script, limits: RequestLimits, error: str):
    started_s = time.perf_counter()
    result = ask_script(script, limits)

    assert (result.outcome, result.error) == (Outcome.TIMED_OUT, error)
    assert time.perf_counter() - started_s < 4


def test_a_slow_but_steady_answer_passes_no_limit():
    result = ask_script(steady(10, 1, 0.04), RequestLimits(2, 0.5, 0.3, 9))

    assert result.outcome is Outcome.OK


def test_a_body_that_stays_open_after_its_end_mark_is_an_answer():
    script = [*steady(5, 2, 0.001), (5.0, b": still here\n\n")]

    started_s = time.perf_counter()
    result = ask_script(script)

    assert result.outcome is Outcome.OK
    assert result.ended_at_s - result.chunk_at_s[-1] < 0.5  # waiting for the body's end is not the server's time
    assert time.perf_counter() - started_s < 4


def test_an_answer_larger_than_any_honest_one_is_cut_off():
    flood = [(0.0, content("x" * 100_000))] * 40

    with running(Scripts(lambda _scripts, _request: [*flood, (0.0, STOP + usage(9) + DONE)])) as server:
        result = ask(server.url, make_request(max_tokens=1))

    assert result.outcome is Outcome.FAILED
    assert result.error is not None
    assert result.error.startswith("answer larger than")


def test_the_end_mark_inside_an_answer_is_text():
    def answer(_scripts: Scripts, _request: dict[str, Any]) -> Script:
        return [(0.0, content("a", 1)), (0.01, content("\ndata: [DONE]\n\n", 5)), (1.6, STOP + usage(5) + DONE)]

    with running(Scripts(answer)) as server:
        result = ask(server.url)

    assert (result.outcome, result.text) == (Outcome.OK, "a\ndata: [DONE]\n\n")


def test_a_closed_idle_connection_is_replaced():
    answers: list[RequestRecord] = []

    def hang_up_after(_scripts: Scripts, _request: dict[str, Any]) -> Script:
        return [*steady(3, 1, 0.001)]

    async def main(url: str, server: Scripts) -> None:
        async with ChatClient(url, LIMITS) as client:
            for _ in range(2):
                answers.append(await client.ask(make_request()))
                server.hang_up()
                await asyncio.sleep(0.05)

    answer: Answer = hang_up_after
    with running(Scripts(answer)) as server:
        asyncio.run(main(server.url, server))

    assert [result.outcome for result in answers] == [Outcome.OK, Outcome.OK]
    assert server.connections == 2


def test_the_api_key_is_sent_and_shows_nowhere():
    """A server that repeats the key, in a refusal or an answer, does not bring it into the records."""
    key = ApiKey("sk-hidden")

    def answer(scripts: Scripts, _request: dict[str, Any]) -> Script:
        return [(0.0, content(f"you sent {scripts.headers[-1]['authorization']}", 1)), (0.0, STOP + usage(1) + DONE)]

    async def main(url: str) -> list[RequestRecord]:
        async with ChatClient(url, LIMITS, api_key=key) as client:
            answered = await client.ask(make_request())
            server.status, server.refusal = 401, "incorrect key sk-hidden"
            return [answered, await client.ask(make_request())]

    with running(Scripts(answer)) as server:
        answered, refused = asyncio.run(main(server.url))

    assert answered.text == "you sent Bearer [API key]"
    assert refused.error == "HTTP 401: incorrect key [API key]"
    assert "hidden" not in json.dumps([answered.to_json(), refused.to_json()])
    assert [headers["authorization"] for headers in server.headers] == ["Bearer sk-hidden"] * 2


def test_what_is_sent_has_one_length_whatever_is_in_the_key():
    async def main(url: str) -> RequestRecord:
        async with ChatClient(url, LIMITS, api_key=ApiKey("sk-LENGTH-100%d-%s")) as client:
            return await client.ask(make_request())

    with running(Scripts(lambda _scripts, _request: steady(3, 1, 0.001))) as server:
        result = asyncio.run(main(server.url))

    assert result.outcome is Outcome.OK
    (headers,) = server.headers
    assert headers["authorization"] == "Bearer sk-LENGTH-100%d-%s"
    assert headers["content-length"] == str(len(make_request().body))
    assert headers["host"] == server.url.removeprefix("http://")


def test_how_late_chunks_were_read_is_known():
    async def main(url: str) -> Lateness:
        async with ChatClient(url, LIMITS) as client:
            await client.ask(make_request())
            return client.lateness.take()

    with running(Scripts(lambda _scripts, _request: steady(20, 1, 0.002))) as server:
        lateness = asyncio.run(main(server.url))

    assert lateness.reads >= 15
    assert lateness.stamped >= lateness.reads / 2  # the kernel begins a moment after it was asked
    assert lateness.median_s is not None
    assert lateness.median_s < 0.05
