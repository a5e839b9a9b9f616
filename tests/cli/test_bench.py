"""The load generator alone: what it sends, prints and saves, and what it says when something is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from autotune.cli.bench import make_settings
from autotune.cli.bench_progress import BenchWork
from autotune.errors import UserError
from autotune.measuring_mark import Work
from tests.benchmark.scripted_server import DONE, STOP, Scripts, closed_port, content, running, usage
from tests.cli.conftest import run_command
from tests.cli.openai_server import answer, plain_server
from tests.fake_clock import FakeClock
from tests.test_measuring_mark import working_elsewhere

SMALL = ("--context", "128", "--concurrency", "1,4", "--output-tokens", "24", "--repeats", "1", "--requests", "4")


def bench(server: Scripts, *words: str | Path) -> Result:
    return run_command("bench", server.url, *SMALL, *words)


def test_a_server_with_only_openais_own_api_is_measured(tmp_path: Path):
    with running(plain_server()) as server:
        done = bench(server, "--save", tmp_path / "a.json")

    assert done.exit_code == 0, done.output
    assert "OpenAI's own fields only, limit in max_tokens" in done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("    128")]
    assert [row[1] for row in rows] == ["1", "4"]
    assert [row[-3] for row in rows] == ["4/4", "4/4"]
    result = json.loads((tmp_path / "a.json").read_text())
    assert result["ended_at"] is not None
    for cell in result["cells"]:
        measured = cell["measurement"]
        assert measured["output_tokens"] == 4 * 24
        assert measured["prompt_tokens"] == 4 * 128
        assert measured["accept_length"] is None
        assert measured["foreign"] is None
        assert len(cell["prompts"]) == 4
    # 3 tokens each 4 ms are 750 tokens/s; a busy machine is slower, never much faster.
    assert result["cells"][0]["measurement"]["decode_tokens_per_s"]["value"] <= 800
    lines = [json.loads(line) for line in (tmp_path / "a.json.requests.jsonl").read_text().splitlines()]
    assert sum(line["type"] == "request" and line["repeat"] == 0 and line["max_tokens"] == 24 for line in lines) == 8
    measured_bodies = [body for body in server.bodies if body.get("max_tokens") == 24]
    assert all("top_k" not in body and "ignore_eos" not in body for body in measured_bodies)
    assert len({json.dumps(body["messages"]) for body in measured_bodies}) == len(measured_bodies) == 8


def test_a_server_that_wants_the_newer_limit_gets_it():
    def refuses(request: dict[str, Any]) -> str | None:
        return "use max_completion_tokens" if "max_tokens" in request else None

    with running(plain_server(refuses=refuses)) as server:
        done = bench(server)

    assert done.exit_code == 0, done.output
    assert "limit in max_completion_tokens" in done.stderr


def test_data_goes_to_stdout_and_nothing_else():
    with running(plain_server()) as server:
        done = bench(server, "--json")

    result = json.loads(done.stdout)
    assert (result["kind"], result["model"]) == ("benchmark", "scripted")
    assert result["records"] is None


def test_the_same_command_sends_the_same_prompts_to_every_server():
    seen = []
    for _run in range(2):
        with running(plain_server(offers_flush=True)) as server:
            bench(server)
        seen.append([(body["messages"], body["seed"]) for body in server.bodies])

    assert sorted(map(json.dumps, seen[0])) == sorted(map(json.dumps, seen[1]))


def test_a_cell_that_fails_does_not_end_the_others(tmp_path: Path):
    working = answer()

    def script(scripts: Scripts, request: dict[str, Any]) -> Any:
        if scripts.in_flight > 1 and request.get("max_tokens") == 24:
            return [(0.0, b"HANG UP")]
        return working(scripts, request)

    with running(plain_server(answer=script)) as server:
        done = bench(server, "--save", tmp_path / "a.json")

    assert done.exit_code == 5
    assert "ctx128-c4: not measured" in done.stdout
    cells = json.loads((tmp_path / "a.json").read_text())["cells"]
    assert [cell["measurement"] is None for cell in cells] == [False, True]


def test_nobody_there_says_what_to_do():
    done = run_command("bench", f"127.0.0.1:{closed_port()}")

    assert done.exit_code == 4
    assert "nothing answers" in done.stderr
    assert "start the server" in done.stderr


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (401, 2, "--api-key-variable"),
        (404, 2, "--model"),
        (500, 4, "see the server's log"),
        (429, 4, "a lower --concurrency"),
        (307, 2, "to which it redirects"),
        (400, 2, "refuses every request"),
    ],
)
def test_a_refusal_says_what_to_do(status: int, code: int, words: str):
    with running(plain_server(status=status, refuses=lambda _request: None)) as server:
        done = bench(server)

    assert done.exit_code == code, done.stderr
    assert words in done.stderr


def test_a_server_without_usage_is_not_measured():
    """case 12."""
    with running(
        plain_server(
            answer=lambda _s, _r: [
                (0.0, b'data: {"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n')
            ]
        )
    ) as server:
        done = bench(server)

    assert done.exit_code == 5
    assert "without counting its tokens" in done.stderr


def test_the_key_is_sent_and_never_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("BENCH_TEST_KEY", "sk-very-secret")
    with running(plain_server()) as server:
        done = bench(server, "--api-key-variable", "BENCH_TEST_KEY", "--save", tmp_path / "a.json")

    assert done.exit_code == 0
    assert {headers.get("authorization") for headers in server.headers} == {"Bearer sk-very-secret"}
    written = "".join(path.read_text() for path in tmp_path.iterdir())
    assert "sk-very-secret" not in written + done.output + done.stderr


def test_a_key_that_is_not_set_is_named():
    done = run_command("bench", "127.0.0.1:1", "--api-key-variable", "BENCH_NO_SUCH_KEY")

    assert done.exit_code == 2
    assert "BENCH_NO_SUCH_KEY" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("--context", "0"),
        ("--concurrency", "1,x"),
        ("--concurrency", ""),
        ("--mix", "poems=1"),
        ("--mix", "code=0"),
        ("--mix", "code"),
        ("--rate", "0"),
        ("--rate", "inf"),
        ("--temperature", "nan"),
        ("--temperature", "inf"),
        ("--top-p", "nan"),
        ("--seed", "99999999999999999999"),
        ("--output-tokens", "1"),
    ],
)
def test_wrong_options_are_refused_with_an_example(words: tuple[str, str]):
    done = run_command("bench", "127.0.0.1:1", *words)

    assert done.exit_code == 2
    assert words[0] in done.stderr


@pytest.mark.parametrize(
    "url", ["http://", "ftp://h", "http://user:pw@h:1", "http://h:1?x=1", "http://h:port", "http://h:99999", "h:0"]
)
def test_what_is_no_address_is_refused(url: str):
    done = run_command("bench", url)

    assert done.exit_code == 2
    assert "pw@" not in done.stderr


def test_a_key_in_the_place_of_its_variable_is_not_repeated():
    done = run_command("bench", "127.0.0.1:1", "--api-key-variable", "sk-live-123456")

    assert done.exit_code == 2
    assert "no name of an environment variable" in done.stderr
    assert "123456" not in done.stderr


def test_the_name_of_a_variable_is_no_secret():
    with running(plain_server(status=401, refuses=lambda _request: None)) as server:
        assert "--api-key-variable OPENAI_API_KEY" in bench(server).stderr


def test_a_web_page_is_named_as_no_stream():
    with running(plain_server(content_type="text/html; charset=UTF-8")) as server:
        done = bench(server)

    assert done.exit_code == 4
    assert "answered with text/html" in done.stderr


def test_a_cell_that_is_not_measured_is_named_once():
    one_chunk = [(0.0, content("word " * 24) + STOP + usage(24, 128) + DONE)]
    with running(plain_server(answer=lambda _s, _r: one_chunk)) as server:
        done = bench(server)

    assert "ctx128-c4: not measured: decode speed is unknown" in done.stdout


def test_what_was_measured_is_shown_though_it_cannot_be_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_words: object) -> None:
        raise UserError("the result cannot be written: No space left on device")

    monkeypatch.setattr("autotune.cli.bench.save_result", refuse)
    with running(plain_server()) as server:
        done = bench(server, "--save", tmp_path / "a.json")

    assert done.exit_code == 2
    assert "No space left" in done.stderr
    assert [line.split()[-3] for line in done.stdout.splitlines() if line.startswith("    128")] == ["4/4"]


def test_a_rate_sends_requests_as_they_arrive():
    with running(plain_server()) as server:
        done = run_command(
            "bench", server.url, "--context", "64", "--concurrency", "4", "--rate", "40", "--output-tokens", "6",
            "--repeats", "1", "--requests", "8", "--json",
        )  # fmt: skip

    cell = json.loads(done.stdout)["cells"][0]
    assert cell["settings"]["arrival_rate_per_s"] == 40
    assert cell["measurement"]["succeeded"] == 8


def test_requests_that_meet_the_limits_are_counted():
    with running(plain_server()) as server:
        met = bench(server, "--slo", "ttft=60s")
        missed = bench(server, "--slo", "tpot=0.000001ms", "--json")

    assert "ctx128-c4: 4 of 4 requests met the limits" in met.stdout
    assert "context 128: concurrency 4 is the largest measured at which 95 % of requests meet the limits" in met.stdout
    slo = json.loads(missed.stdout)["slo"]
    assert [cell["met"] for cell in slo["cells"]] == [0, 0]
    assert not any(cell["is_met"] for cell in slo["cells"])


def test_a_local_server_that_invents_its_accept_lengths_is_refused():
    program = (
        "import socket, sys\n"
        "listener = socket.create_server(('127.0.0.1', 0))\n"
        "print(listener.getsockname()[1], flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "SGLANG_SIMULATE_ACC_LEN": "4"},
    ) as process:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        done = run_command("bench", f"127.0.0.1:{port}")
        process.communicate()

    assert done.exit_code == 3
    assert "SGLANG_SIMULATE_ACC_LEN" in done.stderr


def test_nothing_is_measured_where_answers_are_judged():
    with running(plain_server()) as server, working_elsewhere(Work.JUDGING) as pid:
        done = bench(server)

    assert done.exit_code == 3
    assert f"process {pid} of autotune evaluates on this machine" in done.stderr
    assert server.bodies == []


def test_two_saved_results_are_compared(tmp_path: Path):
    for name, chunk_s in (("slow.json", 0.012), ("fast.json", 0.004)):
        with running(plain_server(answer=answer(chunk_s))) as server:
            assert bench(server, "--save", tmp_path / name).exit_code == 0

    done = run_command("compare", tmp_path / "slow.json", tmp_path / "fast.json")
    data = json.loads(run_command("compare", tmp_path / "slow.json", tmp_path / "fast.json", "--json").stdout)

    assert done.exit_code == 0
    assert "verdict: over 2 cells the second is" in done.stdout
    assert "faster in 2, slower in 0" in done.stdout
    assert data["overall"]["low"] > 0
    assert [cell["cell"] for cell in data["cells"]] == ["ctx128-c1", "ctx128-c4"]
    assert data["notes"] == []


def test_a_file_that_is_no_result_is_named(tmp_path: Path):
    (tmp_path / "a.json").write_text("{}")
    done = run_command("compare", tmp_path / "a.json", tmp_path / "b.json")

    assert done.exit_code == 2
    assert "a.json" in done.stderr


def make_work(clock: FakeClock) -> BenchWork:
    settings = make_settings(
        contexts=(128,), concurrencies=(1, 4), rate_per_s=None, output_tokens=24, repeats=2, requests=None,
        mix={"code": 1.0}, temperature=0.0, top_p=1.0, thinking=None, ignore_eos=False, seed=1,
    )  # fmt: skip
    return BenchWork(settings, clock.monotonic)


def test_the_time_left_falls_as_cells_end():
    from tests.benchmark.test_testimony import record  # noqa: PLC0415

    clock = FakeClock()
    work = make_work(clock)
    assert work.left_s is None
    shares = []
    for _cell in range(2):
        for _request in range(8):
            clock.sleep(1.0)
            work.take_record(record())
            shares.append(work.share)
        work.take_cell()

    assert shares == sorted(shares)
    assert work.share == 1.0
    assert work.left_s == 0.0
