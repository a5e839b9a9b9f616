"""The HTTP surface of one running server with draft trees."""

from __future__ import annotations

import itertools
import json
import re
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.ddtree.server_process import ServerProcess, new_client, running, wait_for
from tests.ddtree.tiny_weights import CONFIG, write_tiny_weights

ENVIRONMENT = {"SGLANG_DDTREE_MAX_TOPK": "3"}
CHAT = {"messages": [{"role": "user", "content": "add two numbers"}], "max_tokens": 12, "temperature": 0}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")
    flags = ["--model-path", str(write_tiny_weights(folder)), "--speculative-algorithm", "DDTREE"]
    flags += ["--speculative-ddtree-budget", "12", "--max-running-requests", "16", "--enable-metrics"]
    flags += ["--decode-log-interval", "4", "--random-seed", "3", "--served-model-name", "tiny"]
    with running(folder / "log", *flags, environment=ENVIRONMENT) as process:
        yield process


@pytest.fixture
def client(server: ServerProcess):
    with new_client(server.url) as client:
        yield client


def events(text: str) -> list[Any]:
    """Return the data of an event stream: JSON decoded, but for the last, ``[DONE]``."""
    assert text.endswith("\n\n")
    lines = text.removesuffix("\n\n").split("\n\n")
    assert all(line.startswith("data: ") for line in lines)
    assert lines[-1] == "data: [DONE]"
    return [json.loads(line[6:]) for line in lines[:-1]]


def running_requests(client: httpx.Client) -> float:
    found = re.search(r"^sglang:num_running_reqs\{.*\} (\S+)$", client.get("/metrics").text, re.MULTILINE)
    assert found is not None
    return float(found[1])


def test_server_info_shows_the_effective_flags(client: httpx.Client) -> None:
    info = client.get("/server_info").json()

    assert info["speculative_algorithm"] == "DDTREE"
    assert info["speculative_ddtree_budget"] == 12
    assert info["speculative_num_draft_tokens"] == 8
    assert info["speculative_draft_window_size"] is None
    assert info["attention_backend"] == "triton"
    assert info["page_size"] == 1
    assert info["max_running_requests"] == 16
    assert info["topk"] == 3
    assert info["random_seed"] == 3
    assert info["context_length"] == CONFIG.max_positions
    assert info["internal_states"][0]["effective_max_running_requests_per_dp"] == 16
    assert info["internal_states"][0]["memory_usage"]["token_capacity"] == 16 * CONFIG.max_positions
    assert client.get("/get_server_info").json().keys() == info.keys()


def test_model_info_and_the_model_list_name_the_model(client: httpx.Client) -> None:
    assert client.get("/model_info").json()["is_generation"] is True
    assert client.get("/get_model_info").json() == client.get("/model_info").json()
    (card,) = client.get("/v1/models").json()["data"]
    assert (card["id"], card["max_model_len"]) == ("tiny", CONFIG.max_positions)
    assert client.get("/v1/models/tiny").json() == card
    assert client.get("/v1/models/huge").status_code == 404


def test_a_chat_streams_the_text_that_it_returns_whole(client: httpx.Client) -> None:
    whole = client.post("/v1/chat/completions", json=CHAT).json()
    options = {"include_usage": True, "continuous_usage_stats": True}
    stream = events(client.post("/v1/chat/completions", json=CHAT | {"stream": True, "stream_options": options}).text)
    first, *pieces, last, usage = stream

    assert first["choices"][0]["delta"]["role"] == "assistant"
    assert first["choices"][0]["delta"]["content"] == ""
    assert first["usage"]["completion_tokens"] == 0
    assert (
        "".join(piece["choices"][0]["delta"]["content"] for piece in pieces)
        == whole["choices"][0]["message"]["content"]
    )
    assert last["choices"][0]["finish_reason"] == whole["choices"][0]["finish_reason"] == "length"
    assert usage["choices"] == []
    assert usage["usage"] == whole["usage"]
    assert whole["usage"]["completion_tokens"] == 12
    counts = [piece["usage"]["completion_tokens"] for piece in pieces]
    assert counts == sorted(counts)
    assert counts[-1] <= 12


