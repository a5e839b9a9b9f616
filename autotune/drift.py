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

FEWEST_OTHERS: Final = 3
"""Boots with a canary that must be known before another is compared with them."""

SLOWED_SHARE: Final = 0.1
"""Share of samples in which a GPU may be slowed down by heat or hardware."""

_ALLOWED: Final = "software power cap"
"""What every GPU does under load, and not the machine's fault."""


def find_drifts(trials: Sequence[TrialRecord]) -> dict[int, tuple[str, ...]]:
    """Return for each trial whose boot drifted what was seen, one sentence for each test that it fails."""
    found = {}
    canaries = {
        trial.number: trial.condition.canaries[0].value
        for trial in trials
        if trial.condition is not None and trial.condition.canaries
    }
    for trial in trials:
        if trial.condition is None:
            continue
        others = [value for number, value in canaries.items() if number != trial.number]
        sentences = (*_judge_canaries(trial.condition.canaries, others), *_judge_gpus(trial.condition))
        if sentences:
            found[trial.number] = sentences
    return found


def canary_limit(others: Sequence[float]) -> float | None:
    """Return how far the log of a canary may lie from the median of others; ``None`` with too few of them.

    >>> round(canary_limit([100.0, 101.0, 99.0, 100.0]), 3)
    0.049
    """
    if len(others) < FEWEST_OTHERS:
        return None
    logs = [math.log(value) for value in others]
    middle = statistics.median(logs)
    scale = 1.4826 * statistics.median(abs(log - middle) for log in logs)
    return max(math.log1p(CANARY_FLOOR), CANARY_SCALE * scale)


def _judge_canaries(canaries: Sequence[Figure], others: Sequence[float]) -> list[str]:
    """Compare the canaries of one boot with each other and with those of the other boots."""
    sentences = []
    limit = canary_limit(others)
    if limit is not None and canaries:
        change = math.log(canaries[0].value / statistics.median(others))
        if abs(change) > limit:
            sentences.append(
                f"its canary (prefill of fixed prompts) is {_percent(change)} off the median of {len(others)} other boots; "
                f"{math.expm1(limit):.1%} is the limit"
            )
    if len(canaries) > 1:
        change = math.log(canaries[-1].value / canaries[0].value)
        allowed = max(math.log1p(CANARY_FLOOR), limit or 0.0)
        if abs(change) > allowed and _are_apart(canaries[0], canaries[-1]):
            sentences.append(
                f"its canary (prefill of fixed prompts) changed by {_percent(change)} while it was measured; "
                f"{math.expm1(allowed):.1%} is the limit"
            )
    return sentences


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
