"""How long did requests and tokens take: distributions over requests and over tokens, prefill and decode apart? Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from autotune.benchmark.request_record import RequestRecord
from autotune.trial import Distribution, Latencies

_PERCENTILES = (50, 90, 95, 99)


def measure_latencies(records: Sequence[RequestRecord]) -> Latencies:
    """Return how times are spread over the requests of a cell that ended ok.

    The time between tokens is the gap between two chunks with text over the tokens of the second, once for each of them:
    a verify step emits several tokens at one moment, and counting it as one token would make speculation look slow.
    """
    whole = [record for record in records if record.is_ok]
    return Latencies(
        ttft_s=describe([(record.ttft_s, 1) for record in whole if record.ttft_s is not None]),
        tpot_s=describe([(record.tpot_s, 1) for record in whole if record.tpot_s is not None]),
        itl_s=describe([gap for record in whole for gap in token_gaps(record)]),
        chunk_gap_s=describe([(gap, 1) for record in whole for gap in _chunk_gaps(record)]),
        request_s=describe([(record.chunk_at_s[-1] - record.sent_at_s, 1) for record in whole if record.chunk_at_s]),
        decode_tokens_per_s=describe([(1 / record.tpot_s, 1) for record in whole if record.tpot_s]),
    )


def token_gaps(record: RequestRecord) -> list[tuple[float, int]]:
    """Return the time for a token and how many took it, for each chunk after the first; empty without usage.

    Chunks that bring no token by the server's count add their gap to the next that does.
    """
    if record.chunk_tokens is None:
        return []
    gaps = []
    since_s, known = record.chunk_at_s[0] if record.chunk_at_s else 0.0, record.chunk_tokens[:1]
    before = known[0] if known else 0
    for at_s, tokens in zip(record.chunk_at_s[1:], record.chunk_tokens[1:], strict=True):
        count = tokens - before
        if count > 0:
            gaps.append(((at_s - since_s) / count, count))
            since_s, before = at_s, tokens
    return gaps


def _chunk_gaps(record: RequestRecord) -> list[float]:
    return [after - before for before, after in zip(record.chunk_at_s, record.chunk_at_s[1:], strict=False)]


def describe(values: Sequence[tuple[float, int]]) -> Distribution | None:
    """Return percentiles (nearest rank) of values that occur so many times each; ``None`` when there is none.

    >>> describe([(0.1, 3), (0.5, 1)])
    Distribution(count=4, mean=0.2, p50=0.1, p90=0.5, p95=0.5, p99=0.5, largest=0.5)
    """
    count = sum(times for _value, times in values)
    if not count:
        return None
    ordered = sorted(values)
    ranks = [math.ceil(percent / 100 * count) for percent in _PERCENTILES]
    found: list[float] = []
    seen = 0
    for value, times in ordered:
        seen += times
        while len(found) < len(ranks) and seen >= ranks[len(found)]:
            found.append(value)
    mean = math.fsum(value * times for value, times in values) / count
    p50, p90, p95, p99 = found
    return Distribution(count, mean, p50, p90, p95, p99, ordered[-1][0])


def measure_prefill(records: Sequence[RequestRecord]) -> tuple[float, float] | None:
    """Return the prompt tokens that were computed, and the seconds in which at least one request waited for its first token.

    Tokens that a prefix cache answered are not computed. Their quotient is the prefill rate, in which queueing counts as
    long as something is prefilled; decoding of others at the same time slows it, so it is exact at C=1 only.

    Returns:
        ``None`` when the server does not count prompt tokens, or nothing was computed.
    """
    whole = [record for record in records if record.is_ok and record.chunk_at_s]
    counts = [record.prompt_tokens for record in whole]
    known = [count for count in counts if count is not None]
    if not whole or len(known) < len(whole):
        return None
    tokens = sum(known) - sum(record.cached_tokens or 0 for record in whole)
    seconds, until_s = 0.0, -math.inf
    for start_s, end_s in sorted((record.sent_at_s, record.chunk_at_s[0]) for record in whole):
        seconds += max(end_s - max(start_s, until_s), 0.0)
        until_s = max(until_s, end_s)
    return (float(tokens), seconds) if tokens > 0 and seconds > 0 else None