def test_the_bytes_of_a_completion_stream_are_sglangs(client: httpx.Client) -> None:
    body = {"prompt": "def add", "max_tokens": 1, "temperature": 0, "stream": True, "model": 'a"b'}
    response = client.post("/v1/completions", json=body)
    (event,) = events(response.text)
    text = json.dumps(event["choices"][0]["text"], ensure_ascii=False)
    head = f'{{"id":"{event["id"]}","object":"text_completion","created":{event["created"]},"model":"a\\"b","choices":['

    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert response.text == (
        f'data: {head}{{"index":0,"text":{text},"logprobs":null,"finish_reason":"length","matched_stop":null}}],'
        '"usage":null}\n\ndata: [DONE]\n\n'
    )


def test_the_bytes_of_a_chat_stream_are_sglangs(client: httpx.Client) -> None:
    """case 19: the chunk that opens a chat names the role and holds no text."""
    body = CHAT | {"max_tokens": 1, "stream": True, "stream_options": {"include_usage": True}}
    response = client.post("/v1/chat/completions", json=body)
    stream = events(response.text)
    head = (
        f'data: {{"id":"{stream[0]["id"]}","object":"chat.completion.chunk","created":{stream[0]["created"]},'
        '"model":"tiny","choices":['
    )

    def chunk(role: str, content: str, finish: str) -> str:
        return (
            f'{head}{{"index":0,"delta":{{"role":{role},"content":{content},"reasoning_content":null,"tool_calls":null}},'
            f'"logprobs":null,"finish_reason":{finish},"matched_stop":null}}],"usage":null}}\n\n'
        )

    content = [event["choices"][0]["delta"]["content"] for event in stream[1:-2]]
    prompt = stream[-1]["usage"]["prompt_tokens"]
    assert response.text == (
        chunk('"assistant"', '""', "null")
        + "".join(chunk("null", json.dumps(text, ensure_ascii=False), "null") for text in content)
        + chunk("null", "null", '"length"')
        + f'{head}],"usage":{{"prompt_tokens":{prompt},"total_tokens":{prompt + 1},"completion_tokens":1,'
        '"prompt_tokens_details":null,"reasoning_tokens":0}}\n\ndata: [DONE]\n\n'
    )


def test_native_streaming_is_cumulative_and_ends_with_the_whole(client: httpx.Client) -> None:
    body = {"text": "def add", "sampling_params": {"max_new_tokens": 9, "temperature": 0}}
    whole = client.post("/generate", json=body).json()
    stream = events(client.post("/generate", json=body | {"stream": True}).text)

    for before, after in itertools.pairwise(stream):
        assert after["text"].startswith(before["text"])
        assert after["output_ids"][: len(before["output_ids"])] == before["output_ids"]
    assert stream[-1]["text"] == whole["text"]
    assert stream[-1]["output_ids"] == whole["output_ids"]
    assert stream[-1]["meta_info"]["finish_reason"] == {"type": "length"}
    assert len(whole["output_ids"]) == 9


def test_meta_info_counts_the_verify_steps_of_this_request(client: httpx.Client) -> None:
    info = client.post(
        "/generate",
        json={
            "input_ids": [9, 10, 11],
            "rid": "mine",
            "sampling_params": {"max_new_tokens": 20, "temperature": 0, "ignore_eos": True},
        },
    ).json()["meta_info"]

    assert info["id"] == "mine"
    assert (info["prompt_tokens"], info["completion_tokens"], info["cached_tokens"]) == (3, 20, 0)
    assert info["spec_accept_length"] == 20 / info["spec_verify_ct"]
    assert info["spec_num_proposed_drafts"] == 7 * info["spec_verify_ct"]
    assert info["spec_accept_rate"] == info["spec_num_correct_drafts"] / info["spec_num_proposed_drafts"]
    assert sum(info["spec_correct_drafts_histogram"]) == info["spec_verify_ct"]
    assert info["e2e_latency"] > 0


