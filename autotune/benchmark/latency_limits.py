"""Did a request meet the latencies that its users were promised, and how many of a cell did? Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields

from autotune.benchmark.saved_result import CellResult, PromptResult

MOST_MISSED = 0.05
"""A cell meets the limits when at most this share of its requests misses them."""

_UNITS = {"ms": 0.001, "s": 1.0}


@dataclass(frozen=True, slots=True)
class LatencyLimits:
    """Limits of one request, in seconds; ``None`` is no limit.

    Attributes:
        ttft: to the first token.
        tpot: for each output token after the first.
        request: to the last token.
    """

    ttft: float | None = None
    tpot: float | None = None
    request: float | None = None

    def is_met(self, prompt: PromptResult) -> bool:
        """Whether a request that ended ok met every limit; what is unknown meets none."""
        spent = {"ttft": prompt.ttft_s, "tpot": _tpot(prompt), "request": prompt.request_s}
        limits = ((name.name, getattr(self, name.name)) for name in fields(self))
        return all(limit is None or ((value := spent[name]) is not None and value <= limit) for name, limit in limits)

    def count_met(self, prompts: Mapping[str, PromptResult]) -> int:
        """How many requests met every limit."""
        return sum(map(self.is_met, prompts.values()))

    def goodput_per_s(self, cell: CellResult) -> float | None:
        """Requests a second that met the limits; ``None`` when the cell was not measured."""
        measured = cell.measurement
        return None if measured is None else self.count_met(cell.prompts) / measured.duration_s

    def is_met_by(self, cell: CellResult) -> bool:
        """Whether a cell meets the limits; requests that failed miss them."""
        measured = cell.measurement
        return (
            measured is not None and measured.requests - self.count_met(cell.prompts) <= MOST_MISSED * measured.requests
        )


def parse_limits(text: str) -> LatencyLimits:
    """Read limits like ``ttft=500ms,tpot=50ms,request=20s``.

    >>> parse_limits("ttft=500ms, request=20s")
    LatencyLimits(ttft=0.5, tpot=None, request=20.0)

    Raises:
        ValueError: a part is not ``name=time``, or a name is not one of these or stands twice.
    """
    names = [item.name for item in fields(LatencyLimits)]
    found: dict[str, float] = {}
    for part in text.split(","):
        name, _equals, value = (piece.strip() for piece in part.partition("="))
        time = re.fullmatch(r"([0-9]{1,9}(?:[.][0-9]{1,9})?)(ms|s)", value)
        if name not in names or time is None or float(time[1]) == 0:
            raise ValueError(f"{part.strip()!r} is no limit; write for example ttft=500ms,tpot=50ms,request=20s")
        if name in found:
            raise ValueError(f"{name} stands twice in {text!r}")
        found[name] = float(time[1]) * _UNITS[time[2]]
    return LatencyLimits(**found)


def _tpot(prompt: PromptResult) -> float | None:
    """Time of one output token after the first; 0 for an answer of one token, which waits for no other."""
    if prompt.output_tokens is None or prompt.request_s is None or prompt.ttft_s is None:
        return None
    return (prompt.request_s - prompt.ttft_s) / (prompt.output_tokens - 1) if prompt.output_tokens > 1 else 0.0
