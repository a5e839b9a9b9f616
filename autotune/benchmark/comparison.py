"""Which of two benchmarks was faster, by how much, and is that more than noise? Paired by prompt; pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from autotune.benchmark.saved_result import BenchmarkResult, CellResult, PromptResult
from autotune.errors import UserError
from autotune.interval import MIN_PAIRS, LogRatio, compare_cells, mean_log

_LEAST = math.log(1.001)
"""What is smaller is shown as no difference."""
_SHORTEST_S = 1e-9
"""What is shorter is no time that anybody measured."""


@dataclass(frozen=True, slots=True)
class CellComparison:
    """One cell that both have measured; logs of the second one over the first.

    Attributes:
        name: of the cell.
        speeds: decode tokens/s of both.
        speed: of the decode speeds.
        ttft: of the times to the first token; ``None`` with too few pairs. Above 0 the second one takes longer.
        request: of the times of whole requests; likewise.
    """

    name: str
    speeds: tuple[float, float]
    speed: LogRatio
    ttft: LogRatio | None
    request: LogRatio | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two benchmarks.

    Attributes:
        cells: those that both have measured.
        overall: of the geometric mean of the decode speeds over these cells.
        notes: what keeps them from being comparable, in sentences.
    """

    cells: tuple[CellComparison, ...]
    overall: LogRatio
    notes: tuple[str, ...]


def compare_results(first: BenchmarkResult, second: BenchmarkResult) -> Comparison:
    """Compare two benchmarks cell by cell.

    Args:
        first: what is compared with.
        second: what is compared.

    Raises:
        UserError: no cell was measured in both.
    """
    theirs = {_key(cell): cell for cell in first.cells if cell.measurement is not None}
    pairs = [
        (cell, theirs[_key(cell)]) for cell in second.cells if cell.measurement is not None and _key(cell) in theirs
    ]
    if not pairs:
        raise UserError(
            f"no cell was measured in both: {_say_cells(first)} against {_say_cells(second)}",
            where="compare",
            hint="run both benchmarks with the same --context, --concurrency and --rate",
        )
    measured = [
        (ours.measurement, other.measurement)
        for ours, other in pairs
        if ours.measurement is not None and other.measurement is not None
    ]
    cells = [
        CellComparison(
            name=_name(ours),
            speeds=(pair[1].decode_tokens_per_s.value, pair[0].decode_tokens_per_s.value),
            speed=compare_cells([pair], [1.0]),
            ttft=_compare_times(ours.prompts, other.prompts, "ttft_s"),
            request=_compare_times(ours.prompts, other.prompts, "request_s"),
        )
        for (ours, other), pair in zip(pairs, measured, strict=True)
    ]
    overall = compare_cells(measured, [1.0] * len(measured))
    return Comparison(tuple(cells), overall, _find_differences(first, second, pairs))


def judge(ratio: LogRatio, *, more_is_faster: bool = True) -> str:
    """Put a ratio into words.

    >>> judge(LogRatio(math.log(1.05), math.log(1.02), math.log(1.08)))
    '5.0 % faster (+2.0 to +8.0 %)'
    >>> judge(LogRatio(math.log(1.01), math.log(0.98), math.log(1.04)))
    'no difference shown (-2.0 to +4.0 %)'
    >>> judge(LogRatio(math.log(0.9), math.log(0.85), math.log(0.95)), more_is_faster=False)
    '10.0 % shorter (-15.0 to -5.0 %)'
    """
    better, worse = ("faster", "slower") if more_is_faster else ("longer", "shorter")
    change = 100 * math.expm1(ratio.value)
    if ratio.low is None or ratio.high is None:
        return f"{change:+.1f} %, too few prompts for an interval"
    bounds = f"({100 * math.expm1(ratio.low):+.1f} to {100 * math.expm1(ratio.high):+.1f} %)"
    if ratio.low <= 0 <= ratio.high or abs(ratio.value) < _LEAST:
        return f"no difference shown {bounds}"
    return f"{abs(change):.1f} % {better if change > 0 else worse} {bounds}"


def _key(cell: CellResult) -> tuple[int, int, float | None]:
    return (cell.settings.context, cell.settings.concurrency, cell.settings.arrival_rate_per_s)


def _name(cell: CellResult) -> str:
    rate = cell.settings.arrival_rate_per_s
    return cell.settings.cell.name if rate is None else f"{cell.settings.cell.name}-rate{rate:g}"


def _say_cells(result: BenchmarkResult) -> str:
    names = [_name(cell) for cell in result.cells if cell.measurement is not None]
    return ", ".join(names) or "nothing"


def _compare_times(ours: Mapping[str, PromptResult], theirs: Mapping[str, PromptResult], what: str) -> LogRatio | None:
    """Mean log of our times over theirs, over prompts that both have answered."""
    logs = []
    for prompt in sorted(set(ours) & set(theirs)):
        one, other = getattr(ours[prompt], what), getattr(theirs[prompt], what)
        if one and other and min(one, other) > _SHORTEST_S:
            logs.append(math.log(one / other))
    return replace(mean_log(logs), pairs=len(logs)) if len(logs) >= MIN_PAIRS else None


def _find_differences(
    first: BenchmarkResult, second: BenchmarkResult, pairs: Sequence[tuple[CellResult, CellResult]]
) -> tuple[str, ...]:
    """Say what differs beside the servers, so that a difference of speeds may come from it."""
    ours, theirs = (result.settings.model_dump(mode="json", exclude={"stages"}) for result in (second, first))
    notes = [
        f"{name} differs: {theirs[name]} against {ours[name]}; prompts or answers are not the same"
        for name in ours
        if ours[name] != theirs[name] and not name.endswith("_timeout_s")
    ]
    if first.model != second.model:
        notes.append(f"the models differ: {first.model} against {second.model}")
    if first.api != second.api:
        notes.append(f"requests differ: {first.api} against {second.api}")
    for one, other in pairs:
        common = set(one.prompts) & set(other.prompts)
        unequal = sum(one.prompts[name].prompt_tokens != other.prompts[name].prompt_tokens for name in common)
        if unequal:
            notes.append(f"{_name(one)}: {unequal} of {len(common)} prompts have another number of tokens")
        if one.settings.mix != other.settings.mix:
            notes.append(f"{_name(one)}: the mix of prompts differs")
    for label, result in (("the first", first), ("the second", second)):
        foreign = [cell.measurement.foreign for cell in result.cells if cell.measurement and cell.measurement.foreign]
        if foreign:
            notes.append(f"{label} was not alone on its server: {foreign[0]}")
        if result.ended_at is None:
            notes.append(f"{label} was interrupted, so some of its cells are missing")
    return tuple(notes)
