"""How late was the load generator itself: how long did data wait in the kernel before it was read?

A chunk that waits longer than the next one takes to come may be read together with it, and then nobody knows when it
arrived. So each wait is kept, and whoever measures says when they were too long for its chunks.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

_TICK_S = 0.1
"""Seldom enough to cost nothing beside one stream of chunks."""
_MERGING_SHARE = 0.5
"""Chunks may merge once reads are later than this share of the time between two chunks of a stream."""
_BLURRING_SHARE = 0.1
"""Without stamps of the kernel lateness is an error of every time; this share of the time between two chunks is too much."""

_STAMPED_SHARE = 0.99
"""The kernel begins to stamp a moment after the first socket has asked for it."""


@dataclass(frozen=True, slots=True)
class Lateness:
    """How late reads were, in seconds.

    Attributes:
        reads: reads from sockets.
        stamped: of these, reads whose arrival the kernel stamped; their times are exact however late they were read.
        median_s: half of the waits were shorter; ``None`` without any.
        p99_s: 99 % of them were.
        worst_s: the longest.
        loop_p99_s: how late the event loop called a timer, 99th percentile; ``None`` when it was not watched.
        loop_worst_s: the longest of these.
    """

    reads: int
    stamped: int
    median_s: float | None
    p99_s: float | None
    worst_s: float | None
    loop_p99_s: float | None = None
    loop_worst_s: float | None = None

    def find_complaint(self, chunk_gap_s: float | None) -> str | None:
        """Say when and how the load generator did not keep up; ``None`` when it did.

        Args:
            chunk_gap_s: typical time between two chunks of one stream; ``None`` when no stream has two.
        """
        if chunk_gap_s is None or not self.reads:
            return None
        is_exact = self.stamped >= _STAMPED_SHARE * self.reads
        late_s = self.p99_s if is_exact else max(self.p99_s or 0.0, self.loop_p99_s or 0.0)
        share = _MERGING_SHARE if is_exact else _BLURRING_SHARE
        if late_s is None or late_s <= share * chunk_gap_s:
            return None
        what = "chunks may have been read together" if is_exact else "times of chunks are as wrong as that"
        return (
            f"the load generator did not keep up: 1 % of its reads came more than {late_s * 1e3:.1f} ms late, with "
            f"{chunk_gap_s * 1e3:.1f} ms between the chunks of a stream; {what}, so look at tokens/s, not at gaps"
        )


class LatenessRecorder:
    """Collects waits; :meth:`take` returns what was collected since it was last called."""

    def __init__(self) -> None:
        self._waits_s = array("d")
        self._loop_s = array("d")
        self._unstamped = 0

    def add(self, wait_s: float) -> None:
        """Note one read that had waited, by the kernel's stamp."""
        self._waits_s.append(wait_s)

    def add_unstamped(self) -> None:
        """Note one read whose arrival nobody stamped."""
        self._unstamped += 1

    async def watch_loop(self) -> None:
        """Note how late the event loop wakes this coroutine, until it is cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due_s = loop.time() + _TICK_S
            await asyncio.sleep(_TICK_S)
            self._loop_s.append(max(0.0, loop.time() - due_s))

    def take(self) -> Lateness:
        """Return the lateness since the last call and start anew."""
        waits, loop = sorted(self._waits_s), sorted(self._loop_s)
        lateness = Lateness(
            reads=len(waits) + self._unstamped,
            stamped=len(waits),
            median_s=_quantile(waits, 0.5),
            p99_s=_quantile(waits, 0.99),
            worst_s=waits[-1] if waits else None,
            loop_p99_s=_quantile(loop, 0.99),
            loop_worst_s=loop[-1] if loop else None,
        )
        self._waits_s, self._loop_s, self._unstamped = array("d"), array("d"), 0
        return lateness


def _quantile(ascending: Sequence[float], share: float) -> float | None:
    """The smallest value that at least ``share`` of the values do not exceed."""
    return ascending[min(len(ascending) - 1, int(share * len(ascending)))] if ascending else None