def test_a_chat_returns_meta_info_when_asked(client: httpx.Client) -> None:
    choice = client.post("/v1/chat/completions", json=CHAT | {"return_meta_info": True}).json()["choices"][0]

    assert choice["meta_info"]["completion_tokens"] == 12
    assert (
        client.post("/v1/chat/completions", json=CHAT | {"return_meta_info": True, "stream": True}).status_code == 400
    )


def test_a_seed_decides_a_sampled_answer(client: httpx.Client) -> None:
    def answer(seed: int) -> str:
        body = {"prompt": "def", "max_tokens": 16, "temperature": 1.0, "seed": seed, "ignore_eos": True}
        text: str = client.post("/v1/completions", json=body).json()["choices"][0]["text"]
        return text

    assert answer(5) == answer(5)
    assert len({answer(seed) for seed in range(4)}) > 1


def test_a_request_that_states_no_temperature_is_sampled(client: httpx.Client) -> None:
    """case 27: like SGLang, this server falls back on the model's defaults, so a benchmark must state its sampling."""

    def answer(**more) -> str:
        body = {"prompt": "def", "max_tokens": 16, "seed": 1, "ignore_eos": True, **more}
        text: str = client.post("/v1/completions", json=body).json()["choices"][0]["text"]
        return text

    assert answer() == answer(temperature=1.0)
    assert answer() != answer(temperature=0)


def test_a_stop_string_ends_the_text_before_it_and_is_named(client: httpx.Client) -> None:
    body = {"prompt": "def", "max_tokens": 40, "temperature": 1.0, "seed": 2, "ignore_eos": True}
    full = client.post("/v1/completions", json=body).json()["choices"][0]["text"]
    stop = full[8:10]
    choice = client.post("/v1/completions", json=body | {"stop": [stop]}).json()["choices"][0]
    stream = events(client.post("/v1/completions", json=body | {"stop": stop, "stream": True}).text)

    assert choice["text"] == full[: full.index(stop)]
    assert (choice["finish_reason"], choice["matched_stop"]) == ("stop", stop)
    assert "".join(event["choices"][0]["text"] for event in stream) == choice["text"]
    wait_for(lambda: running_requests(client) == 0)


def test_the_end_token_ends_an_answer_unless_ignored(client: httpx.Client) -> None:
    def answer(seed: int, **more):
        body = {"input_ids": [9], "sampling_params": {"max_new_tokens": 150, "sampling_seed": seed, **more}}
        return client.post("/generate", json=body).json()

    ended = next(a for a in (answer(seed) for seed in range(20)) if a["meta_info"]["finish_reason"]["type"] == "stop")
    assert ended["meta_info"]["finish_reason"]["matched"] == 3
    assert ended["meta_info"]["completion_tokens"] == len(ended["output_ids"]) + 1
    assert answer(1, ignore_eos=True)["meta_info"]["completion_tokens"] == 150
    assert answer(1, min_new_tokens=140)["meta_info"]["completion_tokens"] >= 140


def test_multibyte_text_arrives_whole(client: httpx.Client) -> None:
    """case 15: random tokens are full of broken bytes; what is streamed is what is returned whole."""
    body = {"input_ids": [9], "sampling_params": {"max_new_tokens": 300, "sampling_seed": 4, "ignore_eos": True}}
    whole = client.post("/generate", json=body).json()["text"]
    stream = events(client.post("/generate", json=body | {"stream": True}).text)

    assert stream[-1]["text"] == whole
    assert not any(len(event["text"]) > len(whole) for event in stream)


def test_system_messages_are_read_in_front_of_the_first_question(client: httpx.Client) -> None:
    def count(*messages: tuple[str, str]) -> int:
        body = {"messages": [{"role": role, "content": text} for role, text in messages], "max_tokens": 1}
        tokens: int = client.post("/v1/chat/completions", json=body).json()["usage"]["prompt_tokens"]
        return tokens

    folded = count(("system", "be brief"), ("user", "hi"))
    assert folded == count(("user", "be brief\n\nhi"))
    assert count(("user", "a"), ("assistant", "b"), ("user", "c")) == 2 + 3 + 2 + 1
    assert count(("user", "<|end|>")) == count(("user", "x")) + len(b"<|end|>") - 1


