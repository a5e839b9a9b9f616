from __future__ import annotations

import dataclasses
import math
import os
import random
from pathlib import Path
from typing import Any

import orjson
import pytest

from autotune.benchmark.comparison import compare_results, judge
from autotune.benchmark.saved_result import (
    BenchmarkResult,
    CellResult,
    PromptResult,
    dump_result,
    load_result,
    save_result,
)
from autotune.errors import UserError
from autotune.interval import LogRatio
from autotune.settings import BenchmarkSettings, CellSettings, StageSettings
from tests.records import make_cell


def make_result(
    speeds: dict[tuple[int, int], float], *, noise: float = 0.01, seed: int = 1, ttft_s: float = 0.5, **changes: Any
) -> BenchmarkResult:
    """A benchmark whose prompts differ by a lot between each other and by ``noise`` between two runs."""
    rng = random.Random(seed)  # noqa: S311 - reproducible
    cells = []
    for (context, concurrency), speed in speeds.items():
        names = [f"ctx{context}-c{concurrency}-r0-p{index:03d}" for index in range(12)]
        logs = {
            name: math.log(speed / concurrency) + 0.3 * math.sin(index) + rng.gauss(0, noise)
            for index, name in enumerate(names)
        }
        prompts = {name: PromptResult(context, 64, ttft_s * math.exp(rng.gauss(0, noise)), 2.0) for name in names}
        measurement = make_cell(concurrency, speed, context=context, prompts=logs)
        cells.append(CellResult(CellSettings(context=context, concurrency=concurrency), measurement, prompts=prompts))
    settings = BenchmarkSettings(stages=(StageSettings(name="bench", cells=tuple(cell.settings for cell in cells)),))
    values: dict[str, Any] = {
        "url": "http://h:1",
        "model": "m",
        "server_version": None,
        "api": "all",
        "autotune": "0",
        "started_at": "2026-01-01T00:00:00+00:00",
        "ended_at": "2026-01-01T00:10:00+00:00",
        "settings": settings,
        "cells": tuple(cells),
    }
    return BenchmarkResult(**(values | changes))


BOTH = {(128, 1): 100.0, (128, 32): 900.0}


def test_a_gain_is_found_prompt_by_prompt_though_prompts_differ_much_more():
    first, second = make_result(BOTH), make_result({(128, 1): 104.0, (128, 32): 936.0}, seed=2)

    comparison = compare_results(first, second)

    for cell in comparison.cells:
        assert cell.speed.pairs == 12
        assert cell.speed.low is not None
        assert cell.speed.high is not None
        assert 0 < cell.speed.low < math.log(1.04) < cell.speed.high
    assert "4.0 % faster" in judge(comparison.overall)
    assert comparison.notes == ()


def test_the_second_is_judged_against_the_first():
    slow, fast = make_result(BOTH, ttft_s=1.0), make_result({(128, 1): 200.0, (128, 32): 1800.0}, seed=2, ttft_s=0.5)

    there, back = compare_results(slow, fast), compare_results(fast, slow)

    assert there.overall.value == pytest.approx(math.log(2))
    assert back.overall.value == pytest.approx(-math.log(2))
    assert there.cells[0].speeds == (100.0, 200.0)
    assert there.cells[0].ttft is not None
    assert "50" in judge(there.cells[0].ttft, more_is_faster=False)
    assert "shorter" in judge(there.cells[0].ttft, more_is_faster=False)


def test_the_same_server_twice_shows_no_difference():
    comparison = compare_results(make_result(BOTH), make_result(BOTH, seed=2))

    assert all(judge(cell.speed).startswith("no difference shown") for cell in comparison.cells)


def test_too_few_prompts_give_no_interval():
    cut = [
        dataclasses.replace(
            make_result({(128, 1): speed}).cells[0],
            prompts={},
            measurement=make_cell(1, speed, prompts={"p1": 1.0, "p2": 2.0}),
        )
        for speed in (100.0, 110.0)
    ]
    first, second = (dataclasses.replace(make_result(BOTH), cells=(cell,)) for cell in cut)
    cell = compare_results(first, second).cells[0]

    assert judge(cell.speed) == "+10.0 %, too few prompts for an interval"
    assert cell.ttft is None


def test_only_common_cells_are_compared_and_none_is_an_error_that_names_both():
    first, second = make_result({(128, 1): 100.0, (512, 1): 90.0}), make_result({(512, 1): 90.0, (128, 32): 900.0})

    assert [cell.name for cell in compare_results(first, second).cells] == ["ctx512-c1"]
    with pytest.raises(UserError, match=r"ctx128-c1 against ctx512-c1"):
        compare_results(make_result({(128, 1): 100.0}), make_result({(512, 1): 90.0}))


def test_a_cell_that_was_not_measured_is_no_cell():
    failed = CellResult(CellSettings(context=128, concurrency=1), None, "0 of 4 requests succeeded")
    first = make_result(BOTH, cells=(failed, make_result(BOTH).cells[1]))

    assert [cell.name for cell in compare_results(first, make_result(BOTH)).cells] == ["ctx128-c32"]


