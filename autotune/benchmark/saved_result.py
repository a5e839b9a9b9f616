"""What is kept of a benchmark of one server, and how is it written to a file and read back?"""

from __future__ import annotations

from collections.abc import Mapping
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
    return read_result(path, _adapter(), kind=KIND, version=FORMAT, command="bench", again="run the benchmark again")


@cache
def _adapter() -> TypeAdapter[BenchmarkResult]:
    return TypeAdapter(BenchmarkResult)
