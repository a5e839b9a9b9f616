"""What is kept of a benchmark of one server, and how is it written to a file and read back?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter

from autotune.benchmark.result_file import read_result, write_result
from autotune.settings import BenchmarkSettings, CellSettings
from autotune.trial import CellMeasurement

KIND: Final = "benchmark"
FORMAT: Final = 1
_LARGEST_AMOUNT: Final = 1e12
_LARGEST_LOG: Final = math.log(_LARGEST_AMOUNT)


@dataclass(frozen=True, slots=True)
class PromptResult:
    """How one prompt fared; the log speed is with the measurement.

    Attributes:
        prompt_tokens: by the server's usage.
        output_tokens: likewise.
        ttft_s: to the first token.
        request_s: to the last token.
    """

    prompt_tokens: int | None
    output_tokens: int | None
    ttft_s: float | None
    request_s: float | None


@dataclass(frozen=True, slots=True)
class CellResult:
    """One cell: its measurement, or why there is none.

    Attributes:
        settings: what was to be measured.
        measurement: what was.
        error: why nothing was.
        prompts: prompt id -> how its request fared; of requests that ended ok.
    """

    settings: CellSettings
    measurement: CellMeasurement | None
    error: str | None = None
    prompts: Mapping[str, PromptResult] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BenchmarkResult:
    """A benchmark of one server.

    Attributes:
        url: base URL.
        model: name that was asked for.
        server_version: as the server calls it; ``None`` when it does not say.
        api: which fields requests used.
        autotune: version of this program.
        started_at: UTC, ISO 8601.
        ended_at: same; ``None`` while it goes on, or when it was interrupted.
        settings: what was sent.
        cells: in the order in which they were measured.
        records: file with the record of every request; ``None`` when they were not kept.
        kind: tells such files from others.
        format: of the file.
    """

    url: str
    model: str
    server_version: str | None
    api: str
    autotune: str
    started_at: str
    ended_at: str | None
    settings: BenchmarkSettings
    cells: tuple[CellResult, ...]
    records: str | None = None
    kind: str = KIND
    format: int = FORMAT


def dump_result(result: BenchmarkResult) -> Any:
    """Return a result as JSON values; unknown is null."""
    return _adapter().dump_python(result, mode="json")


def save_result(result: BenchmarkResult, path: Path) -> None:
    """Write a result so that the file is the old one or the new one, never a part.

    Raises:
        UserError: the file cannot be written.
    """
    write_result(path, dump_result(result))


def load_result(path: Path) -> BenchmarkResult:
    """Read a result.

    Raises:
        UserError: the file cannot be read, or holds something else.
    """
    return read_result(
        path,
        _adapter(),
        kind=KIND,
        version=FORMAT,
        command="bench",
        again="run the benchmark again",
        find_impossible=_find_impossible,
    )


def find_impossible_figures(measured: CellMeasurement) -> Iterator[str]:
    """Yield the names of figures of a cell whose logarithms nobody could compare; a file may have been edited."""
    if not _is_amount(measured.decode_tokens_per_s.value):
        yield "decode_tokens_per_s"
    for name, log in measured.per_prompt_log_speed.items():
        if not abs(log) <= _LARGEST_LOG:
            yield f"per_prompt_log_speed.{name}"
    for boot in measured.boots:
        if not all(abs(log) <= _LARGEST_LOG for log in (boot.log_speed, *boot.per_prompt_log_speed.values())):
            yield "boots"


def _find_impossible(result: BenchmarkResult) -> Iterator[str]:
    for index, cell in enumerate(result.cells):
        if cell.measurement is not None:
            yield from (f"cells.{index}.measurement.{name}" for name in find_impossible_figures(cell.measurement))
        for name, prompt in cell.prompts.items():
            times = {"ttft_s": prompt.ttft_s, "request_s": prompt.request_s}
            yield from (
                f"cells.{index}.prompts.{name}.{what}"
                for what, time_s in times.items()
                if time_s is not None and not abs(time_s) <= _LARGEST_AMOUNT
            )


def _is_amount(value: float) -> bool:
    return 1 / _LARGEST_AMOUNT <= value <= _LARGEST_AMOUNT


@cache
def _adapter() -> TypeAdapter[BenchmarkResult]:
    return TypeAdapter(BenchmarkResult)
