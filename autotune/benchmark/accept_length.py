"""Which accept length belongs to a cell, when several sources say different things? Pure.

Accept length is tokens emitted per verify step, bonus token included, so below 1 it is impossible: zero means that
nobody measured. Nor can a step emit more than it drafted and one. Sources in order of trust: the answers' own
``meta_info``, counters of this cell, the server's average since the flush before it, the log lines written during it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from autotune.benchmark.request_record import RequestRecord
from autotune.servers.server_metrics import CounterDifference
from autotune.trial import Figure

_AGREEMENT = 0.1
"""Sources that differ by more than this share are reported."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What one source says.

    Attributes:
        source: its name in notes.
        value: accept length; ``None`` when the source says nothing.
        count: verify steps it rests on; 0 when unknown.
        unseen: share of the cell that it may not have seen; it may differ by so much more before that is told.
    """

    source: str
    value: float | None
    count: int = 0
    unseen: float = 0.0


def choose_accept_length(
    readings: Sequence[Reading], *, speculative: bool, largest: float | None = None
) -> tuple[Figure | None, tuple[str, ...]]:
    """Choose among readings and say what is odd about them.

    Args:
        readings: most trusted first.
        speculative: whether the configuration speculates; without it no accept length exists, whatever gauges say.
        largest: more than that a step cannot emit; ``None`` is unknown.

    Returns:
        The figure without an interval (sources give sums, no samples), and sentences for the user.
    """
    stated = [(reading, reading.value) for reading in readings if reading.value is not None]
    possible = [(reading, value) for reading, value in stated if _is_possible(value, largest)]
    if not speculative:
        above = [(reading, value) for reading, value in possible if value > 1 + _AGREEMENT]
        return None, tuple(
            f"{reading.source} says accept length {value:.2f} although speculation is off" for reading, value in above
        )
    notes = [
        f"{reading.source} says accept length {value:.2f}, which is impossible{_explain(value, largest)}; ignored"
        for reading, value in stated
        if (reading, value) not in possible
    ]
    if not possible:
        return None, (*notes, "speculation is on but no source gives an accept length")
    chosen, value = possible[0]
    notes += [
        f"accept length is {value:.2f} by {chosen.source} but {other:.2f} by {reading.source}"
        for reading, other in possible[1:]
        if abs(other - value) > (_AGREEMENT + reading.unseen) * value
    ]
    return Figure(value, chosen.count), tuple(notes)


def read_answers(records: Sequence[RequestRecord]) -> Reading:
    """Accept length by what answers say of themselves; says nothing unless every whole answer says it.

    The first token of an answer comes from its prefill, not from a verify step.
    """
    whole = [record for record in records if record.is_ok]
    steps = [record.verify_steps for record in whole]
    tokens = [record.output_tokens for record in whole]
    known_steps = [count for count in steps if count is not None]
    known_tokens = [count for count in tokens if count is not None]
    if not whole or len(known_steps) < len(whole) or len(known_tokens) < len(whole) or sum(known_steps) == 0:
        return Reading("meta_info", None)
    verified = sum(known_tokens) - len(whole)
    return Reading("meta_info", verified / sum(known_steps), sum(known_steps))


def sum_accepted(records: Sequence[RequestRecord]) -> tuple[int, ...]:
    """Return how many steps of all whole answers accepted 0, 1, 2 ... drafted tokens; empty where none says it."""
    told = [record.accepted for record in records if record.is_ok and record.accepted]
    return tuple(map(sum, itertools.zip_longest(*told, fillvalue=0)))


def read_counters(counted: CounterDifference, received: int, requests: int) -> Reading:
    """Accept length by the server's counters over some requests.

    A request's first token comes from its prefill, not from a verify step. Whether the server counts it is told by
    comparing its counter with the usage received.

    >>> read_counters(CounterDifference(1000.0, 300.0), 1000, 10).value
    3.3
    >>> read_counters(CounterDifference(990.0, 300.0), 1000, 10).value
    3.3

    Args:
        counted: what the server counted while exactly these requests ran.
        received: their output tokens by usage.
        requests: how many.
    """
    tokens, verify_calls = counted.generated_tokens, counted.verify_calls
    if tokens is None or not verify_calls:
        return Reading("/metrics", None)
    if tokens >= received - requests / 2:
        tokens -= requests
    return Reading("/metrics", tokens / verify_calls, int(verify_calls))


def _is_possible(value: float, largest: float | None) -> bool:
    return math.isfinite(value) and value >= 1 and (largest is None or value <= largest)


def _explain(value: float, largest: float | None) -> str:
    """Say which rule a value breaks that is not plain to see."""
    return f" where a step emits at most {largest:g}" if largest is not None and value > largest else ""