def test_whatever_else_differs_is_said():
    other = make_result(BOTH).settings.model_copy(update={"output_tokens": 9})
    foreign = make_result(BOTH).cells[0]
    assert foreign.measurement is not None
    measured = dataclasses.replace(foreign.measurement, foreign="the server generated 9 tokens")
    second = make_result(
        BOTH,
        model="n",
        api="less",
        settings=other,
        ended_at=None,
        cells=(
            dataclasses.replace(
                foreign,
                measurement=measured,
                prompts={
                    name: dataclasses.replace(prompt, prompt_tokens=1) for name, prompt in foreign.prompts.items()
                },
            ),
        ),
    )
    notes = " | ".join(compare_results(make_result(BOTH), second).notes)

    for words in (
        "output_tokens differs: 512 against 9",
        "models differ: m against n",
        "requests differ",
        "12 of 12 prompts have another number of tokens",
        "not alone",
        "interrupted",
    ):
        assert words in notes


@pytest.mark.parametrize(
    ("ratio", "words"),
    [
        (LogRatio(0.0, 0.0, 0.0), "no difference shown (+0.0 to +0.0 %)"),
        (LogRatio(0.0004, 0.0003, 0.0005), "no difference shown (+0.0 to +0.1 %)"),
        (LogRatio(-0.1, -0.2, -0.05), "9.5 % slower (-18.1 to -4.9 %)"),
        (LogRatio(0.1), "+10.5 %, too few prompts for an interval"),
    ],
)
def test_judgements_are_words(ratio: LogRatio, words: str):
    assert judge(ratio) == words


def test_a_result_comes_back_from_its_file_as_it_was(tmp_path: Path):
    result = make_result(
        BOTH, cells=(*make_result(BOTH).cells, CellResult(CellSettings(context=9, concurrency=2), None, "x"))
    )
    path = tmp_path / "deep" / "a.json"
    save_result(result, path)

    assert load_result(path) == result
    assert list(path.parent.iterdir()) == [path]
    assert orjson.loads(path.read_bytes()) == dump_result(result)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"{", "is no JSON"),
        (b"[]", "is no result of a benchmark"),
        (b'{"kind": "evaluation"}', "is no result of a benchmark"),
        (b'{"kind": "benchmark", "format": 99}', "format 99"),
        (b'{"kind": "benchmark", "format": 1}', "is damaged at"),
    ],
)
def test_what_is_no_result_is_refused_with_the_reason(tmp_path: Path, text: bytes, words: str):
    path = tmp_path / "a.json"
    path.write_bytes(text)
    with pytest.raises(UserError, match=words) as caught:
        load_result(path)

    assert caught.value.where == str(path)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("measurement.decode_tokens_per_s.value", 0),
        ("measurement.decode_tokens_per_s.value", -1.5),
        ("measurement.decode_tokens_per_s.value", 1e-320),
        ("measurement.per_prompt_log_speed.ctx128-c1-r0-p000", 1e308),
        ("prompts.ctx128-c1-r0-p000.ttft_s", 1e308),
        ("prompts.ctx128-c1-r0-p000.request_s", -1e308),
    ],
)
def test_a_figure_that_nothing_measures_is_damage_of_the_file_and_named(tmp_path: Path, place: str, value: float):
    document = dump_result(make_result(BOTH))
    at = document["cells"][0]
    *parents, last = place.split(".")
    for name in parents:
        at = at[name]
    at[last] = value
    (tmp_path / "a.json").write_bytes(orjson.dumps(document))

    with pytest.raises(UserError, match=f"damaged at cells.0.{place.removesuffix('.value')}: nothing measures"):
        load_result(tmp_path / "a.json")


@pytest.mark.parametrize("time_s", [0.0, -1e-6, 1e-320])
def test_a_time_that_no_clock_can_tell_from_nothing_is_left_out_of_a_comparison(time_s: float):
    one, other = make_result(BOTH), make_result(BOTH)
    cell = other.cells[0]
    name = next(iter(cell.prompts))
    prompts = {**cell.prompts, name: dataclasses.replace(cell.prompts[name], ttft_s=time_s)}
    other = dataclasses.replace(other, cells=(dataclasses.replace(cell, prompts=prompts), *other.cells[1:]))

    compared = compare_results(one, other).cells[0]

    assert compared.ttft is not None
    assert compared.ttft.pairs == len(prompts) - 1


def test_a_file_that_cannot_be_read_or_written_is_named(tmp_path: Path):
    with pytest.raises(UserError, match="cannot be read"):
        load_result(tmp_path)
    with pytest.raises(UserError, match="cannot be written"):
        save_result(make_result(BOTH), Path("/dev/null/a.json"))


def test_a_link_goes_on_to_lead_to_the_result(tmp_path: Path):
    (tmp_path / "real").mkdir()
    (tmp_path / "latest.json").symlink_to("real/a.json")

    save_result(make_result(BOTH), tmp_path / "latest.json")

    assert (tmp_path / "latest.json").is_symlink()
    assert load_result(tmp_path / "real/a.json") == load_result(tmp_path / "latest.json")
    assert [path.name for path in (tmp_path / "real").iterdir()] == ["a.json"]


@pytest.mark.parametrize("name", ["pipe", "folder", "-"])
def test_what_is_no_regular_file_is_never_replaced(tmp_path: Path, name: str):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    before = sorted(tmp_path.iterdir())

    with pytest.raises(UserError, match="regular file"):
        save_result(make_result(BOTH), tmp_path / name)

    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "pipe").is_fifo()
