"""From request records to the figures of a cell, each with a count and a 95 % interval. Pure.

Unknown is ``None``. A figure that is infinite, not a number, zero or negative where that cannot be is refused.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from autotune.benchmark.decode_window import Contribution, DecodeWindow, Stream, find_window
from autotune.benchmark.latency import measure_latencies, measure_prefill
from autotune.benchmark.request_record import RequestRecord
from autotune.benchmark.success_rate import SuccessCount
from autotune.errors import ImpossibleMetric, NothingSucceeded, TooManyFailures, UsageMissing
from autotune.interval import student_quantile
from autotune.trial import Cell, CellMeasurement, Figure

_SURPRISING_CACHED_SHARE = 0.2
_SURPRISING_CACHED_TOKENS = 32
_SHORT_ANSWERS_SHARE = 0.25
_FEWEST_PAIRS = 3


@dataclass(frozen=True, slots=True)
class Repeat:
    """The records of one repeat, in the order in which they were sent.

    Attributes:
        records: one for each request.
        duration_s: wall time from the first request sent to the last one ended.
        round: repeats of one round have prompts of their own; every round sends the same prompts again.
    """

    records: tuple[RequestRecord, ...]
    duration_s: float
    round: int = 0


def measure_repeats(
    cell: Cell,
    repeats: Sequence[Repeat],
    *,
    min_success_rate: float,
    earlier: SuccessCount | None = None,
    accept_length: Figure | None = None,
    notes: Sequence[str] = (),
) -> CellMeasurement:
    """Turn the records of a cell into its measurement; only requests that ended ok count in any figure.

    ``decode_tokens_per_s``: see :mod:`autotune.benchmark.decode_window`, without the last chunk of answers that ended by
    their token limit. ``total_tokens_per_s``: output tokens of all repeats over their wall time, prefill, ramp-up and drain
    included; the sample is the repeats. ``prefill_tokens_per_s``: see :func:`autotune.benchmark.latency.measure_prefill`.
    ``ttft_s`` and ``tpot_s``: means over requests. ``per_prompt_log_speed``: log of each prompt's decode tokens/s inside
    the full intervals, mean over rounds.

    Requests that are in flight together hang together, so the sample of every interval but the repeats' is batches of as
    many requests as the concurrency, in the order in which they were sent; fewer than three batches give no interval.

    Args:
        cell: what was measured.
        repeats: at least one.
        min_success_rate: share of requests that must end ok, over the whole boot.
        earlier: requests of the boot before this cell.
        accept_length: of this cell, as :mod:`autotune.benchmark.accept_length` chose it.
        notes: sentences to keep.

    Raises:
        NothingSucceeded: no request ended ok.
        TooManyFailures: fewer than ``min_success_rate`` did, beyond chance.
        UsageMissing: an answer came without the number of its tokens.
        ImpossibleMetric: a figure is not a positive number, or an answer has more tokens than its limit.
    """
    records = [record for repeat in repeats for record in repeat.records]
    whole = [record for record in records if record.is_ok]
    check_outcomes(records, cell.name, min_success_rate, earlier)
    output_tokens = _count_tokens(whole, cell.name)
    if output_tokens == 0:
        raise ImpossibleMetric(
            "every answer is empty: 0 output tokens", where=cell.name, hint="look at the server's answer to one prompt"
        )
    window = find_window([_streams(repeat.records) for repeat in repeats], cell.concurrency)
    if window is None:
        raise ImpossibleMetric(
            "decode speed is unknown: no answer came in two chunks at different times",
            where=cell.name,
            hint="the server must stream, and output_tokens must be larger than what one chunk holds",
        )
    batches = _find_batches(repeats, cell.concurrency)
    cached = [record.cached_tokens for record in whole if record.cached_tokens is not None]
    measurement = CellMeasurement(
        cell=cell,
        requests=len(records),
        succeeded=len(whole),
        output_tokens=output_tokens,
        prompt_tokens=sum(record.prompt_tokens or 0 for record in whole),
        cached_tokens=sum(cached) if cached else None,
        decode_tokens_per_s=_decode_figure(window, batches),
        total_tokens_per_s=ratio_figure(
            [
                (float(sum(record.output_tokens or 0 for record in repeat.records if record.is_ok)), repeat.duration_s)
                for repeat in repeats
            ]
        ),
        ttft_s=_mean_of_batches([record.ttft_s for record in records], batches),
        tpot_s=_mean_of_batches([record.tpot_s for record in records], batches),
        accept_length=accept_length,
        per_prompt_log_speed=_log_speeds(repeats, window),
        duration_s=sum(repeat.duration_s for repeat in repeats),
        notes=(*notes, *_find_oddities(whole, records, window, cell)),
        latencies=measure_latencies(records),
        prefill_tokens_per_s=_prefill_figure(repeats),
        round_log_speeds=measure_rounds(cell, repeats),
    )
    check_figures(measurement)
    return measurement


def measure_rounds(cell: Cell, repeats: Sequence[Repeat]) -> tuple[float, ...]:
    """Return the log decode speed of each round, whose differences are noise inside the boot; empty for one round."""
    numbers = sorted({repeat.round for repeat in repeats})
    logs = []
    for number in numbers if len(numbers) > 1 else []:
        streams = [_streams(repeat.records) for repeat in repeats if repeat.round == number]
        window = find_window(streams, cell.concurrency)
        tokens = 0 if window is None else sum(item.tokens for item in window.contributions)
        time_s = 0.0 if window is None else math.fsum(item.time_s for item in window.contributions)
        if window is not None and tokens and time_s:
            logs.append(math.log(window.mean_streams * tokens / time_s))
    return tuple(logs)


def measure_canary(records: Sequence[RequestRecord]) -> Figure | None:
    """Return prompt tokens per second of time to the first token, requests one after the other being the sample.

    Returns:
        ``None`` when the server does not count prompt tokens, or a prefix cache answered more than a fifth of them.
    """
    pairs = [
        (float(record.prompt_tokens), record.ttft_s)
        for record in records
        if record.is_ok and record.prompt_tokens and record.ttft_s
    ]
    cached = sum(record.cached_tokens or 0 for record in records)
    if not pairs or cached > _SURPRISING_CACHED_SHARE * sum(tokens for tokens, _ttft_s in pairs):
        return None
    return ratio_figure(pairs)


def check_outcomes(
    records: Sequence[RequestRecord], where: str, min_success_rate: float, earlier: SuccessCount | None = None
) -> None:
    """Refuse requests of which too few ended ok; see :mod:`autotune.benchmark.success_rate`.

    Args:
        records: what was sent.
        where: for the message.
        min_success_rate: share that must end ok.
        earlier: requests before these that are judged together with them.

    Raises:
        NothingSucceeded: none of these did, or there is none.
        TooManyFailures: fewer than ``min_success_rate`` did, beyond chance.
    """
    succeeded = sum(record.is_ok for record in records)
    count = (earlier or SuccessCount()).plus(succeeded, len(records))
    if succeeded and not count.is_below(min_success_rate):
        return
    errors = Counter(record.error or record.outcome.value for record in records if not record.is_ok)
    commonest, times = errors.most_common(1)[0] if errors else ("nothing was sent", 0)
    reason = f"commonest error, {times} times: {commonest}"
    if succeeded == 0:
        raise NothingSucceeded(f"0 of {len(records)} requests succeeded; {reason}", where=where, hint=advise(commonest))
    since = "" if earlier is None or not earlier.sent else " since this server was booted"
    raise TooManyFailures(
        f"{count.succeeded} of {count.sent} requests succeeded{since}, so at most {count.upper_bound:.0%} do; "
        f"{min_success_rate:.0%} are demanded; {reason}",
        where=where,
        hint="see the server's log, or lower min_success_rate",
    )


def advise(error: str) -> str:
    """Say what to do about requests that failed, from the commonest error of theirs.

    >>> advise("HTTP 500: no room")
    "see the server's log"
    """
    if error.startswith(("HTTP 400", "HTTP 413", "HTTP 422")):
        return (
            "the server's words say what it does not take; a prompt and its answer must fit into its context together"
        )
    return "see the server's log"


def check_figures(measurement: CellMeasurement) -> None:
    """Refuse a measurement that holds an impossible number.

    Raises:
        ImpossibleMetric: names the metric and the value.
    """
    named = {
        "decode_tokens_per_s": measurement.decode_tokens_per_s,
        "total_tokens_per_s": measurement.total_tokens_per_s,
        "ttft_s": measurement.ttft_s,
        "tpot_s": measurement.tpot_s,
        "prefill_tokens_per_s": measurement.prefill_tokens_per_s,
    }
    values = {name: figure.value for name, figure in named.items() if figure is not None}
    values["duration_s"] = measurement.duration_s
    if measurement.accept_length is not None:
        values["accept_length - 1"] = measurement.accept_length.value - 1 or math.ulp(1.0)
    for name, value in values.items():
        if not math.isfinite(value) or value <= 0:
            raise ImpossibleMetric(
                f"{name} is {value}", where=measurement.cell.name, hint="see the request records of this cell"
            )


def ratio_figure(pairs: Sequence[tuple[float, float]], scale: float = 1.0) -> Figure:
    """Sum of numerators over sum of denominators, times ``scale``; pairs without a denominator are left out.

    The interval is Student's on the linearised ratio (variance of numerator - ratio x denominator). No pair that
    counts gives infinity, which :func:`check_figures` refuses; fewer than three pairs give no interval.

    >>> ratio_figure([(10.0, 1.0), (20.0, 2.0), (30.0, 3.0)])
    Figure(value=10.0, count=3, low=10.0, high=10.0)
    """
    pairs = [pair for pair in pairs if pair[1] > 0]
    whole = math.fsum(denominator for _numerator, denominator in pairs)
    if not pairs:
        return Figure(math.inf, 0)
    ratio = math.fsum(numerator for numerator, _denominator in pairs) / whole
    if len(pairs) < _FEWEST_PAIRS:
        return Figure(ratio * scale, len(pairs))
    squares = math.fsum((numerator - ratio * denominator) ** 2 for numerator, denominator in pairs)
    error = math.sqrt(squares * len(pairs) / (len(pairs) - 1)) / whole
    half = student_quantile(len(pairs) - 1) * error
    return Figure(ratio * scale, len(pairs), (ratio - half) * scale, (ratio + half) * scale)


def _count_tokens(whole: Sequence[RequestRecord], where: str) -> int:
    counts = [record.output_tokens for record in whole]
    missing = counts.count(None)
    if missing:
        raise UsageMissing(
            f"{missing} of {len(counts)} answers came without usage.completion_tokens, or with 0 for an answer with text",
            where=where,
            hint="the server must honour stream_options.include_usage; chunks and limits are no token counts",
        )
    over = next((record for record in whole if record.exceeds_limit), None)
    if over is not None:
        raise ImpossibleMetric(
            f"usage.completion_tokens is {over.output_tokens} for prompt {over.prompt_id}, sent with max_tokens {over.max_tokens}",
            where=where,
            hint="the server's count of tokens is wrong or it ignores the limit; see the request records of this cell",
        )
    return sum(count for count in counts if count is not None)


def _streams(records: Sequence[RequestRecord]) -> list[Stream]:
    """One stream per record in the same order; empty for a request that did not end ok.

    The token limit cuts the last verify step of an answer: a whole step's time for part of its tokens. With short
    answers that would favour small steps, so the last chunk of an answer that ended by its limit is left out.
    """
    streams = []
    for record in records:
        at_s, tokens = record.chunk_at_s, record.chunk_tokens
        if not record.is_ok or not tokens:
            streams.append(Stream((), ()))
        elif record.finish_reason == "length" and len(tokens) > 2:
            streams.append(Stream(at_s[:-1], tokens[:-1]))
        else:
            streams.append(Stream(at_s, tokens))
    return streams


def _find_batches(repeats: Sequence[Repeat], concurrency: int) -> list[str]:
    """Return for each record the batch of requests that were in flight together.

    The same prompts in another round are the same batch: they tell about the noise, not about other prompts.
    """
    return [
        repeat.records[index - index % concurrency].prompt_id
        for repeat in repeats
        for index in range(len(repeat.records))
    ]


def _decode_figure(window: DecodeWindow, batches: Sequence[str]) -> Figure:
    pairs = [(float(item.tokens), item.time_s) for item in window.contributions]
    return _batched_ratio(pairs, batches, window.mean_streams)


def _mean_of_batches(values: Sequence[float | None], batches: Sequence[str]) -> Figure | None:
    """Return the mean of what is known."""
    pairs = [(0.0, 0.0) if value is None else (value, 1.0) for value in values]
    return _batched_ratio(pairs, batches) if any(value is not None for value in values) else None


def _batched_ratio(pairs: Sequence[tuple[float, float]], batches: Sequence[str], scale: float = 1.0) -> Figure:
    """Return the ratio of sums with the batches as the sample; the count is that of the requests in it."""
    sums: dict[str, tuple[float, float]] = {}
    for batch, (numerator, denominator) in zip(batches, pairs, strict=True):
        before = sums.get(batch, (0.0, 0.0))
        sums[batch] = (before[0] + numerator, before[1] + denominator)
    count = sum(denominator > 0 for _numerator, denominator in pairs)
    return replace(ratio_figure(list(sums.values()), scale), count=count)


def _prefill_figure(repeats: Sequence[Repeat]) -> Figure | None:
    """Return the prefill rate with the repeats as the sample; ``None`` when a repeat does not say."""
    pairs = [measure_prefill(repeat.records) for repeat in repeats]
    known = [pair for pair in pairs if pair is not None]
    return ratio_figure(known) if known and len(known) == len(pairs) else None


def _log_speeds(repeats: Sequence[Repeat], window: DecodeWindow) -> Mapping[str, float]:
    records = [record for repeat in repeats for record in repeat.records]
    speeds: dict[str, list[float]] = {}
    for record, item in zip(records, window.contributions, strict=True):
        if _is_speed(item):
            speeds.setdefault(record.prompt_id, []).append(math.log(item.tokens / item.time_s))
    return {prompt: math.fsum(logs) / len(logs) for prompt, logs in speeds.items()}


def _is_speed(item: Contribution) -> bool:
    return item.tokens > 0 and item.time_s > 0


def _find_oddities(
    whole: Sequence[RequestRecord], records: Sequence[RequestRecord], window: DecodeWindow, cell: Cell
) -> list[str]:
    """Sentences about what the figures cannot show."""
    notes: list[str] = []
    failed = len(records) - len(whole)
    if failed:
        notes.append(f"{failed} of {len(records)} requests did not succeed")
    if window.streams < cell.concurrency:
        notes.append(
            f"at most {window.streams} of {cell.concurrency} streams decoded together long enough; "
            "the decode speed is that of the fewer streams"
        )
    estimated = sum(record.chunk_tokens_estimated for record in whole)
    if estimated:
        notes.append(
            f"{estimated} answers without continuous usage: their tokens were spread over chunks by text length"
        )
    short = sum(record.finish_reason == "stop" for record in whole)
    if short > _SHORT_ANSWERS_SHARE * len(whole):
        notes.append(f"{short} of {len(whole)} answers ended before the token limit")
    notes += _describe_cache(whole)
    notes += sorted({note for record in whole for note in record.notes})
    return notes


def _describe_cache(whole: Sequence[RequestRecord]) -> list[str]:
    known = [record for record in whole if record.cached_tokens is not None]
    cached = sum(record.cached_tokens or 0 for record in known)
    prompt = sum(record.prompt_tokens or 0 for record in known)
    if not known or cached <= _SURPRISING_CACHED_TOKENS * len(known) or cached <= _SURPRISING_CACHED_SHARE * prompt:
        return []
    return [
        f"{cached} of {prompt} prompt tokens came from the server's prefix cache; times to first token are too good"
    ]
