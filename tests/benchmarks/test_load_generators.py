"""The comparison with our own load generator alone: what it says must be what the server wrote down."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.load_generators import BEGIN, END, Cell, load_row, render, run_peer, serving, write_table
from tests.benchmarks.load_peers import OURS, export_tokenizer


def test_what_our_load_generator_says_is_what_the_server_sent(tmp_path: Path):
    export_tokenizer(tmp_path / "tokenizer")

    with serving(200) as url:
        row = run_peer(OURS, Cell(4, 200, 8), url, tmp_path, "1.0")

    assert (row.succeeded, row.requests, row.chunks) == (8, 8, 8 * 128)
    assert (row.connections, row.most_in_flight) == (4, 4)
    assert row.tokens_per_s == pytest.approx(row.true_tokens_per_s, rel=0.05)
    assert row.cpu_us > 0
    assert row.median_error_us is not None
    assert 0 < row.median_error_us < 20_000
    assert "| c4-200 | ours 1.0 | 8/8 | 1024 |" in render([row], [])


def test_a_table_takes_the_place_of_the_last_one(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")

    write_table(page, "new")

    assert page.read_text() == f"before\n{BEGIN}\nnew\n{END}\nafter\n"
    page.write_text("a page without a table")
    with pytest.raises(ValueError, match="has no"):
        write_table(page, "new")


def test_a_result_of_another_version_is_measured_anew(tmp_path: Path):
    (tmp_path / "row.json").write_text('{"peer": "ours"}')

    assert load_row(tmp_path / "row.json") is None
    assert load_row(tmp_path / "none.json") is None
