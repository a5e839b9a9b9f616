from __future__ import annotations

import json
from pathlib import Path

import pytest

from autotune.benchmark.chat_chunk import Usage
from autotune.benchmark.record_file import RecordFile
from autotune.benchmark.request_record import Outcome, RequestRecord


def test_a_line_is_on_disk_before_the_next_one(tmp_path: Path):
    path = tmp_path / "deep" / "records.jsonl"

    with RecordFile(path) as file:
        file.append({"a": 1})
        assert path.read_text() == '{"a":1}\n'
        file.append({"b": "中"})

    assert [json.loads(line) for line in path.read_text().splitlines()] == [{"a": 1}, {"b": "中"}]


def test_earlier_lines_are_kept(tmp_path: Path):
    path = tmp_path / "records.jsonl"
    for number in range(2):
        with RecordFile(path) as file:
            file.append({"n": number})

    assert path.read_text() == '{"n":0}\n{"n":1}\n'


def test_a_closed_file_takes_no_line(tmp_path: Path):
    with pytest.raises(ValueError, match="is not open"):
        RecordFile(tmp_path / "records.jsonl").append({})


def test_text_that_is_no_unicode_is_written_with_escapes(tmp_path: Path):
    path = tmp_path / "records.jsonl"

    with RecordFile(path) as file:
        file.append({"reason": "a\ud800b", "all": ["\udfff", ("c",)], "\ud801": 1, "count": 1 << 80})

    assert json.loads(path.read_text()) == {
        "reason": "a\\ud800b",
        "all": ["\\udfff", ["c"]],
        "\\ud801": 1,
        "count": hex(1 << 80),
    }


def test_a_record_as_a_line_holds_what_the_figures_are_made_of(tmp_path: Path):
    record = RequestRecord(
        prompt_id="p",
        repeat=1,
        seed=3,
        sent_at_s=10.0,
        ended_at_s=11.0,
        outcome=Outcome.OK,
        finish_reason="length",
        usage=Usage(9, 5, 2),
        chunk_at_s=(10.5, 10.75),
        chunk_tokens=(1, 5),
        text="中",
    )

    line = record.to_json()

    assert line["usage"] == {"prompt_tokens": 9, "completion_tokens": 5, "cached_tokens": 2, "reasoning_tokens": None}
    assert (line["chunk_at_us"], line["chunk_tokens"]) == ([500_000, 750_000], (1, 5))
    assert (line["ttft_s"], line["tpot_s"], line["duration_s"]) == (0.5, 0.0625, 1.0)
    with RecordFile(tmp_path / "r.jsonl") as file:
        file.append(line)
    assert json.loads((tmp_path / "r.jsonl").read_text())["outcome"] == "ok"
