"""A profile of the real embedded server: its prompts, its log and what is replayed from it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from autotune.benchmark.benchmark import Benchmark
from autotune.errors import MeasurementError
from autotune.replay.tree_shape import find_windows
from autotune.search_space import search_space_of
from autotune.settings import CellSettings, parse_settings
from autotune.tuner.draft_profile import DraftProfile, choose_cells, for_profile
from tests.ddtree.server_process import running

STUDY = """
name = "profile"
[baseline]
budget = 16
[server]
proofs = ["best-first-tree"]
[benchmark]
output_tokens = 24
repeats = 1
warmup_requests = 2
stages = [{ name = "all", cells = [
  { context = 48, concurrency = 32, requests = 5 },
  { context = 48, concurrency = 1, requests = 2 },
  { context = 80, concurrency = 1, requests = 2 },
] }]
"""


def size_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def test_a_profile_sends_the_measured_prompts_and_tells_every_tree_and_window(tmp_path: Path):
    settings = parse_settings(STUDY, "study.toml")
    space = search_space_of(settings)
    log = tmp_path / "drafts.jsonl"
    flags = ["--speculative-algorithm", "DDTREE", "--speculative-ddtree-budget", "8", "--enable-metrics"]
    flags += ["--draft-log", str(log), "--draft-log-every-token"]
    flags += ["--draft-log-windows", ",".join(map(str, find_windows(space)))]
    with running(tmp_path / "server.log", *flags, environment={"SGLANG_DDTREE_MAX_TOPK": "8"}) as server:
        benchmark = Benchmark(server.url, for_profile(settings.benchmark), tmp_path / "requests.jsonl")
        tables = DraftProfile(benchmark, log, settings, space, size_of).run()

    assert [table.window for table in tables] == [None, 512, 256, 128, 64, 32]
    whole, small = tables[0], tables[-1]
    assert whole.texts == 7
    assert (whole.block, whole.topks, len(whole.accept_lengths)) == (16, tuple(range(1, 9)), 64)
    assert all(1 <= length <= 16 for table in tables for row in table.accept_lengths for length in row)
    assert whole.accept_lengths[31][3] > 2
    assert whole.accept_lengths == tables[1].accept_lengths != small.accept_lengths
    assert [(cell.context, cell.concurrency) for cell in choose_cells(settings)] == [(48, 32), (80, 1)]


def test_a_server_that_logged_nothing_fails_the_profile_and_not_the_host(tmp_path: Path):
    class Silent:
        def measure_cell(self, cell: CellSettings) -> Any:
            assert cell.requests

    settings = parse_settings(STUDY, "study.toml")
    silent, space = cast("Benchmark", Silent()), search_space_of(settings)
    profile = DraftProfile(silent, tmp_path / "drafts.jsonl", settings, space, size_of)

    with pytest.raises(MeasurementError, match="logged no draft"):
        profile.run()


def test_what_was_logged_before_a_cell_does_not_count_for_it(tmp_path: Path):
    """The server's own warm-up and probes are in the log too."""
    sent: list[int] = []

    def log(rid: str, position: int) -> bytes:
        draft = {"tokens": [[1, 2]] * 15, "logprobs": [[-0.1, -3.0]] * 15}
        lines = [{"rid": rid, "committed": [1], "position": position, **draft}, {"rid": rid, "committed": [1, 1]}]
        return b"".join(json.dumps(line).encode() + b"\n" for line in lines)

    logged = [log("probe", 4)]

    class Logging:
        def measure_cell(self, cell: CellSettings) -> Any:
            logged.append(log(f"cell {cell.context}", cell.context))
            sent.append(cell.context)

    def fetch(path: Path) -> int:
        path.write_bytes(b"".join(logged))
        return size_of(path)

    settings = parse_settings(STUDY, "study.toml")
    space = search_space_of(settings)
    path = tmp_path / "drafts.jsonl"
    tables = DraftProfile(cast("Benchmark", Logging()), path, settings, space, fetch).run()

    assert sent == [48, 80]
    assert {table.texts for table in tables} == {2}


def test_a_server_whose_tree_rule_cannot_be_read_is_asked_for_nothing(tmp_path: Path):
    class Untouched:
        def measure_cell(self, cell: CellSettings) -> Any:
            raise AssertionError(cell)

    settings = parse_settings(STUDY.replace("best-first-tree", "depth-bonus-tree"), "study.toml")
    space, log = search_space_of(settings), tmp_path / "drafts.jsonl"
    variables = {"SGLANG_DDTREE_DEPTH_BONUS": "much"}
    profile = DraftProfile(cast("Benchmark", Untouched()), log, settings, space, size_of, variables)

    with pytest.raises(MeasurementError, match="SGLANG_DDTREE_DEPTH_BONUS"):
        profile.run()
