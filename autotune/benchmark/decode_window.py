"""How fast do streams decode while all of them decode, ramp-up and drain left out? Pure.

A stream decodes from its first to its last chunk with text. A moment is *full* when C streams decode at it. In each
full interval a stream contributes the tokens between its first and its last chunk inside, over the time between these
two chunks: measured from chunk to chunk, no step is cut by the border of the interval. The decode speed of the cell is

    streams decoding x (tokens of all contributions / time of all contributions).

At C=1 that is (tokens - tokens of the first chunk) / (last chunk - first chunk), pooled over requests. At C=32 it is
the aggregate rate while 32 streams decode; pooling stream time instead of counting tokens in a shared window makes it
independent of which chunks of the last step happen to arrive before the border.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

MIN_SHARE = 0.1
"""Full intervals must hold at least this share of the tokens decoded after first chunks, else fewer streams count as
full: a server that runs fewer requests together than were sent never has all of them decoding."""


@dataclass(frozen=True, slots=True)
class Stream:
    """Arrival of each chunk with text, and tokens generated up to and including it (same length, never falling)."""

    at_s: tuple[float, ...]
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one stream decoded inside full intervals."""

    tokens: int
    time_s: float


@dataclass(frozen=True, slots=True)
class DecodeWindow:
    """The full intervals of a cell.

    Attributes:
        streams: streams decoding at every moment of them, at least.
        mean_streams: their mean number, weighted by time.
        duration_s: length of the intervals together.
        contributions: one per stream, in the order given; zero tokens in zero seconds for one that was not inside.
    """

    streams: int
    mean_streams: float
    duration_s: float
    contributions: tuple[Contribution, ...]


def find_window(repeats: Sequence[Sequence[Stream]], concurrency: int) -> DecodeWindow | None:
    """Find the full intervals of a cell.

    Args:
        repeats: the streams of each repeat; repeats do not overlap in time.
        concurrency: streams that make a moment full; the next smaller number that holds :data:`MIN_SHARE` of the
            tokens is used when this one does not.

    Returns:
        ``None`` when no stream has two chunks at different times.
    """
    streams = [stream for repeat in repeats for stream in repeat]
    decoded = sum(_contribute(stream, stream.at_s[0], stream.at_s[-1]).tokens for stream in streams if stream.at_s)
    if decoded == 0:
        return None
    for wanted in range(concurrency, 0, -1):
        intervals = [_full_intervals(repeat, wanted) for repeat in repeats]
        contributions = tuple(
            _sum([_contribute(stream, start_s, end_s) for start_s, end_s, _count in inside])
            for repeat, inside in zip(repeats, intervals, strict=True)
            for stream in repeat
        )
        if sum(item.tokens for item in contributions) >= MIN_SHARE * decoded:
            flat = [interval for inside in intervals for interval in inside]
            duration_s = sum(end_s - start_s for start_s, end_s, _count in flat)
            stream_time_s = sum((end_s - start_s) * count for start_s, end_s, count in flat)
            return DecodeWindow(wanted, stream_time_s / duration_s, duration_s, contributions)
    return None


def _full_intervals(streams: Sequence[Stream], wanted: int) -> list[tuple[float, float, float]]:
    """Maximal intervals in which at least ``wanted`` streams decode: start, end, mean number of streams."""
    borders = sorted(
        [(stream.at_s[0], 1) for stream in streams if len(stream.at_s) > 1]
        + [(stream.at_s[-1], -1) for stream in streams if len(stream.at_s) > 1]
    )
    intervals: list[tuple[float, float, float]] = []
    count, start_s, last_s, stream_time_s = 0, 0.0, 0.0, 0.0
    for at_s, change in borders:
        stream_time_s += count * (at_s - last_s)
        last_s = at_s
        was_full = count >= wanted
        count += change
        if count >= wanted and not was_full:
            start_s, stream_time_s = at_s, 0.0
        elif was_full and count < wanted and at_s > start_s:
            intervals.append((start_s, at_s, stream_time_s / (at_s - start_s)))
    return intervals


def _contribute(stream: Stream, start_s: float, end_s: float) -> Contribution:
    """Tokens and time from the first to the last chunk of a stream inside an interval, both borders included.

    Chunks that arrived together with the first one came before the time that is counted, so their tokens are left out.
    """
    first = bisect_left(stream.at_s, start_s)
    last = bisect_right(stream.at_s, end_s) - 1
    if last <= first:
        return Contribution(0, 0.0)
    anchor = bisect_right(stream.at_s, stream.at_s[first]) - 1
    return Contribution(stream.tokens[last] - stream.tokens[anchor], stream.at_s[last] - stream.at_s[anchor])


def _sum(items: Sequence[Contribution]) -> Contribution:
    return Contribution(sum(item.tokens for item in items), sum(item.time_s for item in items))
