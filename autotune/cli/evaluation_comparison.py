"""How two saved evaluations are shown against each other: which problems changed, and is it more than chance?"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from autotune.benchmark.comparison import judge
from autotune.cli import render
from autotune.evaluation.saved_evaluation import (
    EvaluationComparison,
    EvaluationResult,
    compare_evaluations,
    load_evaluation,
)
from autotune.export.wording import UNKNOWN, clean, known_bounds, render_count, render_number
from autotune.pass_rate import tally_results
from autotune.trial import Figure, Verdict

_LEVEL = 0.05
_MOST_CHANGES = 20


def show_evaluation_comparison(first: Path, second: Path, *, as_json: bool) -> None:
    """Print whether the second of two files of ``autotune evaluate --save`` is worse, better or neither.

    Raises:
        UserError: a file cannot be read, or the two asked different problems.
    """
    one, two = load_evaluation(first), load_evaluation(second)
    comparison = compare_evaluations(two, one)
    if as_json:
        render.show_json(_document(comparison, one, two))
        return
    for label, path, result in (("first: ", first, one), ("second:", second, two)):
        version = "" if result.server_version is None else f" {result.server_version}"
        render.show(clean(f"{label} {path}: {result.model}{version} at {result.url}, {result.started_at}"))
    render.show_table(
        ("", "first", "second"),
        [
            ("pass@1", *(_share(result.measurement.pass_at_1) for result in (one, two))),
            ("truncated", *(str(_count(result, Verdict.TRUNCATED)) for result in (one, two))),
            ("not answered", *(str(_count(result, Verdict.NO_ANSWER)) for result in (one, two))),
            ("tokens/s", *(_number(result.measurement.tokens_per_s) for result in (one, two))),
            ("accept length", *(_number(result.measurement.accept_length) for result in (one, two))),
        ],
    )
    for line in describe_changes(one, two):
        render.show(line)
    if comparison.speed is not None:
        render.show(f"decoding of the second: {judge(comparison.speed)}")
    render.show(f"verdict: {say_verdict(comparison)}")
    for label, result in (("first", one), ("second", two)):
        for note in result.measurement.notes:
            render.show(clean(f"note: {label}: {note}"))
    for note in comparison.notes:
        render.show(clean(f"note: {note}"))


def say_verdict(comparison: EvaluationComparison) -> str:
    """Put the exact test into a sentence."""
    paired = comparison.paired
    if paired.p_different is None or paired.difference is None:
        return "no problem was answered in both"
    seen = (
        f"over {render_count(paired.problems, 'problem')} {paired.better} better, {paired.worse} worse; pass@1 "
        f"{round(100 * paired.difference, 1) + 0.0:+.1f} points, exact paired test p = {paired.p_different:.2g}"
    )
    if paired.p_different > _LEVEL:
        return f"no difference shown: {seen}"
    return f"the second is {'better' if paired.difference > 0 else 'worse'}: {seen}"


def describe_changes(one: EvaluationResult, two: EvaluationResult) -> Iterator[str]:
    """Name the problems whose share of passes changed, with the reason of a first failure."""
    before, after = tally_results(one.measurement.results), tally_results(two.measurement.results)
    changed = [
        problem
        for problem in before
        if problem in after and not math.isclose(before[problem].share, after[problem].share)
    ]
    for problem in changed[:_MOST_CHANGES]:
        worse = two if after[problem].share < before[problem].share else one
        failure = next(
            item
            for item in worse.measurement.results
            if item.problem == problem and item.verdict not in (Verdict.PASSED, Verdict.NO_ANSWER)
        )
        shares = " -> ".join(f"{tally.passed}/{tally.answered}" for tally in (before[problem], after[problem]))
        yield clean(f"{problem}: {shares} passed; {failure.verdict.value}: {failure.reason}")
    if len(changed) > _MOST_CHANGES:
        yield f"and {len(changed) - _MOST_CHANGES} more"


def _document(comparison: EvaluationComparison, one: EvaluationResult, two: EvaluationResult) -> dict[str, Any]:
    paired, speed = comparison.paired, comparison.speed
    return {
        "first_pass_at_1": one.measurement.pass_at_1.value,
        "second_pass_at_1": two.measurement.pass_at_1.value,
        "problems": paired.problems,
        "better": paired.better,
        "worse": paired.worse,
        "difference": paired.difference,
        "p_worse": paired.p_worse,
        "p_different": paired.p_different,
        "decode_speed": None
        if speed is None
        else {"log_ratio": speed.value, "low": speed.low, "high": speed.high, "pairs": speed.pairs},
        "verdict": say_verdict(comparison),
        "notes": list(comparison.notes),
    }


def _share(figure: Figure) -> str:
    bounds = known_bounds(figure)
    interval = "" if bounds is None else f" ({100 * bounds[0]:.1f}-{100 * bounds[1]:.1f})"
    return f"{100 * figure.value:.1f}%{interval}"


def _count(result: EvaluationResult, verdict: Verdict) -> int:
    return sum(item.verdict is verdict for item in result.measurement.results)


def _number(value: float | None) -> str:
    return UNKNOWN if value is None else render_number(value)
