"""How good are the answers of one boot, and are they worse than those of another? Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from autotune.pass_rate import probability_of_fewer, tally_results
from autotune.trial import EvaluationMeasurement, ProblemResult, Verdict

MANY_TRUNCATED = 0.1
"""Share of truncated answers above which the token limit, or the configuration, is in doubt."""


@dataclass(frozen=True, slots=True)
class PairedComparison:
    """Two boots on the same problems.

    Attributes:
        problems: that both answered.
        better: problems of which a larger share of answers passed here.
        worse: problems of which a larger share passed there.
        difference: mean over problems of share here minus share there; ``None`` without a common problem.
        p_worse: one-sided exact probability of so few passes here if both were equally good; ``None`` when no problem
            was answered by both.
        p_different: two-sided, twice the smaller of the two one-sided ones.
    """

    problems: int
    better: int
    worse: int
    difference: float | None
    p_worse: float | None
    p_different: float | None


def truncated_share(results: Sequence[ProblemResult]) -> float | None:
    """Return the share of answers that the token limit cut off; ``None`` without an answer.

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
    here, there = tally_results(ours.results), tally_results(theirs.results)
    pairs = [(here[problem], there[problem]) for problem in here if problem in there]
    differences = [one.share - other.share for one, other in pairs]
    p_worse = probability_of_fewer(pairs)
    p_better = probability_of_fewer([(other, one) for one, other in pairs])
    return PairedComparison(
        problems=len(pairs),
        better=sum(difference > 0 for difference in differences),
        worse=sum(difference < 0 for difference in differences),
        difference=math.fsum(differences) / len(pairs) if pairs else None,
        p_worse=p_worse,
        p_different=None if p_worse is None or p_better is None else min(1.0, 2 * min(p_worse, p_better)),
    )
