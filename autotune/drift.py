"""Which boots of a study ran on a machine that was not itself: throttled, or at another speed than in the other boots? Pure.

Two tests, on what the tuned parameters cannot change. The canary: the prefill rate of fixed prompts, once before the first cell
and once after the last. The GPUs: how often something but the power limit lowered their clocks while the boot was measured.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Final

from autotune.trial import BootCondition, Figure, TrialRecord

CANARY_FLOOR: Final = 0.05
"""A canary that lies this share from the median of the other boots is no drift, however little they differ."""

CANARY_SCALE: Final = 4.0
"""Robust standard deviations (1.4826 times the median distance from the median) beyond which it is."""

CHANGE_ALONE: Final = 0.1
"""Change of a canary inside a boot that is no drift while too few other boots show which change is usual."""

FEWEST_OTHERS: Final = 3
"""Boots with a canary that must be known before another is compared with them."""

SLOWED_SHARE: Final = 0.1
"""Share of samples in which a GPU may be slowed down by heat or hardware."""

_ALLOWED: Final = "software power cap"
"""What every GPU does under load, and not the machine's fault."""


def find_drifts(trials: Sequence[TrialRecord]) -> dict[int, tuple[str, ...]]:
    """Return for each trial whose boot drifted what was seen, one sentence for each test that it fails."""
    heard = {trial.number: trial.condition.canaries for trial in trials if trial.condition is not None}
    firsts = {number: math.log(canaries[0].value) for number, canaries in heard.items() if canaries}
    changes = {
        number: math.log(canaries[-1].value / canaries[0].value)
        for number, canaries in heard.items()
        if len(canaries) > 1
    }
    found = {}
    for trial in trials:
        if trial.condition is None:
            continue
        sentences = (
            *_judge_first(trial.number, firsts),
            *_judge_change(trial.number, changes, trial.condition.canaries),
            *_judge_gpus(trial.condition),
        )
        if sentences:
            found[trial.number] = sentences
    return found


def limit_of(others: Sequence[float]) -> float | None:
    """Return how far a log may lie from the median of others; ``None`` with too few of them.

    >>> round(limit_of([0.00, 0.01, -0.01, 0.00]), 3), round(limit_of([0.1, 0.0, -0.1]), 3)
    (0.049, 0.593)
    """
    if len(others) < FEWEST_OTHERS:
        return None
    middle = statistics.median(others)
    scale = 1.4826 * statistics.median(abs(log - middle) for log in others)
    return max(math.log1p(CANARY_FLOOR), CANARY_SCALE * scale)


def _judge_first(number: int, firsts: Mapping[int, float]) -> list[str]:
    """Compare the first canary of a boot with those of the other boots."""
    others = [log for other, log in firsts.items() if other != number]
    limit = limit_of(others)
    if number not in firsts or limit is None:
        return []
    off = firsts[number] - statistics.median(others)
    if abs(off) <= limit:
        return []
    return [
        (
            f"its canary (prefill of fixed prompts) is {_percent(off)} off the median of {len(others)} other boots; "
            f"{math.expm1(limit):.1%} is the limit"
        )
    ]


def _judge_change(number: int, changes: Mapping[int, float], canaries: Sequence[Figure]) -> list[str]:
    """Compare the last canary of a boot with its first; a machine that warms up in every boot does not drift in one."""
    if number not in changes or not _are_apart(canaries[0], canaries[-1]):
        return []
    others = [log for other, log in changes.items() if other != number]
    limit = limit_of(others)
    usual = 0.0 if limit is None else statistics.median(others)
    allowed = math.log1p(CHANGE_ALONE) if limit is None else limit
    if abs(changes[number] - usual) <= allowed:
        return []
    compared = "" if limit is None else f", {_percent(usual)} being usual"
    return [
        (
            f"its canary (prefill of fixed prompts) changed by {_percent(changes[number])} while it was measured{compared}; "
            f"{math.expm1(allowed):.1%} is the limit"
        )
    ]


def _are_apart(first: Figure, last: Figure) -> bool:
    """Whether two figures differ by more than their own intervals, where these are known."""
    if first.low is None or first.high is None or last.low is None or last.high is None:
        return True
    return last.low > first.high or last.high < first.low


def _judge_gpus(condition: BootCondition) -> list[str]:
    """Look for GPUs that were slowed down."""
    sentences = []
    for gpu in condition.gpus:
        slowed: Mapping[str, float] = gpu.slowed or {}
        for reason, share in slowed.items():
            if reason != _ALLOWED and share >= SLOWED_SHARE:
                heat = "" if gpu.hottest_c is None else f" at up to {gpu.hottest_c:.0f} °C"
                sentences.append(
                    f"{gpu.name} was slowed down ({reason}) in {share:.0%} of {gpu.samples} samples{heat}; "
                    f"{SLOWED_SHARE:.0%} is the limit"
                )
    return sentences


def _percent(log: float) -> str:
    return f"{math.expm1(log):+.1%}"
