"""Which trial is recommended when the leaders were booted again? Pure.

What a confirmation has refuted, or has found no significant gain in, is not recommended; what it has confirmed stays until
another trial is confirmed. Without a confirmation the study's rule decides alone (:func:`autotune.pareto.choose`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from autotune.confirmation.plan import boots_of
from autotune.confirmation.verdict import LeaderVerdict, Outcome, Verdict
from autotune.pareto import Choice, choose
from autotune.settings import ExportSettings
from autotune.trial import TrialRecord


@dataclass(frozen=True, slots=True)
class Statement:
    """What the last confirmation that a trial took part in says about it.

    Attributes:
        leader: the verdict.
        verdict: of the whole confirmation.
    """

    leader: LeaderVerdict
    verdict: Verdict

    @property
    def is_recommended(self) -> bool:
        """True when it is confirmed, was the best of those, and survived its soak, if it had one."""
        return self.verdict.recommended == self.leader.trial

    @property
    def outcome(self) -> Outcome:
        """What was found out; a soak that was not survived refutes what was confirmed."""
        has_died = self._is_chosen and self.verdict.soak is not None and not self.verdict.soak.is_survived
        return Outcome.REFUTED if has_died else self.leader.outcome

    @property
    def _is_chosen(self) -> bool:
        return self.verdict.chosen == self.leader.trial

    def __str__(self) -> str:
        """Say it in a sentence without an end."""
        said = f"{describe_gain(self.leader)}{self.leader.reason}"
        soak = self.verdict.soak if self._is_chosen else None
        return said if soak is None else f"{said}; {soak.reason}"


def describe_gain(leader: LeaderVerdict) -> str:
    """Say the gain in fresh boots; nothing where none is known."""
    return "" if leader.gain is None else f"{math.expm1(leader.gain.value):+.1%} in fresh boots, "


def find_statement(trial: int, verdicts: Sequence[Verdict]) -> Statement | None:
    """Return what the last concluded confirmation says about a trial; ``None`` where it took part in none."""
    for verdict in reversed(verdicts):
        if verdict.is_decided and trial in verdict.plan.leaders:
            return Statement(verdict.of(trial), verdict)
    return None


def recommend(
    points: Sequence[TrialRecord],
    baseline: TrialRecord,
    trials: Sequence[TrialRecord],
    verdicts: Sequence[Verdict],
    rule: ExportSettings,
) -> Choice:
    """Choose the trial to recommend.

    Confirmations by another rule than the present one are left aside: they asked another question.

    Args:
        points: one record for each configuration, its boots pooled.
        baseline: the pooled baseline.
        trials: all trials.
        verdicts: of all confirmations, in their order.
        rule: the study's export settings.
    """
    known = [verdict for verdict in verdicts if verdict.is_decided and verdict.plan.rule == rule.rule]
    if not known:
        return choose(points, baseline, rule)
    statements = {
        number: statement
        for number in {number for verdict in known for number in verdict.plan.leaders}
        if (statement := find_statement(number, known)) is not None
    }
    doubted = {number for number, statement in statements.items() if not statement.is_recommended}
    by_rule = choose([point for point in points if point.number not in doubted], baseline, rule)
    began = min(trial.number for trial, _boot in boots_of(known[-1].plan, trials))
    is_newer = by_rule.trial.number > began
    confirmed = [verdict.recommended for verdict in known if verdict.recommended is not None]
    standing = [number for number in confirmed if statements[number].is_recommended]
    if standing:
        number = standing[-1]
        tail = "" if not is_newer else f"; trial {by_rule.trial.number}, measured since, looks faster: confirm it too"
        chosen = next(point for point in points if point.number == number)
        return Choice(chosen, f"trial {number} is confirmed against the baseline: {statements[number]}{tail}")
    if is_newer:
        return by_rule
    said = "; ".join(
        f"trial {number}: {statements[number].outcome.value}, {statements[number]}" for number in known[-1].plan.leaders
    )
    return Choice(baseline, f"the baseline stays: {said}")
