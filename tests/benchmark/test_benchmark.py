from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from autotune.benchmark.benchmark import Benchmark
from autotune.benchmark.precision import Precision
from autotune.errors import NothingSucceeded, TooManyFailures, UsageMissing
from autotune.settings import BenchmarkSettings, CellSettings, SamplingSettings, StageSettings
from autotune.trial import Cell
from tests.benchmark.scripted_server import (
    DONE,
    ROLE,
    STOP,
    Script,
    Scripts,
    closed_port,
    content,
    running,
    steady,
    usage,
)

SINGLE = CellSettings(context=60, concurrency=1, requests=4)
FOUR = CellSettings(context=60, concurrency=4, requests=8)


def make_settings(**changes: Any) -> BenchmarkSettings:
    values: dict[str, Any] = {
        "stages": (StageSettings(name="only", cells=(SINGLE,)),),
        "output_tokens": 32,
        "repeats": 2,
        "connect_timeout_s": 2,
        "first_token_timeout_s": 5,
        "gap_timeout_s": 5,
        "request_timeout_s": 10,
    }
    return BenchmarkSettings(**(values | changes))


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def answer_steadily(scripts: Scripts, request: dict[str, Any]) -> Script:
    return steady(min(request["max_tokens"], 17), 4, 0.01)


def test_text_that_looks_like_none_is_the_first_thing_said_of_a_cell(tmp_path: Path):
    def repeat(_scripts: Scripts, _request: dict[str, Any]) -> Script:
        pieces = [(0.005, content("no no no no no no no no no ", at * 2)) for at in range(1, 9)]
        return [(0.0, ROLE), *pieces, (0.0, STOP + usage(16) + DONE)]

    with running(Scripts(repeat)) as server:
        measured = Benchmark(server.url, make_settings(), tmp_path / "records.jsonl").measure_cell(SINGLE)

    assert measured.notes[0] == "degenerate text: 8 of 8 answers repeat themselves at the end"


def test_a_cell_is_measured_end_to_end_over_http(tmp_path: Path):
    def answer_after_prefill(scripts: Scripts, request: dict[str, Any]) -> Script:
        return steady(min(request["max_tokens"], 17), 4, 0.01, first_s=0.1)

    with running(Scripts(answer_after_prefill)) as server:
        benchmark = Benchmark(server.url, make_settings(), tmp_path / "deep" / "records.jsonl", speculative=False)
        measured = benchmark.measure_cell(FOUR)

    assert measured.requests == measured.succeeded == 16
    assert measured.output_tokens == 16 * 17
    assert measured.prompt_tokens == 16 * 9
    assert measured.accept_length is None
    # Four streams of 4 tokens per 10 ms at most; slower when the machine is busy, never faster.
    assert 0 < measured.decode_tokens_per_s.value <= 1600 * 1.05
    assert 0 < measured.total_tokens_per_s.value < measured.decode_tokens_per_s.value
    assert measured.ttft_s is not None
    assert 0.1 < measured.ttft_s.value < 5
    assert len(measured.per_prompt_log_speed) >= 1
    assert all(math.isfinite(value) for value in measured.per_prompt_log_speed.values())
    assert server.most_in_flight == 4
    lines = read_lines(tmp_path / "deep" / "records.jsonl")
    assert [line["type"] for line in lines].count("request") == 1 + 4 + 16
    assert lines[-1]["type"] == "measured"
    assert lines[-1]["decode_tokens_per_s"]["value"] == measured.decode_tokens_per_s.value


def test_exactly_c_requests_are_in_flight_at_c1(tmp_path: Path):
    with running(Scripts(answer_steadily)) as server:
        Benchmark(server.url, make_settings(), tmp_path / "r.jsonl").measure_cell(SINGLE)

    assert server.most_in_flight == 1


def test_connections_are_kept(tmp_path: Path):
    with running(Scripts(answer_steadily)) as server:
        Benchmark(server.url, make_settings(), tmp_path / "r.jsonl").measure_cell(FOUR)

    assert server.connections <= 4 + 4  # four of the load, and those of the probe