MALFORMED = [
    ("/generate", b"{", "not valid JSON"),
    ("/generate", b'{"text": "\xff"}', "not valid JSON"),
    ("/generate", b'{"text": "\\ud800"}', "not valid JSON"),
    ("/generate", b"[]", "must be a JSON object"),
    ("/generate", b"null", "must be a JSON object"),
    ("/generate", {}, "either text or input_ids"),
    ("/generate", {"text": "a", "input_ids": [9]}, "either text or input_ids"),
    ("/generate", {"text": ""}, "prompt is empty"),
    ("/generate", {"text": 5}, "text must be one string"),
    ("/generate", {"text": ["a", "b"]}, "one prompt per request"),
    ("/generate", {"input_ids": []}, "input_ids must be"),
    ("/generate", {"input_ids": [1.5]}, "input_ids must be"),
    ("/generate", {"input_ids": [True]}, "input_ids must be"),
    ("/generate", {"input_ids": [320]}, "token 320"),
    ("/generate", {"input_ids": [-1]}, "token -1"),
    ("/generate", {"input_ids": [9] * 1024}, "context holds 1024"),
    ("/generate", {"text": "a", "stream": "yes"}, "stream must be true or false"),
    ("/generate", {"text": "a", "rid": 5}, "rid must be a string"),
    ("/generate", {"text": "a", "return_logprob": True}, "return_logprob is not supported"),
    ("/generate", {"text": "a", "sampling_params": []}, "sampling_params must be an object"),
    ("/generate", {"text": "a", "sampling_params": {"max_tokens": 5}}, "max_tokens is unknown; did you mean"),
    ("/generate", {"text": "a", "sampling_params": {"max_new_tokens": -1}}, "max_new_tokens must be at least 1"),
    ("/generate", {"text": "a", "sampling_params": {"max_new_tokens": 2.5}}, "max_new_tokens must be a whole number"),
    ("/generate", {"text": "a", "sampling_params": {"max_new_tokens": 1024}}, "context holds 1024"),
    ("/generate", {"text": "a", "sampling_params": {"max_new_tokens": 4, "min_new_tokens": 5}}, "at most 4"),
    ("/generate", {"text": "a", "sampling_params": {"temperature": -0.1}}, "temperature must be at least 0"),
    ("/generate", {"text": "a", "sampling_params": {"temperature": "hot"}}, "temperature must be a number"),
    ("/generate", b'{"text": "a", "sampling_params": {"temperature": NaN}}', "not valid JSON"),
    ("/generate", b'{"text": "a", "sampling_params": {"temperature": 1e400}}', "not valid JSON"),
    ("/generate", b'{"text": "a", "sampling_params": {"max_new_tokens": 99999999999999999999}}', "max_new_tokens"),
    ("/generate", b"[" * 5000, "not valid JSON"),
    ("/generate", b'{"text": ' + b"[" * 1000 + b"]" * 1000 + b"}", "text must be one string"),
    ("/v1/completions", b'{"prompt": "a", "stop": ' + b"[" * 1000 + b"]" * 1000 + b"}", "stop must be"),
    ("/v1/completions", b'{"prompt": "a", "tools": ' + b'{"a":' * 1000 + b"1" + b"}" * 1001, "calls no tools"),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}] * 600}, "context holds 1024"),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}] * 300_000}, "too many for a context"),
    ("/generate", {"text": "a", "sampling_params": {"top_p": 0}}, "top_p must be above 0"),
    ("/generate", {"text": "a", "sampling_params": {"top_p": 1.1}}, "top_p must be above 0"),
    ("/generate", {"text": "a", "sampling_params": {"top_k": 0}}, "top_k must be at least 1"),
    ("/generate", {"text": "a", "sampling_params": {"stop": [""]}}, "stop must be a non-empty string"),
    ("/generate", {"text": "a", "sampling_params": {"stop": 5}}, "stop must be a non-empty string"),
    ("/generate", {"text": "a", "sampling_params": {"regex": "a+"}}, "grammars"),
    ("/generate", {"text": "a", "sampling_params": {"sampling_seed": 2**64}}, "sampling_seed must be"),
    ("/generate", {"text": "a", "sampling_params": {"n": 2}}, "one answer per request"),
    ("/v1/completions", {"max_tokens": 5}, "prompt is missing"),
    ("/v1/completions", {"prompt": ""}, "prompt is empty"),
    ("/v1/completions", {"prompt": ["a", "b"]}, "one prompt per request"),
    ("/v1/completions", {"prompt": "a", "max_tokens": 0}, "max_tokens must be at least 1"),
    ("/v1/completions", {"prompt": "a", "max_tokens": "5"}, "max_tokens must be a whole number"),
    ("/v1/completions", {"prompt": "a", "max_tokens": True}, "max_tokens must be a whole number"),
    ("/v1/completions", {"prompt": "a" * 200_000}, "too many for a context"),
    ("/v1/completions", {"prompt": "a", "echo": True}, "echo is not supported"),
    ("/v1/completions", {"prompt": "a", "logprobs": 1}, "logprobs is not supported"),
    ("/v1/completions", {"prompt": "a", "n": 2}, "one answer per request"),
    ("/v1/completions", {"prompt": "a", "frequency_penalty": 0.5}, "frequency_penalty is not supported"),
    ("/v1/completions", {"prompt": "a", "model": 5}, "model must be a string"),
    ("/v1/completions", {"prompt": "a", "stream_options": 5}, "stream_options must be an object"),
    ("/v1/chat/completions", {}, "messages must be a non-empty list"),
    ("/v1/chat/completions", {"messages": []}, "messages must be a non-empty list"),
    ("/v1/chat/completions", {"messages": ["hi"]}, "messages[0] must be an object"),
    ("/v1/chat/completions", {"messages": [{"role": "user"}]}, "messages[0].content"),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": ""}]}, "prompt is empty"),
    ("/v1/chat/completions", {"messages": [{"role": "king", "content": "a"}]}, "messages[0].role"),
    ("/v1/chat/completions", {"messages": [{"role": "system", "content": "a"}]}, "must be the user's"),
    ("/v1/chat/completions", CHAT | {"max_tokens": -5}, "max_tokens must be at least 1"),
    ("/v1/chat/completions", CHAT | {"logprobs": True}, "logprobs is not supported"),
    ("/v1/chat/completions", CHAT | {"response_format": {"type": "json_schema"}}, "grammars"),
    ("/v1/chat/completions", CHAT | {"tools": [{}]}, "calls no tools"),
    ("/v1/chat/completions", CHAT | {"n": 2}, "one answer per request"),
]


