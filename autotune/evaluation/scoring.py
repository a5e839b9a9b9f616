"""How good are the answers of one boot, and are they worse than those of another? Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from autotune.objectives import paired_p_value
from autotune.trial import EvaluationMeasurement, Figure, ProblemResult, Verdict

Z_95 = 1.959963984540054
"""Two-sided 95 % quantile of the normal distribution."""
MANY_TRUNCATED = 0.1
"""Share of truncated answers above which the token limit, or the configuration, is in doubt."""


@dataclass(frozen=True, slots=True)
class PairedComparison:
    """Two boots on the same problems.

    Attributes:
        better: problems passed here and not there.
        worse: problems passed there and not here.
        p_worse: one-sided exact probability of at least so many among the changed being worse, if both were equally
            good (McNemar's exact test); ``None`` when no problem was answered by both.
    """

    better: int
    worse: int
    p_worse: float | None


def wilson_interval(passed: int, count: int) -> tuple[float, float]:
    """Return Wilson's 95 % score interval of a share; it stays inside 0 to 1 and has a width at both ends.

    >>> [round(bound, 4) for bound in wilson_interval(8, 10)]
    [0.4902, 0.9433]

    Raises:
        ValueError: nothing was counted, or more passed than were counted.
    """
    if count < 1 or not 0 <= passed <= count:
        raise ValueError(f"{passed} of {count} is no share")
    share, square = passed / count, Z_95**2
    centre = (share + square / (2 * count)) / (1 + square / count)
    half = Z_95 * math.sqrt(share * (1 - share) / count + square / (4 * count**2)) / (1 + square / count)
    return max(0.0, centre - half), min(1.0, centre + half)


def score_pass_at_1(results: Sequence[ProblemResult]) -> Figure | None:
    """Return the share of the answered problems that passed, with Wilson's interval; ``None`` without an answer.

    A request that failed says nothing about the answers, so its problem is not counted.
    """
    verdicts = [result.verdict for result in results if result.verdict is not Verdict.NO_ANSWER]
    if not verdicts:
        return None
    passed = sum(verdict is Verdict.PASSED for verdict in verdicts)
    low, high = wilson_interval(passed, len(verdicts))
    return Figure(passed / len(verdicts), len(verdicts), low, high)


def truncated_share(results: Sequence[ProblemResult]) -> float | None:
    """Return the share of answered problems that the token limit cut off; ``None`` without an answer.

    Shown beside pass@1: above :data:`MANY_TRUNCATED` the limit is too small or the configuration ill.
    """
    verdicts = [result.verdict for result in results if result.verdict is not Verdict.NO_ANSWER]
    return verdicts.count(Verdict.TRUNCATED) / len(verdicts) if verdicts else None


def render_notes(results: Sequence[ProblemResult]) -> tuple[str, ...]:
    """Say what the user should know about a score beside its interval.

    >>> render_notes([ProblemResult("f", Verdict.TRUNCATED), ProblemResult("g", Verdict.PASSED)])
    ('50% of the answers were cut off: the token limit is too small or the configuration is ill',)
    """
    share = truncated_share(results)
    if share is None or share <= MANY_TRUNCATED:
        return ()
    return (f"{share:.0%} of the answers were cut off: the token limit is too small or the configuration is ill",)


def compare_paired(ours: EvaluationMeasurement, theirs: EvaluationMeasurement) -> PairedComparison:
    """Compare two boots problem by problem, over the problems that both answered."""
    before = {result.problem: result.verdict for result in theirs.results}
    pairs = [
        (result.verdict is Verdict.PASSED, before[result.problem] is Verdict.PASSED)
        for result in ours.results
        if result.problem in before and Verdict.NO_ANSWER not in (result.verdict, before[result.problem])
    ]
    return PairedComparison(pairs.count((True, False)), pairs.count((False, True)), paired_p_value(ours, theirs))
