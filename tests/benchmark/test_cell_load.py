from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autotune.api_key import ApiKey
from autotune.benchmark.benchmark import Benchmark
from autotune.benchmark.cell_load import find_complaints
from autotune.benchmark.lateness import Lateness
from autotune.benchmark.load import draw_arrivals
from autotune.benchmark.request_record import Outcome, RequestRecord
from autotune.settings import BenchmarkSettings, CellSettings, StageSettings
from tests.benchmark.scripted_server import Script, Scripts, running, steady

CELL = CellSettings(context=60, concurrency=4, requests=8)
IN_TIME = Lateness(100, 100, 0.0, 0.0, 0.0)


def answer(_scripts: Scripts, request: dict[str, Any]) -> Script:
    return steady(min(request["max_tokens"], 9), 2, 0.005)


def measure(cell: CellSettings, path: Path, **more: Any) -> tuple[Scripts, list[dict[str, Any]]]:
    settings = BenchmarkSettings(
        stages=(StageSettings(name="only", cells=(cell,)),), output_tokens=16, repeats=1, max_rounds=1
    )
    with running(Scripts(answer)) as server:
        Benchmark(server.url, settings, path, speculative=False, **more).measure_cell(cell)
    return server, [json.loads(line) for line in path.read_text().splitlines()]


def test_a_cell_says_when_its_load_was_full_and_how_late_it_was_read(tmp_path: Path):
    _server, lines = measure(CELL, tmp_path / "records.jsonl")

    repeat = next(line for line in lines if line["type"] == "repeat" and line["repeat"] == 0)
    assert repeat["most_in_flight"] == 4
    assert repeat["from_s"] < repeat["to_s"]
    assert repeat["ramp_up_s"] >= 0
    assert repeat["drain_s"] > 0
    generator = lines[-1]["generator"]
    assert generator["cpu_s"] > 0
    assert generator["lateness"]["reads"] > 8
    assert generator["lateness"]["p99_s"] >= generator["lateness"]["median_s"]


def test_requests_of_a_cell_arrive_at_its_rate(tmp_path: Path):
    cell = CellSettings(context=60, concurrency=4, requests=8, arrival_rate_per_s=100.0)

    server, lines = measure(cell, tmp_path / "records.jsonl")

    due = [line["due_at_s"] for line in lines if line["type"] == "request" and line["repeat"] == 0]
    moments_s = draw_arrivals(8, 100.0, f"arrivals {BenchmarkSettings.model_fields['sampling'].default.seed} 0")
    assert sorted(due) == pytest.approx([min(due) - moments_s[0] + moment for moment in moments_s], abs=1e-5)
    assert server.most_in_flight <= 4
    assert all(line["due_at_s"] is None for line in lines if line["type"] == "request" and line["repeat"] < 0)


def test_the_api_key_is_sent_with_every_chat_and_is_in_no_record(tmp_path: Path):
    server, _lines = measure(CELL, tmp_path / "records.jsonl", api_key=ApiKey("sk-hidden"))

    assert {headers["authorization"] for headers in server.headers} == {"Bearer sk-hidden"}
    assert "hidden" not in (tmp_path / "records.jsonl").read_text()


def record(gap_s: float, *, waited_s: float | None = None) -> RequestRecord:
    due_at_s = None if waited_s is None else -waited_s
    return RequestRecord(
        "p", 0, 1, 0.0, 2.0, Outcome.OK, chunk_at_s=(1.0, 1.0 + gap_s, 1.0 + 2 * gap_s), due_at_s=due_at_s
    )


def test_a_load_that_kept_up_has_nothing_to_say():
    assert find_complaints([record(0.005), record(0.005)], IN_TIME) == []


def test_a_load_that_read_too_late_for_its_chunks_says_so():
    late = Lateness(100, 100, 0.001, 0.004, 0.01)

    (complaint,) = find_complaints([record(0.005), record(0.005), record(1.0)], late)

    assert "did not keep up" in complaint
    assert "4.0 ms late" in complaint
    assert "5.0 ms between" in complaint
    assert find_complaints([record(0.033)], late) == []


def test_requests_that_found_no_place_are_told():
    (complaint,) = find_complaints([record(0.005, waited_s=3.0), record(0.005, waited_s=0.0)], IN_TIME)

    assert complaint.startswith("1 of 2 requests left up to 3.0 s after they were due")
