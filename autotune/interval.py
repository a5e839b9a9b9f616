"""How sure is a ratio of two speeds, boots and prompts considered? Intervals on a log scale, where ratios are differences. Pure.

The model: a log speed is the configuration's, plus what the prompt adds, plus what the boot adds, plus noise of which
requests of one boot may share any part. So boots are the sample, never requests: what requests of a boot share shows
between boots, as long as every boot sends the same. Prompts are a sample too, because a gain is meant for prompts like these.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from autotune.trial import CellMeasurement, Figure

MIN_PAIRS: Final = 4
"""Fewest prompts that both sides answered before their differences give an interval of their own."""


ASSUMED_SPREAD: Final = 0.05
"""Standard deviation of the log speed between boots of one configuration, while too few were seen."""

_ONE_SIDED: Final = 0.025
_MEAN_NODES, _SPREAD_NODES, _CLOSE = 40, 2000, 1e-4

_BLEND: Final = 1.6
"""How fast the quantile of the boots takes over as their share of the variance grows. Chosen by simulation: the coverage is 94
to 97 % at every share (1 goes up to 98 %, Satterthwaite's formula down to 92 %)."""

_BLEND_OF_TWO: Final = 1.2
"""The same with one degree of freedom, a baseline of two boots: 93 to 97.5 % (Satterthwaite's formula: down to 87 %)."""


@dataclass(frozen=True, slots=True)
class LogRatio:
    """Log of one speed over another, with its 95 % interval; unknown bounds are ``None``.

    Attributes:
        value: the log.
        low: lower bound.
        high: upper bound.
        degrees: degrees of freedom of the spread between boots in the interval; 0: only the noise inside boots is in it.
        pairs: prompts that were compared with themselves; 0 where too few were common.
    """

    value: float
    low: float | None = None
    high: float | None = None
    degrees: int = 0
    pairs: int = 0

    @property
    def factor(self) -> float:
        """The ratio: 1.1 is ten per cent faster."""
        return math.exp(self.value)

    @property
    def gain(self) -> float:
        """The ratio minus one: 0.1 is ten per cent faster."""
        return math.expm1(self.value)


def student_quantile(degrees: int, level: float = _ONE_SIDED) -> float:
    """Return what Student's distribution exceeds with a probability of ``level``; the usual one is that of 95 % intervals.

    >>> round(student_quantile(10), 3), round(student_quantile(10, 0.05), 3)
    (2.228, 1.812)
    """
    from scipy.special import stdtrit  # noqa: PLC0415  # slow to import, and only intervals need it

    return -float(stdtrit(degrees, level))


@functools.cache
def best_of_quantile(boots: int, candidates: int) -> float:
    """Return how many of its standard errors the best of several boots must be ahead to be ahead beyond chance.

    Candidates are single boots, each compared with the mean of the same ``boots`` boots and by their spread: the one-sided
    97.5 % quantile of the largest of these quotients when none is really ahead. For one candidate it is Student's. By
    integration over the spread (chi-squared) and the mean (normal), as in Dunnett's test.

    >>> [round(best_of_quantile(5, candidates), 2) for candidates in (1, 5, 20)]
    [2.78, 4.29, 5.63]
    """
    import numpy as np  # noqa: PLC0415  # slow to import, and only claims need it
    from scipy.special import chdtri, ndtr  # noqa: PLC0415

    if candidates == 1:
        return student_quantile(boots - 1)
    nodes, weights = np.polynomial.hermite_e.hermegauss(_MEAN_NODES)
    weights /= weights.sum()
    spreads = np.sqrt(chdtri(boots - 1, (np.arange(_SPREAD_NODES) + 0.5) / _SPREAD_NODES) / (boots - 1))
    width = math.sqrt(1 + 1 / boots)

    def chance(quantile: float) -> float:
        limits = quantile * width * spreads[:, None] + nodes[None, :] / math.sqrt(boots)
        return float(np.mean((1 - ndtr(limits) ** candidates) @ weights))

    low, high = 0.0, 1.0
    while chance(high) > _ONE_SIDED:
        low, high = high, 2 * high
    while high - low > _CLOSE:
        middle = (low + high) / 2
        low, high = (middle, high) if chance(middle) > _ONE_SIDED else (low, middle)
    return high


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


@dataclass(frozen=True, slots=True)
class BootSpeeds:
    """What one boot measured of the cells that are compared.

    Attributes:
        log_speed: log of the speed that is compared, over all cells together.
        prompts: for each cell, prompt id -> mean log of that prompt's speed.
    """

    log_speed: float
    prompts: tuple[Mapping[str, float], ...]


@dataclass(frozen=True, slots=True)
class Component:
    """A part of a variance: of the mean that is compared, with the degrees of freedom of its estimate."""

    variance: float
    degrees: int


def compare_cells(
    pairs: Sequence[tuple[CellMeasurement, CellMeasurement]], weights: Sequence[float], level: float = _ONE_SIDED
) -> LogRatio:
    """Return the log of one side's speed over the other's, over cells that both have measured; see :func:`compare_boots`.

    The value is that of the weighted geometric means of the decode speeds. Where too few prompts are common to pair
    them, the intervals of the figures themselves come on top, if they are known; else there is no interval.

    Args:
        pairs: for each cell ours and theirs; several boots of a side are in ``boots`` of its cells.
        weights: one for each cell.
        level: chance that the truth lies beyond one bound; the usual one gives 95 % intervals.
    """
    total = math.fsum(weights)
    shares = [weight / total for weight in weights]
    ours, theirs = zip(*pairs, strict=True)
    ratio = compare_boots(_boots_of(ours, shares), _boots_of(theirs, shares), shares, level)
    value = math.fsum(
        share * math.log(mine.decode_tokens_per_s.value / other.decode_tokens_per_s.value)
        for share, (mine, other) in zip(shares, pairs, strict=True)
    )
    half: float | None = None if ratio.high is None else ratio.high - ratio.value
    if not ratio.pairs:
        widths = [log_half_width(cell.decode_tokens_per_s) for pair in pairs for cell in pair]
        known = [share * width for share, width in zip(_twice(shares), widths, strict=True) if width is not None]
        half = math.hypot(half or 0.0, *known) if len(known) == len(widths) else None
    if half is None:
        return LogRatio(value, degrees=ratio.degrees)
    return LogRatio(value, value - half, value + half, ratio.degrees, ratio.pairs)


def _boots_of(cells: Sequence[CellMeasurement], shares: Sequence[float]) -> list[BootSpeeds]:
    """Return the boots in which one side measured all of these cells."""
    by_trial = [{boot.trial: boot for boot in cell.boots} for cell in cells]
    numbers = sorted(set.intersection(*(set(boots) for boots in by_trial)))
    if not numbers:
        logs = [math.log(cell.decode_tokens_per_s.value) for cell in cells]
        return [BootSpeeds(_weigh(shares, logs), tuple(cell.per_prompt_log_speed for cell in cells))]
    return [
        BootSpeeds(
            _weigh(shares, [boots[number].log_speed for boots in by_trial]),
            tuple(boots[number].per_prompt_log_speed for boots in by_trial),
        )
        for number in numbers
    ]


def _weigh(shares: Sequence[float], values: Sequence[float]) -> float:
    return math.fsum(share * value for share, value in zip(shares, values, strict=True))


def _twice(shares: Sequence[float]) -> list[float]:
    return [share for share in shares for _side in range(2)]


def compare_boots(
    ours: Sequence[BootSpeeds], theirs: Sequence[BootSpeeds], shares: Sequence[float], level: float = _ONE_SIDED
) -> LogRatio:
    """Return the log of one configuration's speed over another's, each measured in one boot or more.

    The value is the difference of the mean logs. Its variance has two parts: the spread between boots of one
    configuration, pooled over both, times ``1/ours + 1/theirs``, which holds all noise inside boots however its requests
    hang together; and what prompts gain differently: the spread of the paired differences over prompts, less the noise
    inside boots that is in it (the residual of boots x prompts). The half width is the square root of both times
    a quantile that lies between those of Student's distribution for either part, by their shares.

    With one boot on each side the spread between boots is unknown: the interval is Student's over paired prompts, covers
    the noise inside these two boots alone, and says so by ``degrees`` 0.

    Args:
        ours: at least one boot; all with the same cells.
        theirs: the same.
        shares: weight of each cell in the speed; their sum is one.
        level: chance that the truth lies beyond one bound; the usual one gives 95 % intervals.

    Raises:
        ValueError: a side has no boot.
    """
    if not ours or not theirs:
        raise ValueError("a comparison needs a boot on each side")
    value = _mean([boot.log_speed for boot in ours]) - _mean([boot.log_speed for boot in theirs])
    factor = 1 / len(ours) + 1 / len(theirs)
    degrees = len(ours) + len(theirs) - 2
    prompts = [_compare_prompts(ours, theirs, index) for index in range(len(shares))]
    paired = [each for each in prompts if each is not None]
    pairs = sum(each.pairs for each in paired) if len(paired) == len(prompts) else 0
    if degrees == 0:
        if not pairs:
            return LogRatio(value)
        spread = combine(
            [Component(share**2 * each.spread, each.pairs - 1) for share, each in zip(shares, paired, strict=True)]
        )
        half = student_quantile(spread.degrees, level) * math.sqrt(spread.variance)
        return LogRatio(value, value - half, value + half, 0, pairs)
    between = Component(
        factor * pooled_variance([[boot.log_speed for boot in side] for side in (ours, theirs)]), degrees
    )
    differing = combine(
        [
            Component(share**2 * max(each.spread - factor * each.noise, 0.0), each.pairs - 1)
            for share, each in zip(shares, paired, strict=True)
        ]
        if pairs
        else []
    )
    half = half_width(between, differing, level)
    return LogRatio(value, value - half, value + half, degrees, pairs)


def half_width(between: Component, differing: Component, level: float = _ONE_SIDED) -> float:
    """Return half an interval of a mean whose variance has a part between boots and one over prompts.

    >>> round(half_width(Component(1.0, 2), Component(0.0, 9)), 3)
    4.303

    Args:
        between: the part of the boots.
        differing: the part of the prompts; no variance and no degrees when nothing is known of it.
        level: chance that the truth lies beyond one bound; the usual one gives 95 % intervals.
    """
    variance = between.variance + differing.variance
    if variance == 0:
        return 0.0
    quantile = student_quantile(between.degrees, level)
    if differing.variance > 0:
        of_prompts = student_quantile(differing.degrees, level)
        blend = _BLEND_OF_TWO if between.degrees == 1 else _BLEND
        quantile = of_prompts + (quantile - of_prompts) * (between.variance / variance) ** blend
    return quantile * math.sqrt(variance)


def pooled_variance(groups: Sequence[Sequence[float]]) -> float:
    """Return the variance inside groups that may have different means; 0 when no group has two values.

    >>> pooled_variance([[1.0, 3.0], [10.0], [20.0, 20.0]])
    1.0
    """
    degrees = sum(len(group) - 1 for group in groups if group)
    squares = math.fsum((value - _mean(group)) ** 2 for group in groups for value in group)
    return squares / degrees if degrees else 0.0


def deviation_interval(deviation: float, degrees: int) -> tuple[float, float]:
    """Return the 95 % interval of a standard deviation that was estimated with so many degrees of freedom (chi-squared).

    >>> [round(bound, 2) for bound in deviation_interval(1.0, 9)]
    [0.69, 1.83]
    """
    from scipy.special import chdtri  # noqa: PLC0415  # slow to import, and only intervals need it

    return tuple(deviation * math.sqrt(degrees / float(chdtri(degrees, tail))) for tail in (0.025, 0.975))  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class _PromptSpread:
    """How the prompts of one cell differ in what they gain.

    Attributes:
        pairs: prompts that all boots answered.
        spread: variance of the mean of their paired differences, noise inside boots included.
        noise: variance of the noise of a prompt inside one boot, over ``pairs``.
    """

    pairs: int
    spread: float
    noise: float


def _compare_prompts(ours: Sequence[BootSpeeds], theirs: Sequence[BootSpeeds], cell: int) -> _PromptSpread | None:
    """Pair the prompts of one cell; ``None`` when fewer than :data:`MIN_PAIRS` were answered in every boot."""
    sides = [[boot.prompts[cell] for boot in side] for side in (ours, theirs)]
    common = sorted(set.intersection(*(set(speeds) for side in sides for speeds in side)))
    pairs = len(common)
    if pairs < MIN_PAIRS:
        return None
    tables = [[[speeds[prompt] for prompt in common] for speeds in side] for side in sides]
    means = [[_mean(column) for column in zip(*table, strict=True)] for table in tables]
    differences = [mine - other for mine, other in zip(*means, strict=True)]
    spread = pooled_variance([differences]) / pairs
    degrees = (len(ours) + len(theirs) - 2) * (pairs - 1)
    if not degrees:
        return _PromptSpread(pairs, spread, 0.0)
    squares = math.fsum(
        (row[index] - of_prompts[index] - _mean(row) + _mean(of_prompts)) ** 2
        for table, of_prompts in zip(tables, means, strict=True)
        for row in table
        for index in range(pairs)
    )
    return _PromptSpread(pairs, spread, squares / degrees / pairs)


def combine(parts: Sequence[Component]) -> Component:
    """Add independent parts; the degrees of freedom are Satterthwaite's, rounded down."""
    variance = math.fsum(part.variance for part in parts)
    if variance == 0:
        return Component(0.0, 1)
    weights = math.fsum(part.variance**2 / part.degrees for part in parts)
    return Component(variance, max(math.floor(variance**2 / weights + 1e-9), 1))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


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
