"""Is the stand-in as fast and as large as its law says, and is a peer judged by what it did?"""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from autotune.simulation.surface import Obstacle
from autotune.trial import Cell
from tests.benchmarks import peer_vllm, peers
from tests.benchmarks.peer_vllm import BASELINE, fits, load_s, tokens_per_s

GOOD, TOO_LARGE = (192, 6144, 86), (256, 16384, 96)
PATIENCE_S = 20.0


class Night:
    """Calls the stand-in as a peer would."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.log = folder / "log.jsonl"
        self.port = peers.free_port()
        self._variables = {**os.environ, "PEER_LOG": str(self.log), "PEER_SEED": str(seed)}

    def start(self, configuration: Sequence[int]) -> subprocess.Popen[bytes]:
        sequences, tokens, memory = configuration
        words = ["serve", "model", "--max-num-seqs", str(sequences), f"--max-num-batched-tokens={tokens}"]
        return self._call([*words, "--gpu-memory-utilization", str(memory / 100), "--port", str(self.port)])

    def refuse(self, configuration: Sequence[int]) -> tuple[int, str]:
        server = self.start(configuration)
        _, said = server.communicate(timeout=PATIENCE_S)
        return server.returncode, said.decode()

    def measure(self) -> float:
        words = ["--host", "127.0.0.1", "--port", str(self.port), "--result-dir", str(self.folder)]
        bench = self._call([*words, "--result-filename", "result.json", "--num-prompts", "50"])
        _, said = bench.communicate(timeout=PATIENCE_S)
        assert bench.returncode == 0, said
        return float(json.loads((self.folder / "result.json").read_text(encoding="utf-8"))["output_throughput"])

    def boot_and_measure(self, configuration: Sequence[int]) -> float:
        server = self.start(configuration)
        try:
            peers._wait(lambda: peers._answers(self.port), PATIENCE_S)
            return self.measure()
        finally:
            server.kill()
            server.communicate()

    def _call(self, words: Sequence[str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, peer_vllm.__file__, *words], env=self._variables, stderr=subprocess.PIPE
        )


def test_a_server_is_as_fast_as_the_law_says(tmp_path: Path):
    night = Night(tmp_path, 1)

    for configuration in (GOOD, BASELINE):
        assert night.boot_and_measure(configuration) == pytest.approx(tokens_per_s(*configuration), rel=0.05)


def test_servers_and_measurements_err_by_chances_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PEER_LOG", str(tmp_path / "log.jsonl"))
    chances = []
    for seed in range(300):
        monkeypatch.setenv("PEER_SEED", str(seed))
        chances.append((peer_vllm._draw("start", 0.02) - 1, peer_vllm._draw("measured", 0.01) - 1))

    servers, measurements = zip(*chances, strict=True)

    assert statistics.stdev(servers) == pytest.approx(0.02, rel=0.15)
    assert statistics.stdev(measurements) == pytest.approx(0.01, rel=0.15)
    assert abs(statistics.correlation(servers, measurements)) < 0.2


def test_equal_seeds_err_alike_and_others_do_not(tmp_path: Path):
    speeds = []
    for number, seed in enumerate((1, 1, 2)):
        folder = tmp_path / str(number)
        folder.mkdir()
        speeds.append(Night(folder, seed).boot_and_measure(GOOD))

    assert speeds[0] == speeds[1] != speeds[2]


def test_what_does_not_fit_ends_with_the_words_of_cuda(tmp_path: Path):
    code, said = Night(tmp_path, 1).refuse(TOO_LARGE)

    assert code == 1
    assert "CUDA out of memory" in said


def test_large_batches_load_slowly():
    assert load_s(16384) > 4 * load_s(8192)


def test_the_simulated_machine_has_the_law_of_the_stand_in():
    surface = peers.PeerSurface()

    good = surface.space.resolve({"sequences": 192, "tokens": 6144, "memory": 86})
    large = surface.space.resolve({"sequences": 256, "tokens": 16384, "memory": 96})

    assert surface.truth(good, Cell(1024, 32)).tokens_per_s(32) == pytest.approx(tokens_per_s(*GOOD))
    assert surface.find_obstacle(good) is None
    assert surface.find_obstacle(large) is Obstacle.OUT_OF_MEMORY
    assert surface.truth(good, Cell(1024, 1)) == surface.truth(large, Cell(1024, 1))


def test_the_best_is_near_the_cliff_and_is_not_the_baseline():
    best = peers.best_tokens_per_s()

    assert tokens_per_s(*BASELINE) < 0.85 * best
    assert not fits(*TOO_LARGE)


def start(configuration: Sequence[int]) -> dict[str, object]:
    return {"event": "start", "configuration": list(configuration), "fits": fits(*configuration)}


def measured(configuration: Sequence[int], speed: float) -> dict[str, object]:
    return {"event": "measured", "configuration": list(configuration), "tokens_per_s": speed}


def test_a_peer_recommends_what_it_measured_best_not_what_is_best():
    slow = (8, 1024, 70)
    lines = [start(BASELINE), measured(BASELINE, 900.0), start(GOOD), measured(GOOD, 800.0)]
    lines += [start(slow), measured(slow, 2000.0), start(TOO_LARGE), start(TOO_LARGE)]

    run = peers.read_run("peer", 3, lines, 12.0)

    assert run.regrets[-1] == pytest.approx(1 - tokens_per_s(*slow) / peers.best_tokens_per_s())
    assert (run.infeasible, run.repeated, run.boots, run.real_s) == (2, 1, 5, 12.0)


def test_the_regret_after_ten_trials_knows_nothing_of_the_eleventh():
    lines = [start(BASELINE), measured(BASELINE, 900.0)]
    lines += [start(TOO_LARGE)] * 10
    lines += [start(GOOD), measured(GOOD, 1100.0)]

    run = peers.read_run("peer", 1, lines, 0.0)

    assert run.regrets[0] == pytest.approx(1 - tokens_per_s(*BASELINE) / peers.best_tokens_per_s())
    assert run.regrets[1] == pytest.approx(1 - tokens_per_s(*GOOD) / peers.best_tokens_per_s())


def test_a_run_that_is_stored_is_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    monkeypatch.setattr(peers, "OURS", ("random",))
    monkeypatch.setattr(peers, "TRIALS", 3)
    monkeypatch.setattr(peers, "LOOKS", (2, 3))
    command = ["peers", str(tmp_path), "--only", "ours", "--runs", "1", "--signals", "0"]
    monkeypatch.setattr(sys, "argv", command)

    peers.main()
    stored = (tmp_path / "runs.jsonl").read_text(encoding="utf-8")
    peers.main()

    assert (tmp_path / "runs.jsonl").read_text(encoding="utf-8") == stored
    assert len(json.loads(stored)["regrets"]) == 2
    assert json.loads(stored)["boots"] >= peers.TRIALS
    assert "| random | 1 |" in capsys.readouterr().out


PEER = """
import os, subprocess, sys, time
for number, memory in enumerate((70, 80, 90), 1):
    server = subprocess.Popen(["vllm", "serve", "model", "--port", sys.argv[1], "--gpu-memory-utilization", str(memory / 100)])
    while not os.path.exists(os.environ["PEER_LOG"]) or open(os.environ["PEER_LOG"]).read().count("start") < number:
        time.sleep(0.02)
    if number == 3:
        time.sleep(60)
    server.kill(), server.wait()
"""


class CarelessWorkshop(peers.Workshop):
    """A peer that dies without a thought for its server."""

    def start(self, tuner: str, seed: int, trials: int = 3) -> subprocess.Popen[bytes]:  # noqa: ARG002  # neither is needed
        variables = {**os.environ, "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}", "PEER_LOG": str(self.log)}
        return subprocess.Popen([sys.executable, "-c", PEER, str(peers.free_port())], env=variables)


def test_a_server_that_a_killed_peer_left_is_found_and_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(peers, "_PATIENCE_S", 4.0)
    workshop = CarelessWorkshop(tmp_path / "workshop", {})

    found = peers.interrupt_peer("careless", 1, signal.SIGKILL, workshop)

    assert found == peers.Aftermath("careless", 1, "SIGKILL", is_gone=True, orphans=1, is_answering=True)
    left = [int(str(line["pid"])) for line in workshop.lines()]
    deadline = time.monotonic() + PATIENCE_S
    while any(map(peers._lives, left)):
        assert time.monotonic() < deadline
