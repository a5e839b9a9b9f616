"""What is kept of an evaluation of one server, how is it written to a file and read back, and how are two compared?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import orjson
from pydantic import TypeAdapter

from autotune.benchmark.result_file import read_result, write_result
from autotune.benchmark.saved_result import find_impossible_figures
from autotune.errors import UserError
from autotune.evaluation.scoring import PairedComparison, compare_paired
from autotune.interval import LogRatio, compare_cells
from autotune.settings import EvaluationSettings
from autotune.trial import EvaluationMeasurement

KIND: Final = "evaluation"
FORMAT: Final = 1
_NOT_ASKED: Final = frozenset(
    {"concurrency", "answers_limit_s", "isolation", "enabled", "problem_file", "memory_limit_mb"}
)
"""Settings that change no answer by themselves; the problems are compared by their hash."""


@dataclass(frozen=True, slots=True)
class EvaluationResult:
    """An evaluation of one server.

    Attributes:
        url: base URL.
        model: name that was asked for.
        server_version: as the server calls it; ``None`` when it does not say.
        api: which fields requests used.
        autotune: version of this program.
        started_at: UTC, ISO 8601.
        ended_at: same.
        settings: what was asked, and how.
        measurement: what came out.
        records: file with every answer and its verdict; ``None`` when they were not kept.
        kind: tells such files from others.
        format: of the file.
    """

    url: str
    model: str
    server_version: str | None
    api: str
    autotune: str
    started_at: str
    ended_at: str
    settings: EvaluationSettings
    measurement: EvaluationMeasurement
    records: str | None = None
    kind: str = KIND
    format: int = FORMAT


@dataclass(frozen=True, slots=True)
class EvaluationComparison:
    """A second evaluation against a first one.

    Attributes:
        paired: pass rates, problem by problem.
        speed: of the answers' decoding, prompt by prompt; ``None`` where one of them has no cell.
        notes: what else differs between the two.
    """

    paired: PairedComparison
    speed: LogRatio | None
    notes: tuple[str, ...]


def compare_evaluations(second: EvaluationResult, first: EvaluationResult) -> EvaluationComparison:
    """Compare two evaluations.

    Raises:
        UserError: they asked different problems.
    """
    ours, theirs = second.measurement, first.measurement
    if ours.problem_set != theirs.problem_set:
        raise UserError(
            f"the two asked different problems: {theirs.problem_set} and {ours.problem_set}",
            where=f"{first.url} and {second.url}",
            hint="evaluate both with the same --problems or --problem-file and the same version of autotune",
        )
    here, there = _stated(second.settings), _stated(first.settings)
    notes = [
        f"{name} differs: {there[name]} in the first, {here[name]} in the second"
        for name in here
        if name not in _NOT_ASKED and here[name] != there[name]
    ]
    if second.api != first.api:
        notes.append(f"requests used {first.api} in the first, {second.api} in the second")
    speed = None
    if ours.cell is not None and theirs.cell is not None:
        speed = compare_cells([(ours.cell, theirs.cell)], [1.0])
        if ours.cell.cell.concurrency != theirs.cell.cell.concurrency:
            speed = None
            notes.append("speeds are not compared: the answers came at different concurrencies")
    return EvaluationComparison(compare_paired(ours, theirs), speed, tuple(notes))


def _stated(settings: EvaluationSettings) -> dict[str, object]:
    """Everything that was stated, in one flat table."""
    table = settings.model_dump()
    return {**table.pop("sampling"), **table}


def dump_evaluation(result: EvaluationResult) -> Any:
    """Return a result as JSON values; unknown is null."""
    return _adapter().dump_python(result, mode="json")


def save_evaluation(result: EvaluationResult, path: Path) -> None:
    """Write a result so that the file is the old one or the new one, never a part.

    Raises:
        UserError: the file cannot be written.
    """
    write_result(path, dump_evaluation(result))


def is_evaluation(path: Path) -> bool:
    """Whether a file says that it holds a saved evaluation; what it says may still be wrong."""
    try:
        data = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return False
    return isinstance(data, dict) and data.get("kind") == KIND


def load_evaluation(path: Path) -> EvaluationResult:
    """Read a result.

    Raises:
        UserError: the file cannot be read, or holds something else.
    """
    return read_result(
        path,
        _adapter(),
        kind=KIND,
        version=FORMAT,
        command="evaluate",
        again="evaluate again",
        find_impossible=_find_impossible,
    )


def _find_impossible(result: EvaluationResult) -> Iterator[str]:
    measured = result.measurement
    for name, share in (("pass_at_1", measured.pass_at_1), ("pass_at_k", measured.pass_at_k)):
        if share is not None and not all(0 <= bound <= 1 for bound in (share.value, share.low or 0, share.high or 0)):
            yield f"measurement.{name}"
    if measured.cell is not None:
        yield from (f"measurement.cell.{name}" for name in find_impossible_figures(measured.cell))


@cache
def _adapter() -> TypeAdapter[EvaluationResult]:
    return TypeAdapter(EvaluationResult)
