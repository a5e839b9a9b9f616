"""How a server process starts, refuses to start, drains and dies."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from tests.ddtree.server_process import ENTRY, is_alive, launch, new_client, running, wait_for
from tests.ddtree.tiny_weights import CONFIG, write_tiny_weights

LONG = {"prompt": "def", "max_tokens": 600, "ignore_eos": True, "temperature": 0, "stream": True}


@pytest.fixture(scope="module")
def weights(tmp_path_factory) -> Path:
    return write_tiny_weights(tmp_path_factory.mktemp("weights"))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def test_phases_refused_then_503_then_ready(tmp_path: Path, log: Path) -> None:
    """cases 1 and 3: before the warm-up is done the model list answers and health says 503."""
    # Large enough for a warm-up that can be caught in the act.
    large = replace(CONFIG, width=512, layers=6, hidden=1536, tapped_layers=(1, 5))
    server = launch(log, "--model-path", str(write_tiny_weights(tmp_path, large)))
    try:
        wait_for(lambda: "server_args=" in server.log, 120)
        assert server.status() is None
        wait_for(lambda: "Uvicorn running on" in server.log, 120)
        engine = server.engine_pid()
        os.kill(engine, signal.SIGSTOP)
        assert [server.status(path) for path in ("/health", "/health_generate")] == [503, 503]
        assert [server.status(path) for path in ("/model_info", "/v1/models")] == [200, 200]
        assert "ready to roll" not in server.log
        os.kill(engine, signal.SIGCONT)
        wait_for(lambda: server.status() == 200)
        assert "The server is fired up and ready to roll!" in server.log
        assert server.stop() == 0
        assert not is_alive(engine)
    finally:
        server.process.kill()
        server.process.wait()


def test_sigterm_lets_running_requests_finish(weights: Path, log: Path) -> None:
    with running(log, "--model-path", str(weights)) as server:
        lines: list[str] = []
        started = threading.Event()

        def read() -> None:
            with new_client(server.url) as client, client.stream("POST", "/v1/completions", json=LONG) as response:
                for line in response.iter_lines():
                    lines.append(line)
                    started.set()

        reader = threading.Thread(target=read)
        reader.start()
        started.wait(60)
        server.process.send_signal(signal.SIGTERM)
        wait_for(lambda: "SIGTERM received" in server.log)
        statuses = [_post_status(server.url), server.status()]
        code = server.process.wait(60)
        reader.join(60)

        assert lines[-2:] == ["data: [DONE]", ""]
        assert code == 0
        assert set(statuses) <= {503, None}
        assert statuses[0] == 503


def _post_status(url: str) -> int | None:
    with new_client(url) as client:
        try:
            return client.post("/v1/completions", json={"prompt": "a", "max_tokens": 1}).status_code
        except httpx.ConnectError:
            return None


def test_a_second_signal_ends_a_drain(weights: Path, log: Path) -> None:
    with running(log, "--model-path", str(weights)) as server:
        engine = server.engine_pid()
        with new_client(server.url) as client, client.stream("POST", "/v1/completions", json=LONG) as response:
            chunks = response.iter_raw()
            next(chunks)
            os.kill(engine, signal.SIGSTOP)
            server.process.send_signal(signal.SIGTERM)
            wait_for(lambda: "Gracefully exiting" in server.log)
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(30) == 128 + signal.SIGTERM
        wait_for(lambda: not is_alive(engine))


def test_a_dead_engine_ends_the_server_and_cuts_its_streams(weights: Path, log: Path) -> None:
    """cases 8 and 17: the log says what happened, and a stream that was cut off does not look complete."""
    with running(log, "--model-path", str(weights)) as server:
        with new_client(server.url) as client, client.stream("POST", "/v1/completions", json=LONG) as response:
            chunks = response.iter_raw()
            next(chunks)
            os.kill(server.engine_pid(), signal.SIGKILL)
            with pytest.raises(httpx.RemoteProtocolError):
                b"".join(chunks)

        assert server.process.wait(30) == 1
        assert "was killed by SIGKILL" in server.log
        assert "Received sigquit from a child process" in server.log


def test_the_engine_dies_with_a_killed_server(weights: Path, log: Path) -> None:
    with running(log, "--model-path", str(weights)) as server:
        engine = server.engine_pid()
        os.kill(engine, signal.SIGSTOP)
        server.process.kill()
        server.process.wait()

        wait_for(lambda: not is_alive(engine))


def test_plain_decoding_reports_no_acceptance(weights: Path, log: Path) -> None:
    """case 33: what is switched off is absent, not zero."""
    flags = ["--model-path", str(weights), "--decode-log-interval", "2", "--enable-metrics"]
    with running(log, *flags) as server, new_client(server.url) as client:
        body = {"text": "a", "sampling_params": {"max_new_tokens": 20, "ignore_eos": True}}
        meta = client.post("/generate", json=body).json()["meta_info"]
        info = client.get("/server_info").json()
        metrics = client.get("/metrics").text

        assert not any(name.startswith("spec_") for name in meta)
        assert info["speculative_algorithm"] is None
        assert "avg_spec_accept_length" not in info["internal_states"][0]
        assert "Decode batch" in server.log
        assert "accept len" not in server.log
        assert "sglang:spec_" not in metrics
        assert server.stop() == 0


def test_bfloat16_with_a_window_thresholds_and_a_draft_log(weights: Path, log: Path, tmp_path: Path) -> None:
    drafts = tmp_path / "drafts"
    flags = ["--speculative-algorithm", "DDTREE", "--speculative-ddtree-budget", "10", "--dtype", "bfloat16"]
    flags += ["--speculative-draft-window-size", "16", "--speculative-accept-threshold-single", "0.3"]
    flags += ["--draft-log", str(drafts), "--skip-server-warmup", "--speculative-dflash-block-size", "8"]
    with running(log, "--model-path", str(weights), *flags) as server, new_client(server.url) as client:
        body = {"text": "a", "sampling_params": {"max_new_tokens": 40, "ignore_eos": True}}
        meta = client.post("/generate", json=body).json()["meta_info"]
        info = client.get("/server_info").json()
        assert server.stop() == 0

    assert meta["completion_tokens"] == 40
    assert info["dtype"] == "bfloat16"
    assert info["speculative_draft_window_size"] == 16
    assert info["speculative_accept_threshold_single"] == 0.3
    assert drafts.stat().st_size > 0
    assert "Traceback" not in server.log


def test_signals_to_the_whole_group_drain_too(weights: Path, log: Path) -> None:
    server = launch(log, "--model-path", str(weights))
    try:
        wait_for(lambda: "Load weight begin" in server.log, 120)
        started_s = time.monotonic()
        os.kill(server.engine_pid(), signal.SIGTERM)
        server.process.send_signal(signal.SIGTERM)

        assert server.process.wait(30) == 0
        assert time.monotonic() - started_s < 20
    finally:
        server.process.kill()
        server.process.wait()


def test_too_much_memory_is_refused_as_a_real_server_does(weights: Path, log: Path) -> None:
    """case 8"""
    server = launch(log, "--model-path", str(weights), "--max-running-requests", "100000000")

    assert server.process.wait(120) == 1
    assert "Traceback (most recent call last)" in server.log
    assert "OutOfMemoryError: CPU out of memory. Tried to allocate" in server.log
    assert "Received sigquit from a child process" in server.log


def run_refused(*flags: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-X", "importtime", "-c", ENTRY, *flags]
    return subprocess.run(command, check=False, capture_output=True, text=True, env={**os.environ, **environment})


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        (["--speculative-ddtree-budget", "0"], "ValueError: --speculative-ddtree-budget must be at least 1, got 0."),
        (["--page-size", "16"], "ValueError: DDTREE needs --page-size 1, got 16."),
        (
            ["--speculative-draft-window-size", "3"],
            "ValueError: --speculative-draft-window-size must be at least the block",
        ),
        (["--model-path", "/nowhere"], "ValueError: /nowhere/target.safetensors cannot be read"),
        (["--mem-fraction-static", "2"], "ValueError: --mem-fraction-static"),
    ],
)
def test_refused_arguments_end_the_process_before_torch_is_loaded(weights: Path, flags: list[str], line: str) -> None:
    result = run_refused("--model-path", str(weights), "--speculative-algorithm", "DDTREE", *flags)
    said = [text for text in result.stderr.splitlines() if not text.startswith("import time:")]

    assert result.returncode == 1
    assert said[-1].startswith(line)
    assert "torch" not in result.stderr.replace("torch_native", "")


def test_words_that_are_no_flags_are_usage_errors() -> None:
    for flags in (["--page-size", "x"], ["--no-such-flag"], ["--speculative-algorithm", "EAGLE"]):
        result = run_refused(*flags)
        assert result.returncode == 2
        assert "Usage: " in result.stderr
        assert flags[0] in result.stderr


def test_simulated_acceptance_is_refused(weights: Path) -> None:
    result = run_refused("--model-path", str(weights), SGLANG_SIMULATE_ACC_LEN="4")

    assert result.returncode == 1
    assert "ValueError: SGLANG_SIMULATE_ACC_LEN=4 is refused" in result.stderr


def test_a_taken_port_ends_the_process_and_leaves_the_other_alone(weights: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        result = run_refused("--model-path", str(weights), "--port", port)

        assert result.returncode == 1
        assert "[Errno 98] cannot bind" in result.stderr
        socket.create_connection(("127.0.0.1", int(port))).close()


def test_weights_of_another_model_are_refused_with_their_path(weights: Path, tmp_path: Path) -> None:
    for name in ("target.safetensors", "drafter.safetensors", "tokenizer.json"):
        (tmp_path / name).write_bytes(b"\x00" * 64)

    assert "is not a weights file of this model" in run_refused("--model-path", str(tmp_path)).stderr