@pytest.mark.parametrize(("path", "body", "reason"), MALFORMED)
def test_a_malformed_request_gets_400_and_the_reason(client: httpx.Client, path: str, body, reason: str) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    response = client.post(path, content=content, headers={"content-type": "application/json"})
    answer = response.json()

    assert response.status_code == 400, answer
    if path == "/generate":
        assert reason in answer["error"]["message"]
    else:
        assert reason in answer["message"]
        assert (answer["object"], answer["type"], answer["code"]) == ("error", "BadRequestError", 400)


def test_harmless_extras_are_accepted(client: httpx.Client) -> None:
    extras = {
        "n": 1,
        "logprobs": False,
        "tools": [],
        "presence_penalty": 0,
        "response_format": {"type": "text"},
        "chat_template_kwargs": {"thinking": False},
        "user": "me",
        "model": "anything",
        "seed": None,
    }

    assert client.post("/v1/chat/completions", json=CHAT | extras).status_code == 200


def test_unknown_paths_and_methods_are_refused(client: httpx.Client) -> None:
    assert client.get("/nowhere").status_code == 404
    assert client.get("/generate").status_code == 405


def test_sixty_four_clients_at_once_lose_nothing(client: httpx.Client) -> None:
    """Four times as many as are decoded together: each gets the text it gets alone."""

    def answer(number: int):
        body = {"prompt": f"def f{number}", "max_tokens": 24, "temperature": 0, "ignore_eos": True}
        options = {"stream": True, "stream_options": {"include_usage": True}}
        *pieces, usage = events(client.post("/v1/completions", json=body | options).text)
        return "".join(piece["choices"][0]["text"] for piece in pieces), usage["usage"]["completion_tokens"]

    with ThreadPoolExecutor(64) as pool:
        together = list(pool.map(answer, range(64)))
    alone = [answer(number) for number in range(0, 64, 16)]

    assert [count for _, count in together] == [24] * 64
    assert together[::16] == alone


