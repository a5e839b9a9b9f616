"""``autotune compare``: which of two saved results was faster or better, by how much, and is it more than noise?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from autotune.benchmark.comparison import CellComparison, Comparison, compare_results, judge
from autotune.benchmark.saved_result import BenchmarkResult, load_result
from autotune.cli import render
from autotune.cli.evaluation_comparison import show_evaluation_comparison
from autotune.evaluation.saved_evaluation import is_evaluation
from autotune.export.wording import UNKNOWN, clean, render_number
from autotune.interval import LogRatio

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command("compare")
@click.argument("first", type=_FILE)
@click.argument("second", type=_FILE)
@click.option("--json", "as_json", is_flag=True, help="Print data instead of text.")
def command(first: Path, second: Path, as_json: bool) -> None:
    """Say which of two saved results was faster or better, and whether that is more than noise.

    FIRST and SECOND are files of `autotune bench --save`: every prompt is compared with itself, a gain is the mean log-ratio
    of its two speeds, with a 95 % interval. That covers the noise inside these two runs, not that between two starts of a
    server. Or both are files of `autotune evaluate --save`: the exact paired test says whether chance explains the difference.
    """
    if is_evaluation(first) or is_evaluation(second):
        show_evaluation_comparison(first, second, as_json=as_json)
        return
    one, two = load_result(first), load_result(second)
    comparison = compare_results(one, two)
    if as_json:
        render.show_json(_document(comparison))
        return
    render.show(f"first:  {first}: {_describe(one)}")
    render.show(f"second: {second}: {_describe(two)}")
    render.show_table(
        ("cell", "first tok/s", "second tok/s", "second against first", "prompts"),
        [
            (
                cell.name,
                render_number(cell.speeds[0]),
                render_number(cell.speeds[1]),
                judge(cell.speed),
                str(cell.speed.pairs),
            )
            for cell in comparison.cells
        ],
    )
    for cell in comparison.cells:
        render.show(f"{cell.name}: first token {_say_time(cell.ttft)}; whole request {_say_time(cell.request)}")
    render.show(f"verdict: {say_verdict(comparison)}")
    for note in comparison.notes:
        render.show(f"note: {clean(note)}")


def say_verdict(comparison: Comparison) -> str:
    """Put the whole comparison into a sentence."""
    cells = comparison.cells
    if len(cells) == 1:
        return f"the second is {_say(judge(comparison.overall))}"
    better = sum(_is_shown(cell.speed) and cell.speed.value > 0 for cell in cells)
    worse = sum(_is_shown(cell.speed) and cell.speed.value < 0 for cell in cells)
    return (
        f"over {len(cells)} cells the second is {_say(judge(comparison.overall))}: faster in {better}, slower in {worse}, "
        f"no difference shown in {len(cells) - better - worse}"
    )


def _say(words: str) -> str:
    """Make a judgement follow *the second is*."""
    return f"neither faster nor slower: {words}" if words.startswith("no ") else words


def _say_time(ratio: LogRatio | None) -> str:
    return "unknown" if ratio is None else judge(ratio, more_is_faster=False)


def _is_shown(ratio: LogRatio) -> bool:
    return ratio.low is not None and ratio.high is not None and not ratio.low <= 0 <= ratio.high


def _describe(result: BenchmarkResult) -> str:
    version = "" if result.server_version is None else f" {result.server_version}"
    return clean(f"{result.model}{version} at {result.url}, {result.started_at or UNKNOWN}")


def _document(comparison: Comparison) -> dict[str, Any]:
    return {
        "cells": [_cell_document(cell) for cell in comparison.cells],
        "overall": _ratio_document(comparison.overall),
        "verdict": say_verdict(comparison),
        "notes": list(comparison.notes),
    }


def _cell_document(cell: CellComparison) -> dict[str, Any]:
    return {
        "cell": cell.name,
        "first_decode_tokens_per_s": cell.speeds[0],
        "second_decode_tokens_per_s": cell.speeds[1],
        "decode_speed": _ratio_document(cell.speed),
        "ttft": _ratio_document(cell.ttft),
        "request_time": _ratio_document(cell.request),
        "verdict": judge(cell.speed),
    }


def _ratio_document(ratio: LogRatio | None) -> dict[str, Any] | None:
    """Log-ratios of the second over the first; unknown bounds are null."""
    if ratio is None:
        return None
    return {"log_ratio": ratio.value, "low": ratio.low, "high": ratio.high, "pairs": ratio.pairs}