def test_every_request_states_its_sampling_and_limits(tmp_path: Path):
    """case 27."""
    sampling = SamplingSettings(temperature=0.6, top_p=0.95, top_k=20, seed=7, thinking=False)
    with running(Scripts(answer_steadily)) as server:
        settings = make_settings(sampling=sampling, ignore_eos=True)
        Benchmark(server.url, settings, tmp_path / "r.jsonl").measure_cell(SINGLE)

    assert server.bodies
    for body in server.bodies:
        stated = {name: body[name] for name in ("temperature", "top_p", "top_k", "ignore_eos", "model")}
        assert stated == {"temperature": 0.6, "top_p": 0.95, "top_k": 20, "ignore_eos": True, "model": "scripted"}
        assert isinstance(body["seed"], int)
        assert body["max_tokens"] >= 1
        assert body["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
        assert body["chat_template_kwargs"] == {"thinking": False}
    header = next(line for line in read_lines(tmp_path / "r.jsonl") if line["type"] == "cell")
    assert header["settings"]["sampling"] == sampling.model_dump()


def test_greedy_sampling_is_stated_too(tmp_path: Path):
    """case 27."""
    with running(Scripts(answer_steadily)) as server:
        Benchmark(server.url, make_settings(), tmp_path / "r.jsonl").measure_cell(SINGLE)

    assert {(b["temperature"], b["top_p"], b["top_k"]) for b in server.bodies} == {(0.0, 1.0, -1)}
    assert not any("chat_template_kwargs" in body for body in server.bodies)


def answer_with_prefix_cache(scripts: Scripts, request: dict[str, Any]) -> Script:
    prompt = json.dumps(request["messages"])
    is_cached = prompt in scripts.seen_prompts
    scripts.seen_prompts.add(prompt)
    return steady(9, 4, 0.005, first_s=0.005 if is_cached else 0.1)


@pytest.mark.parametrize("offers_flush", [True, False])
def test_a_warm_prefix_cache_does_not_change_the_second_measurement(tmp_path: Path, offers_flush: bool):
    """case 24."""
    with running(Scripts(answer_with_prefix_cache, offers_flush=offers_flush)) as server:
        settings = make_settings(repeats=1)
        first = Benchmark(server.url, settings, tmp_path / "r.jsonl").measure_cell(SINGLE)
        second = Benchmark(server.url, settings, tmp_path / "r.jsonl").measure_cell(SINGLE)

    assert first.ttft_s is not None
    assert second.ttft_s is not None
    assert first.ttft_s.value >= 0.1
    assert second.ttft_s.value >= 0.1
    # Before prompts are counted, and again because counting has put them into the cache.
    assert server.flushes == (4 if offers_flush else 0)
    headers = [line for line in read_lines(tmp_path / "r.jsonl") if line["type"] == "cell"]
    assert [header["cache"].startswith("flushed") for header in headers] == [offers_flush] * 2
    assert any("prefix cache" in note for note in second.notes) is not offers_flush
    names = [line["prompt_id"] for line in read_lines(tmp_path / "r.jsonl") if line["type"] == "request"]
    assert names[: len(names) // 2] == names[len(names) // 2 :]


def test_prompts_are_the_same_for_every_trial_and_unique_per_repeat(tmp_path: Path):
    with running(Scripts(answer_steadily)) as server:
        Benchmark(server.url, make_settings(), tmp_path / "a.jsonl").measure_cell(SINGLE)
        first, server.bodies = server.bodies, []
        Benchmark(server.url, make_settings(), tmp_path / "b.jsonl").measure_cell(SINGLE)

    assert first == server.bodies
    texts = [json.dumps(body["messages"]) for body in first]
    assert len(set(texts)) == len(texts)
    assert len([body for body in first if body["max_tokens"] == 32]) == 8


def test_cached_tokens_are_stored_and_a_surprising_share_is_reported(tmp_path: Path):
    """case 24."""

    def answer(_scripts: Scripts, _request: dict[str, Any]) -> Script:
        return [(0.0, content("a")), (0.01, content("b")), (0.0, STOP + usage(2, 100, 90) + DONE)]

    with running(Scripts(answer)) as server:
        measured = Benchmark(server.url, make_settings(), tmp_path / "r.jsonl").measure_cell(SINGLE)

    assert measured.cached_tokens == 8 * 90
    assert any("prefix cache" in note for note in measured.notes)


def test_no_usage_fails_the_cell(tmp_path: Path):
    """case 12."""

    def answer(_scripts: Scripts, request: dict[str, Any]) -> Script:
        end = STOP + (usage(1) if request["max_tokens"] == 1 else b"") + DONE
        return [(0.0, ROLE), *[(0.001, content("x"))] * 24, (0.0, end)]

    with running(Scripts(answer)) as server, pytest.raises(UsageMissing):
        Benchmark(server.url, make_settings(), tmp_path / "r.jsonl").measure_cell(SINGLE)


def test_no_usage_at_all_is_seen_with_the_first_request(tmp_path: Path):
    """case 12."""

    def answer(_scripts: Scripts, _request: dict[str, Any]) -> Script:
        return [(0.0, content("x")), (0.0, STOP + DONE)]

    with running(Scripts(answer)) as server, pytest.raises(UsageMissing, match="include_usage"):
        Benchmark(server.url, make_settings(), tmp_path / "r.jsonl").measure_cell(SINGLE)


def test_refused_connections_are_no_measurement(tmp_path: Path):
    """case 22."""
    benchmark = Benchmark(f"http://127.0.0.1:{closed_port()}", make_settings(), tmp_path / "r.jsonl")

    with pytest.raises(NothingSucceeded, match=r"0 of 3 requests succeeded; .*ConnectError"):
        benchmark.measure_cell(SINGLE)


def test_error_answers_are_no_measurement(tmp_path: Path):
    """case 22."""
    with running(Scripts(answer_steadily, status=503)) as server, pytest.raises(NothingSucceeded, match="HTTP 503"):
        Benchmark(server.url, make_settings(), tmp_path / "r.jsonl").measure_cell(SINGLE)


def test_truncated_streams_count_against_the_success_rate(tmp_path: Path):
    """case 17."""

    def answer(scripts: Scripts, request: dict[str, Any]) -> Script:
        whole = steady(9, 4, 0.005)
        measured = request["max_tokens"] == 32
        return whole[:-1] if measured and len(scripts.bodies) % 2 else whole

    with running(Scripts(answer)) as server, pytest.raises(TooManyFailures, match="the stream ended after 3 chunks"):
        Benchmark(server.url, make_settings(), tmp_path / "r.jsonl").measure_cell(SINGLE)


def test_a_few_failures_are_reported_and_left_out(tmp_path: Path):
    """case 17."""

    def answer(scripts: Scripts, request: dict[str, Any]) -> Script:
        measured = [body for body in scripts.bodies if body["max_tokens"] == 32]
        if measured and len(measured) == 4 and request is measured[-1]:
            return [(0.0, content("x", 1)), (0.0, b"HANG UP")]
        return steady(9, 4, 0.005)

    with running(Scripts(answer)) as server:
        settings = make_settings(min_success_rate=0.5)
        measured = Benchmark(server.url, settings, tmp_path / "r.jsonl").measure_cell(SINGLE)

    assert (measured.requests, measured.succeeded) == (8, 7)
    assert measured.output_tokens == 7 * 9
    assert "1 of 8 requests did not succeed" in measured.notes


def metrics_of(scripts: Scripts) -> str:
    return (
        f'sglang:generation_tokens_total{{model_name="m"}} {scripts.generated_tokens}\n'
        f'sglang:spec_verify_calls_total{{model_name="m"}} {scripts.verify_calls}\n'
        'sglang:spec_accept_length{model_name="m"} 0.0\n'
    )


def answer_and_count(scripts: Scripts, request: dict[str, Any]) -> Script:
    scripts.generated_tokens += 17
    scripts.verify_calls += 4
    return steady(17, 4, 0.005)


def test_accept_length_is_that_of_this_cell_only(tmp_path: Path):
    with running(Scripts(answer_and_count, metrics=metrics_of)) as server:
        server.generated_tokens, server.verify_calls = 100_000, 99_000
        measured = Benchmark(server.url, make_settings(), tmp_path / "r.jsonl").measure_cell(SINGLE)

    assert measured.accept_length is not None
    assert measured.accept_length.value == 4.0  # (17 - 1 token of the prefill) / 4 steps
    assert measured.accept_length.count == 8 * 4
    assert not any("accept" in note or "others" in note for note in measured.notes)


def test_disagreeing_sources_are_reported(tmp_path: Path):
    info = {"internal_states": [{"avg_spec_accept_length": 2.0}]}
    with running(Scripts(answer_and_count, metrics=metrics_of, server_info=info)) as server:
        measured = Benchmark(server.url, make_settings(), tmp_path / "r.jsonl").measure_cell(SINGLE)

    assert any("4.00 by /metrics but 2.00 by /server_info" in note for note in measured.notes)


def test_the_log_is_asked_when_the_server_says_zero(tmp_path: Path):
    """case 33."""
    info = {"internal_states": [{"avg_spec_accept_length": 0.0}]}
    lines: list[str] = ["Decode batch, #running-req: 1, accept len: 1.50, #queue-req: 0"]

    measured_requests: list[int] = []

    def answer(_scripts: Scripts, request: dict[str, Any]) -> Script:
        if request["max_tokens"] == 32:
            measured_requests.append(1)
        # The first line of the cell still covers steps of the warm-up.
        length = "4.00" if len(measured_requests) > 1 else "1.50"
        lines.append(f"Decode batch, #running-req: 1, accept len: {length}, #queue-req: 0")
        return steady(9, 4, 0.005)

    with running(Scripts(answer, server_info=info)) as server:
        benchmark = Benchmark(server.url, make_settings(), tmp_path / "r.jsonl", read_log=lambda: tuple(lines))
        measured = benchmark.measure_cell(SINGLE)

    assert measured.accept_length is not None
    assert measured.accept_length.value == 4.0
    assert any("0.00" in note and "impossible" in note for note in measured.notes)


def test_foreign_traffic_is_reported(tmp_path: Path):
    def answer(scripts: Scripts, request: dict[str, Any]) -> Script:
        scripts.generated_tokens += 30
        return answer_and_count(scripts, request)

    with running(Scripts(answer, metrics=metrics_of)) as server:
        measured = Benchmark(server.url, make_settings(), tmp_path / "r.jsonl").measure_cell(SINGLE)

    assert measured.foreign is not None
    assert "tokens while" in measured.foreign


def test_a_byte_at_a_time_changes_nothing_but_time(tmp_path: Path):
    """case 15."""

    def answer(_scripts: Scripts, _request: dict[str, Any]) -> Script:
        return [(0.0, ROLE), (0.0, content("中", 1)), (0.002, content("文", 3)), (0.0, STOP + usage(3) + DONE)]

    with running(Scripts(answer, byte_at_a_time=True)) as server:
        settings = make_settings(repeats=1)
        measured = Benchmark(server.url, settings, tmp_path / "r.jsonl").measure_cell(SINGLE)

    assert measured.output_tokens == 4 * 3
    texts = {line["text"] for line in read_lines(tmp_path / "r.jsonl") if line["type"] == "request"}
    assert texts == {"中文"}


def restless(_cell: Cell) -> Precision:
    """No noise between boots: no round is ever precise enough."""
    return Precision(between=0.0)


def test_rounds_send_the_same_requests_until_the_cell_is_precise(tmp_path: Path):
    with running(Scripts(answer_steadily)) as server:
        benchmark = Benchmark(server.url, make_settings(), tmp_path / "r.jsonl", learn_precision=restless)
        measured = benchmark.measure_cell(SINGLE)

    rounds = [body["messages"] for body in server.bodies if body["max_tokens"] == 32][-24:]
    assert rounds[:8] == rounds[8:16] == rounds[16:]
    assert measured.requests == 3 * 2 * 4
    assert len(measured.round_log_speeds) == 3
    assert len(measured.per_prompt_log_speed) <= 8
    repeats = [line["repeat"] for line in read_lines(tmp_path / "r.jsonl") if line["type"] == "request"]
    assert sorted(set(repeats[-24:])) == [0, 1, 2, 3, 4, 5]


def test_a_round_is_new_to_a_prefix_cache_that_cannot_be_emptied(tmp_path: Path):
    """case 24: else the second round would measure the cache."""
    with running(Scripts(answer_steadily, offers_flush=False)) as server:
        Benchmark(server.url, make_settings(), tmp_path / "r.jsonl", learn_precision=restless).measure_cell(SINGLE)

    sent = [json.dumps(body["messages"]) for body in server.bodies if body["max_tokens"] == 32][-24:]
    assert len(set(sent)) == 24


@pytest.mark.parametrize(
    ("changes", "left_s", "between"),
    [({"max_rounds": 1}, None, 0.0), ({"rounds_limit_s": 1e-6}, None, 0.0), ({}, 0.0, 0.0)],
)
def test_no_round_is_added_beyond_a_limit(
    tmp_path: Path, changes: dict[str, Any], left_s: float | None, between: float
):
    with running(Scripts(answer_steadily)) as server:
        benchmark = Benchmark(
            server.url,
            make_settings(**changes),
            tmp_path / "r.jsonl",
            learn_precision=lambda _cell: Precision(between),
            time_left_s=lambda: left_s,
        )
        measured = benchmark.measure_cell(SINGLE)

    assert measured.requests == 8
    assert measured.round_log_speeds == ()


def answer_natively(scripts: Scripts, request: dict[str, Any]) -> Script:
    tokens = request["sampling_params"]["max_new_tokens"]
    counts = {"prompt_tokens": 60, "completion_tokens": tokens, "finish_reason": {"type": "length"}}
    histogram = {"spec_verify_ct": 6, "spec_correct_drafts_histogram": [1, 2, 0, 3]}
    whole = {"text": "x", "meta_info": counts | histogram}
    return [(0.0, b"data: " + json.dumps(whole).encode() + b"\n\n" + DONE)]


def test_a_warm_up_tells_how_many_drafted_tokens_steps_accept(tmp_path: Path):
    with running(Scripts(answer_steadily, answer_native=answer_natively)) as server:
        benchmark = Benchmark(server.url, make_settings(), tmp_path / "records.jsonl", counts_accepted=True)
        measured = benchmark.measure_cell(FOUR)

    assert measured.accepted_histogram == (4, 8, 0, 12)
    assert measured.requests == 16
    assert all("messages" in body for body in server.bodies[-16:])


def test_a_server_without_generate_is_warmed_up_by_chats_and_tells_nothing(tmp_path: Path):
    with running(Scripts(answer_steadily)) as server:
        benchmark = Benchmark(server.url, make_settings(), tmp_path / "records.jsonl", counts_accepted=True)
        measured = benchmark.measure_cell(FOUR)

    assert measured.accepted_histogram == ()
    warm_ups = [
        line for line in read_lines(tmp_path / "records.jsonl") if line["type"] == "request" and line["repeat"] == -1
    ]
    assert [line["outcome"] for line in warm_ups] == ["failed"] * 4 + ["ok"] * 4


def test_a_canary_is_the_prefill_rate_of_the_same_prompts_each_time(tmp_path: Path):
    def answer(_scripts: Scripts, _request: dict[str, Any]) -> Script:
        return [(0.0, ROLE), (0.02, content("a", 1)), (0.0, STOP + usage(1) + DONE)]

    with running(Scripts(answer)) as server:
        lengths = tmp_path / "prompts.jsonl"
        benchmark = Benchmark(server.url, make_settings(), tmp_path / "r.jsonl", lengths_path=lengths)
        first, second = benchmark.measure_canary(), benchmark.measure_canary()

    assert first is not None
    assert second is not None
    assert first.count == 6
    assert 0 < first.value <= 9 / 0.02, "nine tokens of prompt, at least 20 ms"
    sent = [json.dumps(body["messages"]) for body in server.bodies]
    assert sent[-7:] == sent[-14:-7]


def test_failures_are_judged_over_all_cells_of_the_boot(tmp_path: Path):
    """One failure in twelve requests is chance in one cell; eight in a hundred are not."""
    seen: list[int] = []

    def answer(_scripts: Scripts, request: dict[str, Any]) -> Script:
        if request["max_tokens"] == 32:
            seen.append(1)
            if len(seen) % 12 == 5:
                return [(0.0, ROLE), (0.0, b"HANG UP")]
        return steady(9, 4, 0.002)

    settings = make_settings(min_success_rate=0.99, repeats=1)
    cell = CellSettings(context=60, concurrency=12, requests=12)
    with running(Scripts(answer)) as server:
        benchmark = Benchmark(server.url, settings, tmp_path / "r.jsonl")
        measured = [benchmark.measure_cell(cell)]
        with pytest.raises(TooManyFailures, match="requests succeeded since this server was booted"):
            measured.extend(benchmark.measure_cell(cell) for _ in range(10))

    assert all(item.succeeded == 11 for item in measured)
