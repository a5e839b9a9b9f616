"""How long are the requests that production sends, as far as the server's log tells? Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_PREFILL: Final = re.compile(r"\bPrefill batch\b")
_FIELD: Final = re.compile(r"#(new-seq|new-token|cached-token): (\d+)")
_DECODE: Final = re.compile(r"\bDecode batch\b.*?#running-req: (\d+)")


@dataclass(frozen=True, slots=True)
class RequestLengths:
    """Prompt lengths in tokens, one for each prefill batch: its new and cached tokens over its requests.

    A batch may hold several requests, whose mean it is, or a part of a long one that the server prefills in chunks.

    Attributes:
        batches: how many prefill batches the lengths rest on; at least 1.
        requests: how many requests they held.
        median: of the batches' lengths.
        p90: at most one batch in ten is longer.
        longest: the longest.
        busiest: most requests decoded at once; ``None`` when no decode line was seen.
    """

    batches: int
    requests: int
    median: int
    p90: int
    longest: int
    busiest: int | None


def read_lengths(lines: Iterable[str]) -> RequestLengths | None:
    """Read lengths from the lines of a log; ``None`` when there is no prefill batch with a count of requests.

    >>> read_lengths(["[2026-07-01 10:00:00 TP0] Prefill batch, #new-seq: 2, #new-token: 90, #cached-token: 10, "])
    RequestLengths(batches=1, requests=2, median=50, p90=50, longest=50, busiest=None)
    """
    lengths: list[int] = []
    requests = 0
    busiest: int | None = None
    for line in lines:
        decode = _DECODE.search(line)
        if decode is not None:
            busiest = max(busiest or 0, int(decode[1]))
        prefill = _PREFILL.search(line)
        if prefill is None:
            continue
        fields = {name: int(number) for name, number in _FIELD.findall(line[prefill.end() :])}
        count = fields.get("new-seq", 0)
        tokens = fields.get("new-token", 0) + fields.get("cached-token", 0)
        if count > 0 and tokens > 0:
            requests += count
            lengths.append(round(tokens / count))
    if not lengths:
        return None
    lengths.sort()
    return RequestLengths(
        batches=len(lengths),
        requests=requests,
        median=lengths[(len(lengths) - 1) // 2],
        p90=lengths[min(len(lengths) - 1, -(-9 * len(lengths) // 10) - 1)],
        longest=lengths[-1],
        busiest=busiest,
    )
