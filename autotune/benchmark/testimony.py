"""What does the server itself say about one cell: accept length, time of a step, and whether it worked for others? Pure.

Sources in order of trust: ``meta_info`` of this cell's answers, differences of its counters around this cell, its average
since the flush before this cell, its log lines written meanwhile. What they say is checked against what was received:
sources that disagree, and values that cannot be, are told.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autotune.benchmark.accept_length import Reading, choose_accept_length, read_answers, read_counters
from autotune.benchmark.request_record import RequestRecord
from autotune.benchmark.server_info import ServerInfo
from autotune.benchmark.server_log import DecodeLine, mean_accept_length
from autotune.servers.server_metrics import QUEUED, RUNNING, subtract
from autotune.trial import Figure

_FOREIGN_SHARE = 0.02
_SLOWER_PATH_SHARE = 0.15
_FEWEST_LINES = 3
_MOST_UNSEEN = 0.3
"""However short a cell is, what differs by more than this is told."""
_LOG_INTERVAL_STEPS = 40
"""Decode steps between two log lines (``--decode-log-interval``); averages are brought up to date then, too."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a server had counted at one moment.

    Attributes:
        metrics: samples of ``/metrics``; ``None`` where it is not offered.
        log_lines: lines of its log so far.
    """

    metrics: Mapping[str, float] | None = None
    log_lines: int = 0


@dataclass(frozen=True, slots=True)
class ServerTestimony:
    """What a server says about one cell.

    Attributes:
        accept_length: tokens per verify step, bonus token included; ``None`` without speculation or when unknown.
        step_time_s: mean time of one step of one stream; ``None`` when the accept length is unknown. A server that says
            nothing may speculate.
        foreign: how it shows that others used the server; ``None`` when nothing shows it.
        notes: sentences for the user.
    """

    accept_length: Figure | None
    step_time_s: Figure | None
    foreign: str | None
    notes: tuple[str, ...]


def hear(
    records: Sequence[RequestRecord],
    before: Snapshot,
    after: Snapshot,
    lines: Sequence[DecodeLine],
    info: ServerInfo,
    *,
    concurrency: int,
    speculative: bool | None,
    stream_tokens_per_s: float | None,
) -> ServerTestimony:
    """Put together what was said about one cell.

    Args:
        records: every request of the cell, warm-up left out.
        before: taken just before the first of them.
        after: taken just after the last one.
        lines: decode lines written in between; the first one also covers steps before the cell.
        info: what the server says of itself; its average counts only from a flush just before the cell.
        concurrency: most requests in flight.
        speculative: whether the configuration speculates; ``None`` when nobody knows but the server.
        stream_tokens_per_s: decode speed of one stream of this cell.
    """
    speculates = info.speculates if speculative is None else speculative
    received = sum(record.output_tokens or 0 for record in records)
    counters = Reading("/metrics", None)
    if before.metrics is not None and after.metrics is not None:
        counters = read_counters(subtract(before.metrics, after.metrics), received, len(records))
    answers = read_answers(records)
    steps = answers.count or counters.count
    unseen = min(_MOST_UNSEEN, _LOG_INTERVAL_STEPS * concurrency / steps) if steps else 0.0
    readings = [
        answers,
        counters,
        Reading("/server_info", info.accept_length, unseen=unseen),
        Reading("the log", mean_accept_length(lines[1:]), unseen=unseen),
    ]
    is_known = speculates is not None or any(reading.value is not None and reading.value >= 1 for reading in readings)
    if speculates is None:  # an unknown server: it speculates when something it counted says so
        speculates = any(reading.value is not None and reading.value > 1 for reading in readings)
    figure, notes = choose_accept_length(readings, speculative=speculates, largest=info.largest_accept_length)
    accept = figure.value if figure is not None else None if speculates or not is_known else 1.0
    step_time = None
    if accept is not None and stream_tokens_per_s is not None and stream_tokens_per_s > 0:
        step_time = Figure(accept / stream_tokens_per_s, figure.count if figure is not None else received)
        notes = (*notes, *_compare_step_times(step_time.value, lines[1:], concurrency, speculates=speculates))
    return ServerTestimony(figure, step_time, find_foreign(records, before, after, lines, concurrency), notes)


def find_foreign(
    records: Sequence[RequestRecord], before: Snapshot, after: Snapshot, lines: Sequence[DecodeLine], concurrency: int
) -> str | None:
    """Say how it shows that others used the server meanwhile; ``None`` when nothing shows it.

    Others show when the server generated more tokens than were received, had more requests in hand when the last of ours
    had ended, or worked on more requests than were in flight.

    Args:
        records: every request of the cell.
        before: taken just before the first of them.
        after: taken just after the last one.
        lines: decode lines of the log in between.
        concurrency: most requests that were in flight.
    """
    if before.metrics is not None and after.metrics is not None:
        generated = subtract(before.metrics, after.metrics).generated_tokens
        # What a request generated before it failed was counted there and may not have been received here.
        unseen = sum((record.max_tokens or 0) - (record.output_tokens or 0) for record in records if not record.is_ok)
        received = sum(record.output_tokens or 0 for record in records)
        if generated is not None and generated > received * (1 + _FOREIGN_SHARE) + len(records) + max(unseen, 0):
            return f"the server generated {generated:.0f} tokens while {received} were received"
        gauges = [
            [max(scrape.get(name, 0.0), 0.0) for name in (RUNNING, QUEUED)]
            for scrape in (before.metrics, after.metrics)
        ]
        # A gauge that did not move may be left over from a busier cell before: servers renew it every few dozen steps.
        if gauges[0] != gauges[1] and (in_hand := sum(gauges[1])) > concurrency:
            return f"the server had {in_hand:.0f} requests in hand while at most {concurrency} were in flight"
    busiest = max(((line.running or 0) + (line.queued or 0) for line in lines), default=0)
    if busiest > concurrency:
        return f"the server worked on {busiest} requests while {concurrency} were in flight"
    return None


def log_step_time_s(lines: Sequence[DecodeLine], concurrency: int, *, speculates: bool) -> float | None:
    """Time of a step by the log: requests x accept length / tokens per second, median over lines at full concurrency.

    ``None`` with fewer than three such lines. A line that follows idling or a prefill states too low a speed, which the
    median forgives.
    """
    times = [
        line.running * accept / line.tokens_per_s
        for line in lines
        if line.running == concurrency
        and line.tokens_per_s
        and (accept := line.accept_length if speculates else 1.0) is not None
        and accept >= 1
    ]
    return statistics.median(times) if len(times) >= _FEWEST_LINES else None


def _compare_step_times(
    ours_s: float, lines: Sequence[DecodeLine], concurrency: int, *, speculates: bool
) -> tuple[str, ...]:
    """Say so when steps seem longer here than the server logs them: the way or the load generator takes the rest."""
    theirs_s = log_step_time_s(lines, concurrency, speculates=speculates)
    if theirs_s is None or math.isclose(ours_s, theirs_s, rel_tol=_SLOWER_PATH_SHARE):
        return ()
    return (f"a step takes {1000 * ours_s:.1f} ms as received but {1000 * theirs_s:.1f} ms by the log",)