def test_a_client_that_leaves_frees_its_slot(server: ServerProcess, client: httpx.Client) -> None:
    body = {"prompt": "def", "max_tokens": 1000, "ignore_eos": True, "stream": True}
    with client.stream("POST", "/v1/completions", json=body) as response:
        next(response.iter_raw())

    wait_for(lambda: running_requests(client) == 0)
    assert client.post("/flush_cache").status_code == 200


def test_a_client_that_leaves_before_its_answer_frees_its_slot(server: ServerProcess, client: httpx.Client) -> None:
    body = json.dumps({"prompt": "def", "max_tokens": 1000, "ignore_eos": True}).encode()
    with socket.create_connection(("127.0.0.1", server.port)) as sock:
        sock.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        wait_for(lambda: running_requests(client) == 1)

    wait_for(lambda: running_requests(client) == 0)


def test_a_slow_reader_holds_up_nobody(server: ServerProcess, client: httpx.Client) -> None:
    """case 10: what gathered while nobody read comes as chunks of several tokens; usage still counts them all."""
    body = json.dumps(
        {"text": "def", "stream": True, "sampling_params": {"max_new_tokens": 900, "ignore_eos": True}}
    ).encode()
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect(("127.0.0.1", server.port))
        sock.sendall(b"POST /generate HTTP/1.0\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        wait_for(lambda: running_requests(client) == 1)
        wait_for(lambda: running_requests(client) == 0, 60)
        assert client.post("/v1/chat/completions", json=CHAT).status_code == 200
        received = b"".join(iter(lambda: sock.recv(1 << 16), b""))
    payload = received.partition(b"\r\n\r\n")[2].decode()
    found = re.findall(r"^data: (\{.*\})\r?$", payload, re.MULTILINE)

    assert json.loads(found[-1])["meta_info"]["completion_tokens"] == 900
    assert len(found) < 900


def test_an_aborted_request_ends_and_says_so(client: httpx.Client) -> None:
    answers: list[httpx.Response] = []
    body = {"text": "a", "rid": "doomed", "sampling_params": {"max_new_tokens": 1000, "ignore_eos": True}}
    thread = threading.Thread(target=lambda: answers.append(client.post("/generate", json=body)))
    thread.start()
    wait_for(lambda: running_requests(client) == 1)
    duplicate = client.post("/generate", json=body)
    aborted = client.post("/abort_request", json={"rid": "doomed"})
    thread.join()

    assert duplicate.status_code == 400
    assert "in flight" in duplicate.json()["error"]["message"]
    assert aborted.status_code == 200
    assert answers[0].json()["meta_info"]["finish_reason"] == {"type": "abort", "message": "Aborted"}
    assert client.post("/abort_request", json={}).status_code == 400


def test_an_aborted_id_may_be_used_again_at_once(client: httpx.Client) -> None:
    body = {"text": "a", "rid": "again", "sampling_params": {"max_new_tokens": 900, "ignore_eos": True}}
    for _ in range(5):
        thread = threading.Thread(target=lambda: client.post("/generate", json=body))
        thread.start()
        wait_for(lambda: running_requests(client) == 1)
        client.post("/abort_request", json={"rid": "again"})
        answer = client.post(
            "/generate", json=body | {"sampling_params": {"max_new_tokens": 10, "ignore_eos": True}}
        ).json()
        thread.join()

        assert answer["meta_info"]["id"] == "again"
        assert answer["meta_info"]["finish_reason"] == {"type": "length"}
        assert len(answer["output_ids"]) == 10


def test_a_flush_is_refused_while_requests_run_and_clears_the_counters(
    server: ServerProcess, client: httpx.Client
) -> None:
    body = {"prompt": "def", "max_tokens": 1000, "ignore_eos": True, "stream": True}
    with new_client(server.url) as other, other.stream("POST", "/v1/completions", json=body) as response:
        chunks = response.iter_raw()
        next(chunks)
        assert client.post("/flush_cache").status_code == 400
    assert client.post("/flush_cache", params={"timeout": "20"}).status_code == 200
    assert "avg_spec_accept_length" not in client.get("/server_info").json()["internal_states"][0]

    body = {"prompt": "def", "max_tokens": 60, "ignore_eos": True, "temperature": 0, "rid": "x"}
    meta = client.post("/v1/completions", json=body | {"return_meta_info": True}).json()["choices"][0]["meta_info"]
    internal = client.get("/server_info").json()["internal_states"][0]

    assert internal["avg_spec_accept_length"] == pytest.approx(meta["spec_accept_length"], rel=0.2)
    assert internal["last_gen_throughput"] > 0


@pytest.mark.parametrize("text", ["inf", "nan", "-1", "3601", "soon", ""])
def test_a_flush_that_would_wait_for_ever_is_refused(client: httpx.Client, text: str) -> None:
    response = client.post("/flush_cache", params={"timeout": text})

    assert response.status_code == 400
    assert response.text.startswith("timeout must be a number of seconds between 0 and 3600")


def test_metrics_count_tokens_and_verify_calls(client: httpx.Client) -> None:
    def value(name: str) -> float:
        found = re.search(rf"^sglang:{name}\{{model_name=\"tiny\"\}} (\S+)$", client.get("/metrics").text, re.MULTILINE)
        assert found is not None, name
        return float(found[1])

    names = ("generation_tokens_total", "spec_verify_calls_total", "prompt_tokens_total", "num_requests_total")
    before = [value(name) for name in names]
    body = {"input_ids": [9, 10], "sampling_params": {"max_new_tokens": 30, "ignore_eos": True}}
    meta = client.post("/generate", json=body).json()["meta_info"]
    client.get("/health")
    after = [value(name) for name in names]

    assert [b - a for a, b in zip(before, after, strict=True)] == [30, meta["spec_verify_ct"], 2, 1]
    assert value("spec_accept_length") >= 1
    assert value("time_to_first_token_seconds_count") == value("num_requests_total") + value(
        "num_aborted_requests_total"
    )


def test_log_lines_have_sglangs_shape(server: ServerProcess) -> None:
    """case 30"""
    stamp = r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\] "
    decode = (
        r"Decode batch, #running-req: \d+, #token: \d+, token usage: \d\.\d\d, accept len: \d+\.\d\d, accept rate: \d\.\d\d, "
        r"cuda graph: False, gen throughput \(token/s\): \d+\.\d\d, #queue-req: \d+$"
    )

    assert re.search(stamp + decode, server.log, re.MULTILINE)
    assert re.search(
        stamp + r"Prefill batch, #new-seq: \d+, #new-token: \d+, #cached-token: 0, ", server.log, re.MULTILINE
    )
    assert re.search(stamp + r"The server is fired up and ready to roll!$", server.log, re.MULTILINE)
    worker = r"Initialized DDTree worker\. block_size=8, tree_budget=12, max_tree_nodes=13$"
    assert re.search(stamp + worker, server.log, re.MULTILINE)
    assert "Traceback" not in server.log
