"""What a report shows of the coding evaluation: counts of verdicts, the speed of the answers, and which problems changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from autotune.export.wording import UNKNOWN, clean, render_number, render_share
from autotune.pass_rate import Tally, tally_results
from autotune.trial import EvaluationMeasurement, ProblemResult, Verdict

BASELINE = "baseline"


def summarize_verdicts(known: Sequence[tuple[str, EvaluationMeasurement]]) -> dict[str, Any]:
    """Return a row for each evaluation, and for each problem that was judged differently from the first.

    Args:
        known: evaluations with what they are called, the baseline first.
    """
    seen = {result.verdict for _, evaluation in known for result in evaluation.results}
    verdicts = [verdict for verdict in Verdict if verdict in seen]
    return {
        "names": [verdict.value for verdict in verdicts],
        "rows": [_row(who, evaluation, verdicts) for who, evaluation in known],
        "changed": [change for _, evaluation in known[1:] for change in _find_changes(known[0][1], evaluation)],
        "notes": [f"{who}: {clean(note)}" for who, evaluation in known for note in evaluation.notes],
    }


def _row(who: str, evaluation: EvaluationMeasurement, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    counts = Counter(result.verdict for result in evaluation.results)
    return {
        "who": who,
        "counts": [counts[verdict] for verdict in verdicts],
        "share": render_share(evaluation.pass_at_1),
        "speed": UNKNOWN if evaluation.tokens_per_s is None else render_number(evaluation.tokens_per_s),
        "accept": UNKNOWN if evaluation.accept_length is None else render_number(evaluation.accept_length),
        "is_recommended": who != BASELINE,
    }


def _find_changes(before: EvaluationMeasurement, after: EvaluationMeasurement) -> Iterator[dict[str, str]]:
    """Yield each problem of which another share of answers passed, or whose only answers were judged otherwise."""
    there, here = _group(before), _group(after)
    tallies = (tally_results(before.results), tally_results(after.results))
    for problem in here:
        if problem not in there:
            continue
        one, other = there[problem], here[problem]
        if len(one) == len(other) == 1:
            if one[0].verdict is not other[0].verdict:
                yield _change(problem, one[0].verdict.value, other[0].verdict.value, other)
        elif (tallies[0].get(problem), tallies[1].get(problem)) != (None, None):
            shares = [tally.get(problem) for tally in tallies]
            if _share(shares[0]) != _share(shares[1]):
                yield _change(problem, _say(shares[0]), _say(shares[1]), other)


def _group(evaluation: EvaluationMeasurement) -> Mapping[str, list[ProblemResult]]:
    groups: dict[str, list[ProblemResult]] = {}
    for result in evaluation.results:
        groups.setdefault(result.problem, []).append(result)
    return groups


def _change(problem: str, before: str, after: str, results: Sequence[ProblemResult]) -> dict[str, str]:
    reason = next((result.reason for result in results if result.verdict is not Verdict.PASSED), "")
    return {"problem": clean(problem), "before": before, "after": after, "reason": clean(reason)}


def _share(tally: Tally | None) -> float | None:
    return None if tally is None else tally.share


def _say(tally: Tally | None) -> str:
    return Verdict.NO_ANSWER.value if tally is None else f"{tally.passed} of {tally.answered} passed"
