"""How sure is a ratio of two speeds? Intervals on a log scale, where ratios are differences. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from autotune.trial import Figure

MIN_PAIRS: Final = 4
"""Fewest prompts that both sides answered before their differences give an interval of their own."""


@dataclass(frozen=True, slots=True)
class LogRatio:
    """Log of one speed over another, with its 95 % interval; unknown bounds are ``None``."""

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def gain(self) -> float:
        """The ratio minus one: 0.1 is ten per cent faster."""
        return math.expm1(self.value)


def student_quantile(degrees: int) -> float:
    """Return the two-sided 95 % quantile of Student's distribution.

    >>> round(student_quantile(10), 3)
    2.228
    """
    from scipy.special import stdtrit  # noqa: PLC0415  # slow to import, and only intervals need it

    return float(stdtrit(degrees, 0.975))


def mean_log(logs: Sequence[float]) -> LogRatio:
    """Return the mean of logs with Student's interval; one value has no interval.

    Raises:
        ValueError: there is no value.
    """
    if not logs:
        raise ValueError("the mean of no values does not exist")
    mean = math.fsum(logs) / len(logs)
    if len(logs) == 1:
        return LogRatio(mean)
    variance = math.fsum((value - mean) ** 2 for value in logs) / (len(logs) - 1)
    half = student_quantile(len(logs) - 1) * math.sqrt(variance / len(logs))
    return LogRatio(mean, mean - half, mean + half)


def log_half_width(figure: Figure) -> float | None:
    """Return half the figure's interval on a log scale; ``None`` when a bound is unknown or not above zero."""
    if figure.low is None or figure.high is None or figure.low <= 0:
        return None
    return (math.log(figure.high) - math.log(figure.low)) / 2


def compare(
    ours: Figure,
    theirs: Figure,
    our_prompts: Mapping[str, float] | None = None,
    their_prompts: Mapping[str, float] | None = None,
) -> LogRatio:
    """Return the log of ``ours`` over ``theirs``; paired by prompt where enough prompts are common to both.

    The interval covers the noise inside the boots that were measured, not that between boots.

    Args:
        ours: a positive speed.
        theirs: a positive speed.
        our_prompts: prompt id -> mean log of that prompt's speed.
        their_prompts: same for the other side.
    """
    common = sorted(set(our_prompts or {}) & set(their_prompts or {}))
    if our_prompts is not None and their_prompts is not None and len(common) >= MIN_PAIRS:
        return mean_log([our_prompts[prompt] - their_prompts[prompt] for prompt in common])
    value = math.log(ours.value / theirs.value)
    widths = (log_half_width(ours), log_half_width(theirs))
    if widths[0] is None or widths[1] is None:
        return LogRatio(value)
    half = math.hypot(widths[0], widths[1])
    return LogRatio(value, value - half, value + half)


def geometric_mean(figures: Sequence[Figure], weights: Sequence[float]) -> Figure:
    """Return the weighted geometric mean of positive figures; its interval is known when all of theirs are.

    >>> geometric_mean([Figure(100.0, 2), Figure(400.0, 2)], [1.0, 1.0])
    Figure(value=200.0, count=4, low=None, high=None)

    Raises:
        ValueError: there is no figure.
    """
    if not figures:
        raise ValueError("the mean of no figures does not exist")
    total = math.fsum(weights)
    shares = [weight / total for weight in weights]
    mean = math.fsum(share * math.log(figure.value) for share, figure in zip(shares, figures, strict=True))
    count = sum(figure.count for figure in figures)
    widths = [log_half_width(figure) for figure in figures]
    known = [width for width in widths if width is not None]
    value = _exp(mean)
    if len(known) < len(widths):
        return Figure(value, count)
    half = math.hypot(*(share * width for share, width in zip(shares, known, strict=True)))
    return Figure(value, count, _exp(mean - half), _exp(mean + half))


def _exp(log: float) -> float:
    """Undo a logarithm without a trail of rounding digits."""
    return float(f"{math.exp(log):.12g}")
