"""Which trials does no other beat, how large is the front, and which point is recommended? Pure.

All objectives are maximised. A value that is unknown, infinite or not a number is never compared: such a trial is in no
front. Equal points do not dominate each other and are one point of the front, with all their trials.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from autotune.settings import ExportSettings
from autotune.trial import Objectives, TrialRecord, TrialState

Point = tuple[float, ...]
"""Tokens/s at C=1, tokens/s at C=32 and, where it is an axis, pass@1."""


@dataclass(frozen=True, slots=True)
class FrontPoint:
    """One point of the front and who reached it, by trial number."""

    values: Point
    trials: tuple[TrialRecord, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """The recommended trial and the sentence that says why; ``trial`` is the baseline when nothing beats it."""

    trial: TrialRecord
    reason: str


@dataclass(frozen=True, slots=True)
class Ranked:
    """A point that the rule allows: its first trial, what the rule maximises, and both speeds over the baseline's."""

    trial: TrialRecord
    merit: float
    ratios: tuple[float, float]


def dominates(a: Point, b: Point) -> bool:
    """Whether ``a`` is nowhere worse and somewhere better than ``b``.

    >>> dominates((2.0, 1.0), (1.0, 1.0)), dominates((1.0, 1.0), (1.0, 1.0)), dominates((2.0, 0.0), (1.0, 1.0))
    (True, False, False)
    """
    return all(x >= y for x, y in zip(a, b, strict=True)) and a != b


def point_of(objectives: Objectives, *, with_pass_at_1: bool = False) -> Point | None:
    """Return the objectives as a point; ``None`` when one is unknown, infinite or not a number."""
    figures = [objectives.tokens_per_s_c1, objectives.tokens_per_s_c32]
    if with_pass_at_1:
        figures.append(objectives.pass_at_1)
    values = [figure.value for figure in figures if figure is not None and math.isfinite(figure.value)]
    return tuple(values) if len(values) == len(figures) else None


def front(trials: Sequence[TrialRecord], *, with_pass_at_1: bool = False) -> tuple[FrontPoint, ...]:
    """Return the points that no other dominates, fastest at C=1 first.

    Only COMPLETE trials are looked at: pruned, infeasible, failed and open ones are never on the front, whatever they
    measured, and dominate nothing.
    """
    reached: dict[Point, list[TrialRecord]] = {}
    for trial in trials:
        point = point_of(trial.objectives, with_pass_at_1=with_pass_at_1)
        if trial.state is TrialState.COMPLETE and point is not None:
            reached.setdefault(point, []).append(trial)
    best = [point for point in reached if not any(dominates(other, point) for other in reached)]
    return tuple(
        FrontPoint(point, tuple(sorted(reached[point], key=lambda trial: trial.number)))
        for point in sorted(best, reverse=True)
    )


def hypervolume(points: Sequence[Point], reference: Point) -> float:
    """Return the area that ``points`` dominate above ``reference``, in the product of the units of two objectives.

    Points that are not above the reference in both add nothing. No points have no area.

    >>> hypervolume([(3.0, 1.0), (1.0, 3.0)], (0.0, 0.0))
    5.0

    Raises:
        ValueError: not two objectives, or a value that is not finite.
    """
    for point in (*points, reference):
        if len(point) != 2 or not all(math.isfinite(value) for value in point):
            raise ValueError(f"{point} is not a finite point of two objectives")
    area, height = 0.0, reference[1]
    for x, y in sorted(points, reverse=True):
        if x > reference[0] and y > height:
            area += (x - reference[0]) * (y - height)
            height = y
    return area


def reference_point(baseline: TrialRecord, plain: TrialRecord | None) -> Point | None:
    """Return the fixed reference of the hypervolume: per objective the worse of baseline and plain, minus 10 %.

    Args:
        baseline: the pooled baseline.
        plain: a complete trial of plain decoding; ``None`` where the space has none.

    Returns:
        ``None`` while the baseline's speeds are unknown.
    """
    known = [point_of(trial.objectives) for trial in (baseline, plain) if trial is not None]
    if known[0] is None:
        return None
    return tuple(0.9 * min(values) for values in zip(*(point for point in known if point is not None), strict=True))


def choose(trials: Sequence[TrialRecord], baseline: TrialRecord, rule: ExportSettings) -> Choice:
    """Choose one point of the front by the study's rule.

    ``balanced`` takes the largest geometric mean of the two gains over the baseline, ``c1`` and ``c32`` the fastest at
    that concurrency. A point that loses more than ``rule.max_loss`` at either concurrency is never chosen, and neither is
    one that gains nothing; equal merits go to the lower trial number.

    Args:
        trials: all trials.
        baseline: the pooled baseline.
        rule: the study's export settings.
    """
    if point_of(baseline.objectives) is None:
        return Choice(baseline, "the baseline stays: its own speeds are not known yet")
    ranked = rank(trials, baseline, rule)
    limit = f"losing at most {rule.max_loss:.0%} at either concurrency"
    if not ranked:
        refused = _count_refused(trials, baseline, rule)
        why = ""
        if refused == 1:
            why = "; 1 point of the front that is faster at one concurrency loses more at the other"
        elif refused:
            why = f"; {refused} points of the front that are faster at one concurrency lose more at the other"
        return Choice(baseline, f"the baseline stays: no trial beats it by the rule {rule.rule!r} while {limit}{why}")
    best = ranked[0]
    goal = {
        "balanced": "the largest geometric mean of both gains",
        "c1": "the fastest at C=1",
        "c32": "the fastest at C=32",
    }[rule.rule]
    return Choice(
        best.trial,
        f"trial {best.trial.number} is {goal} on the front while {limit}: "
        f"{best.ratios[0] - 1:+.1%} at C=1 and {best.ratios[1] - 1:+.1%} at C=32 against the baseline",
    )


def rank(trials: Sequence[TrialRecord], baseline: TrialRecord, rule: ExportSettings) -> tuple[Ranked, ...]:
    """Return the points of the front that the rule may choose, as :func:`choose` says, best first."""
    ranked = [
        Ranked(point.trials[0], merit, ratios)
        for point, ratios in _compare_front(trials, baseline)
        if min(ratios) >= 1 - rule.max_loss and (merit := merit_of(ratios, rule.rule)) > 1
    ]
    return tuple(sorted(ranked, key=lambda each: (-each.merit, each.trial.number)))


def _count_refused(trials: Sequence[TrialRecord], baseline: TrialRecord, rule: ExportSettings) -> int:
    return sum(min(ratios) < 1 - rule.max_loss for _point, ratios in _compare_front(trials, baseline))


def _compare_front(
    trials: Sequence[TrialRecord], baseline: TrialRecord
) -> list[tuple[FrontPoint, tuple[float, float]]]:
    """Return every point of the front with both of its speeds over the baseline's; none while these are unknown."""
    base = point_of(baseline.objectives)
    if base is None:
        return []
    return [(point, (point.values[0] / base[0], point.values[1] / base[1])) for point in front(trials)]


def merit_of(ratios: tuple[float, float], rule: str) -> float:
    """Return what a rule maximises, from both speeds over the baseline's; 1 is the baseline."""
    return {"balanced": math.sqrt(ratios[0] * ratios[1]), "c1": ratios[0], "c32": ratios[1]}[rule]
