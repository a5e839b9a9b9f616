"""How long are the requests that production sends, as far as the server's log tells? Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from autotune.doctor.journal import READY_LINE

FEWEST_BATCHES: Final = 20
"""Fewer prefill batches say nothing about production: they may be somebody's first tries."""

_NEW_SERVER: Final = re.compile(
    r"^Stopped |: Deactivated successfully\.$|: Main process exited, |: Failed with result |\bserver_args=ServerArgs\("
)
"""What systemd says at the end of one server, and SGLang at the beginning of the next."""

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


def read_lengths(lines: Iterable[str], fewest: int = FEWEST_BATCHES) -> RequestLengths | None:
    """Read lengths from the lines of a log, oldest first; ``None`` when there are too few prefill batches to say any.

    What a server computes before it says that it is ready, its warm-up, is no traffic and is left out.

    >>> read_lengths(["[2026-07-01 10:00:00 TP0] Prefill batch, #new-seq: 2, #new-token: 90, #cached-token: 10, "], 1)
    RequestLengths(batches=1, requests=2, median=50, p90=50, longest=50, busiest=None)
    """
    batches, at_once = _collect(lines)
    if len(batches) < max(fewest, 1):
        return None
    lengths = sorted(round(tokens / count) for count, tokens in batches)
    return RequestLengths(
        batches=len(lengths),
        requests=sum(count for count, _ in batches),
        median=lengths[(len(lengths) - 1) // 2],
        p90=lengths[min(len(lengths) - 1, -(-9 * len(lengths) // 10) - 1)],
        longest=lengths[-1],
        busiest=max(at_once, default=None),
    )


def _collect(lines: Iterable[str]) -> tuple[list[tuple[int, int]], list[int]]:
    """Return requests and tokens of each prefill batch, and how many requests each decode line names."""
    kept: tuple[list[tuple[int, int]], list[int]] = ([], [])
    batches: list[tuple[int, int]] = []
    at_once: list[int] = []
    serves = True  # the lines may begin in the middle of a server's life
    is_ready = False
    for line in lines:
        if READY_LINE in line:
            if not is_ready:
                batches, at_once = [], []
            serves = is_ready = True
        elif _NEW_SERVER.search(line):
            if serves:
                kept = ([*kept[0], *batches], [*kept[1], *at_once])
            batches, at_once, serves, is_ready = [], [], False, False
        elif (prefill := _PREFILL.search(line)) is not None:
            fields = {name: int(number) for name, number in _FIELD.findall(line[prefill.end() :])}
            count = fields.get("new-seq", 0)
            tokens = fields.get("new-token", 0) + fields.get("cached-token", 0)
            if count > 0 and tokens > 0:
                batches.append((count, tokens))
        elif (decode := _DECODE.search(line)) is not None:
            at_once.append(int(decode[1]))
    return ([*kept[0], *batches], [*kept[1], *at_once]) if serves else kept
