"""How many answers passed, how sure is that, and is it fewer than elsewhere? Problem by problem; pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autotune.trial import Figure, ProblemResult, Verdict

Z_95 = 1.959963984540054
"""Two-sided 95 % quantile of the normal distribution."""


@dataclass(frozen=True, slots=True)
class Tally:
    """How many of the answers to one problem passed; a request that failed is no answer."""

    passed: int
    answered: int

    @property
    def share(self) -> float:
        """Share of answers that passed."""
        return self.passed / self.answered


def tally_results(results: Sequence[ProblemResult]) -> Mapping[str, Tally]:
    """Count the answers to each problem, in the order of the results; a problem without an answer is left out."""
    answered: dict[str, list[bool]] = {}
    for result in results:
        if result.verdict is not Verdict.NO_ANSWER:
            answered.setdefault(result.problem, []).append(result.verdict is Verdict.PASSED)
    return {problem: Tally(sum(passed), len(passed)) for problem, passed in answered.items()}


def wilson_interval(passed: float, count: float) -> tuple[float, float]:
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
    """Return the mean over answered problems of the share of their answers that passed; ``None`` without an answer.

    A request that failed says nothing about the answers, so it is not counted. With one answer to each problem the
    interval is Wilson's. With several, answers to one problem are alike: Wilson's interval is taken at the number of
    independent answers that would vary as much as the problems' shares do (Korn and Graubard, Survey Methodology 24,
    1998), at least the number of problems and at most the number of answers.
    """
    tallies = list(tally_results(results).values())
    return _share([tally.share for tally in tallies], sum(tally.answered for tally in tallies))


def score_pass_at_k(results: Sequence[ProblemResult], k: int) -> Figure | None:
    """Return the share of problems that k answers would solve at least once; ``None`` when no problem has k answers.

    Estimated without bias for each problem with n answers of which c passed: 1 - C(n - c, k) / C(n, k) (Chen et al.,
    "Evaluating Large Language Models Trained on Code", 2021, equation 1). Problems with fewer answers are left out.
    """
    tallies = [tally for tally in tally_results(results).values() if tally.answered >= k]
    shares = [1 - math.comb(tally.answered - tally.passed, k) / math.comb(tally.answered, k) for tally in tallies]
    return _share(shares, len(shares))


def probability_of_fewer(pairs: Sequence[tuple[Tally, Tally]]) -> float | None:
    """Return the exact probability of so few passes on the first side if the sides did not matter.

    Under that hypothesis the answers to one problem are interchangeable between the sides, so of all that passed a
    hypergeometric number falls to the first side, independently for each problem. The sum over problems is compared
    with what was seen (the exact conditional test of stratified two-by-two tables; Birch, J. R. Stat. Soc. B 26, 1964).
    With one answer on each side it is McNemar's exact test (Psychometrika 12, 1947). Problems may differ in difficulty
    as they like; answers with the same seed on both sides only make it more cautious.

    >>> probability_of_fewer([(Tally(0, 1), Tally(1, 1))] * 5)
    0.03125

    Args:
        pairs: both sides' answers to each problem.

    Returns:
        ``None`` without a problem.
    """
    if not pairs:
        return None
    counts = [1]
    """Ways to get 0, 1, 2 ... passes on the first side over the problems so far, beyond the fewest possible."""
    fewest = 0
    for ours, theirs in pairs:
        passed, failed = ours.passed + theirs.passed, ours.answered + theirs.answered - ours.passed - theirs.passed
        low, high = max(0, ours.answered - failed), min(passed, ours.answered)
        ways = [
            math.comb(passed, number) * math.comb(failed, ours.answered - number) for number in range(low, high + 1)
        ]
        fewest += low
        sums = [0] * (len(counts) + len(ways) - 1)
        for at, count in enumerate(counts):
            for step, way in enumerate(ways):
                sums[at + step] += count * way
        counts = sums
    seen = sum(ours.passed for ours, _theirs in pairs)
    return sum(counts[: seen - fewest + 1]) / sum(counts)


def _share(shares: Sequence[float], answers: int) -> Figure | None:
    if not shares:
        return None
    mean = math.fsum(shares) / len(shares)
    count = float(len(shares))
    if answers > len(shares) > 1:
        variance = statistics.variance(shares) / len(shares)
        count = min(max(mean * (1 - mean) / variance, count), answers) if variance > 0 else count
    low, high = wilson_interval(min(mean * count, count), count)
    return Figure(mean, answers, low, high)
