"""What does a confirmation say: is a leader faster than the baseline, by how much, and is it worth recommending? Pure.

After every round from the second on the test looks. What is compared is the log of the gain that the study's rule
maximises, by fresh boots alone: the boot for which a trial was chosen is lucky. A leader is confirmed when the lower bound of
its gain lies above nothing, at the level of that look (:mod:`autotune.confirmation.spending`), which with several leaders is
shared out among them (Bonferroni). Bounds are those of :func:`autotune.interval.compare_boots`: repeated confidence bounds
(Jennison and Turnbull, Interim analyses: the repeated confidence interval approach, 1989), true at whichever look it ends.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from autotune.baseline import pool_boots
from autotune.confirmation.plan import FIRST_LOOK, Plan, boots_of, find_plans, is_ended
from autotune.confirmation.spending import find_student_levels
from autotune.drift import find_drifts
from autotune.interval import LogRatio, compare_cells, student_quantile
from autotune.objectives import CONCURRENCIES, expected_cells, judge, latest, weight
from autotune.settings import StudySettings
from autotune.trial import Cell, ConfirmationBoot, TrialRecord, TrialState

FUTILE: Final = 0.05
"""Chance of a confirmation in the end below which no further round is worth its boots."""

MOST_INTERRUPTIONS: Final = 3
"""Times that one boot may be cut off before it counts as failed: it may be what ends the tuner."""


class Outcome(Enum):
    """What was found out about a leader."""

    OPEN = "not decided yet"
    """Boots are left, and nothing is clear."""
    CONFIRMED = "confirmed"
    """Faster than the baseline beyond chance."""
    NO_GAIN = "no significant gain"
    """The boots have ended, or the rest of them could hardly prove anything."""
    REFUTED = "refuted"
    """Slower beyond chance, or it breaks a constraint, or it did not survive."""


@dataclass(frozen=True, slots=True)
class LeaderVerdict:
    """What fresh boots say about one leader against the fresh boots of the baseline.

    Attributes:
        trial: number of the leader.
        outcome: of the last look that it took part in.
        reason: one sentence.
        boots: complete fresh boots of it, without those that drifted.
        level: chance that the truth lies beyond one bound of a gain, at that look.
        gain: log of what the study's rule maximises, over the baseline's; ``None`` until both sides were booted.
        gain_c1: log of the speed at C=1 over the baseline's; the same.
        gain_c32: the same at C=32.
        worst: the cell that gains least, and its log ratio; ``None`` until both sides were booted.
    """

    trial: int
    outcome: Outcome
    reason: str
    boots: int = 0
    level: float | None = None
    gain: LogRatio | None = None
    gain_c1: LogRatio | None = None
    gain_c32: LogRatio | None = None
    worst: tuple[Cell, LogRatio] | None = None


@dataclass(frozen=True, slots=True)
class Soak:
    """How the long load ended.

    Attributes:
        trial: number of the leader that was loaded.
        is_survived: it did not crash, lose requests or slow down.
        reason: one sentence.
    """

    trial: int
    is_survived: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """One confirmation as it stands.

    Attributes:
        plan: what was planned.
        leaders: in the order of the plan.
        rounds: that are through.
        boots: that have ended, of leaders and baseline, without the soak.
        baseline_boots: complete fresh boots of the baseline, without those that drifted.
        chosen: number of the confirmed leader with the largest gain, whatever its soak says; ``None`` while there is none.
        is_decided: nothing is left to boot but the soak.
        missing: what the present round has still to boot, in order; ``None`` is the baseline.
        soak: of the chosen one; ``None`` until it has ended.
    """

    plan: Plan
    leaders: tuple[LeaderVerdict, ...]
    rounds: int
    boots: int
    baseline_boots: int
    chosen: int | None
    is_decided: bool
    missing: tuple[int | None, ...] = ()
    soak: Soak | None = None

    @property
    def next_boot(self) -> ConfirmationBoot | None:
        """What is to be booted next; ``None`` when it is decided."""
        return None if self.is_decided else self.plan.boot(self.rounds, self.missing[0])

    @property
    def next_soak(self) -> ConfirmationBoot | None:
        """The soak of the chosen leader; ``None`` while there is none, and when it has ended."""
        if self.chosen is None or self.soak is not None:
            return None
        return self.plan.boot(self.rounds - 1, self.chosen, is_soak=True)

    @property
    def recommended(self) -> int | None:
        """Number of the confirmed leader to recommend; ``None`` while, or because, there is none."""
        return None if self.soak is not None and not self.soak.is_survived else self.chosen

    def of(self, trial: int) -> LeaderVerdict:
        """Return what is said about one leader.

        Raises:
            StopIteration: it is none.
        """
        return next(verdict for verdict in self.leaders if verdict.trial == trial)


def judge_all(trials: Sequence[TrialRecord], settings: StudySettings) -> tuple[Verdict, ...]:
    """Return what every confirmation of a study says, in their order."""
    return tuple(judge_plan(plan, trials, settings) for plan in find_plans(trials))


def judge_plan(plan: Plan, trials: Sequence[TrialRecord], settings: StudySettings) -> Verdict:
    """Return what a confirmation says by now: its looks are taken again, one after the other, each with what it knew then."""
    by_round = _group(plan, trials)
    verdicts = {number: LeaderVerdict(number, Outcome.OPEN, "no round is through yet") for number in plan.leaders}
    levels = find_student_levels(FIRST_LOOK, plan.rounds, plan.alpha / len(plan.leaders))
    through, baseline_boots = 0, 0
    missing: list[int | None] = []
    is_decided = False
    while through < plan.rounds and not is_decided:
        now = by_round[through]
        for number, verdict in verdicts.items():
            if verdict.outcome is Outcome.OPEN and (broken := _find_break(now.get(number))) is not None:
                verdicts[number] = replace(verdict, outcome=broken[0], reason=broken[1])
        missing = [
            who
            for who in plan.order(through)
            if (who is None or verdicts[who].outcome is Outcome.OPEN) and not _has_ended(who, now.get(who))
        ]
        if all(verdict.outcome is not Outcome.OPEN for verdict in verdicts.values()):
            is_decided = True
            break
        if missing:
            break
        through += 1
        boots = _collect(by_round[:through], trials)
        baseline_boots = len(boots.get(None, ()))
        for number, verdict in verdicts.items():
            if verdict.outcome is Outcome.OPEN:
                level = levels[through - FIRST_LOOK] if through >= FIRST_LOOK else None
                verdicts[number] = _look(number, boots, through, level, plan, levels[-1], settings)
        confirmed = any(verdict.outcome is Outcome.CONFIRMED for verdict in verdicts.values())
        open_ = any(verdict.outcome is Outcome.OPEN for verdict in verdicts.values())
        is_decided = confirmed or not open_
    best = max(
        (verdict for verdict in verdicts.values() if verdict.outcome is Outcome.CONFIRMED and verdict.gain is not None),
        key=lambda verdict: -math.inf if verdict.gain is None else verdict.gain.value,
        default=None,
    )
    chosen = None if best is None else best.trial
    return Verdict(
        plan=plan,
        leaders=tuple(verdicts.values()),
        rounds=through,
        boots=sum(is_ended(trial) for trial, boot in boots_of(plan, trials) if not boot.is_soak),
        baseline_boots=baseline_boots,
        chosen=chosen,
        is_decided=is_decided,
        missing=() if is_decided else tuple(missing),
        soak=None if chosen is None else _find_soak(plan, chosen, trials),
    )


_Slot = Sequence[TrialRecord]
"""The trials that were begun for one boot of one round, the last of which counts."""


def _group(plan: Plan, trials: Sequence[TrialRecord]) -> list[dict[int | None, list[TrialRecord]]]:
    """Return for each round, and each of baseline and leaders, the trials that were begun for it."""
    rounds: list[dict[int | None, list[TrialRecord]]] = [{} for _round in range(plan.rounds)]
    for trial, boot in boots_of(plan, trials):
        if not boot.is_soak:
            rounds[boot.round].setdefault(boot.leader, []).append(trial)
    return rounds


def _has_ended(who: int | None, slot: _Slot | None) -> bool:
    """Whether a boot is over; one of the baseline is only when it is complete, because without it nothing can be said."""
    if slot is None:
        return False
    return slot[-1].state is TrialState.COMPLETE if who is None else is_ended(slot[-1])


def _is_given_up(slot: _Slot) -> bool:
    return sum(trial.state is TrialState.INTERRUPTED for trial in slot) >= MOST_INTERRUPTIONS


def _find_break(slot: _Slot | None) -> tuple[Outcome, str] | None:
    """Say why a leader is out, if its boot says so by itself."""
    if slot is None:
        return None
    last = slot[-1]
    if last.state is TrialState.INFEASIBLE:
        return Outcome.REFUTED, f"booted again as trial {last.number} it was infeasible: {last.reason}"
    if last.state in (TrialState.FAILED, TrialState.DUPLICATE):
        return Outcome.NO_GAIN, f"booted again as trial {last.number} it could not be measured: {last.reason}"
    if not is_ended(last) and _is_given_up(slot):
        return (
            Outcome.NO_GAIN,
            f"booting it again was cut off {MOST_INTERRUPTIONS} times, the last as trial {last.number}",
        )
    return None


def _collect(
    rounds: Sequence[Mapping[int | None, _Slot]], trials: Sequence[TrialRecord]
) -> dict[int | None, list[TrialRecord]]:
    """Return the complete boots of the rounds that are through, without those that had drifted by what was known then."""
    last = max(trial.number for slots in rounds for slot in slots.values() for trial in slot)
    drifts = find_drifts([trial for trial in trials if trial.number <= last])
    boots: dict[int | None, list[TrialRecord]] = {}
    for slots in rounds:
        for who, slot in slots.items():
            if slot[-1].state is TrialState.COMPLETE and slot[-1].number not in drifts:
                boots.setdefault(who, []).append(slot[-1])
    return boots


def _look(
    number: int,
    boots: Mapping[int | None, Sequence[TrialRecord]],
    through: int,
    level: float | None,
    plan: Plan,
    last_level: float,
    settings: StudySettings,
) -> LeaderVerdict:
    """Judge one leader after a round; before the first look (no level) nothing is decided."""
    ours, theirs = boots.get(number, ()), boots.get(None, ())
    is_last = through == plan.rounds
    if not ours or not theirs:
        why = "no boot that did not drift is left to compare"
        return LeaderVerdict(number, Outcome.NO_GAIN if is_last else Outcome.OPEN, why, len(ours))
    mine, base = pool_boots(ours, settings), pool_boots(theirs, settings)
    shown_level = last_level if level is None else level
    gains = [_compare(mine, base, rule, shown_level, settings) for rule in (plan.rule, "c1", "c32")]
    outcome, reason = Outcome.OPEN, f"{through} of {plan.rounds} rounds are through"
    if level is not None:
        outcome, reason = _decide(gains[0], level, through, plan, last_level)
        loss = _find_loss(mine, base, gains[1:], settings)
        if loss is not None and outcome is not Outcome.REFUTED:
            outcome, reason = Outcome.REFUTED, loss
    return LeaderVerdict(
        number,
        outcome,
        reason,
        len(ours),
        shown_level,
        gains[0],
        gains[1],
        gains[2],
        _find_worst(mine, base, shown_level),
    )


def _compare(ours: TrialRecord, theirs: TrialRecord, rule: str, level: float, settings: StudySettings) -> LogRatio:
    """Return the log of what a rule maximises: of one speed, or the mean of both."""
    concurrencies = {"balanced": CONCURRENCIES, "c1": CONCURRENCIES[:1], "c32": CONCURRENCIES[1:]}[rule]
    mine, other = latest(ours.cells), latest(theirs.cells)
    cells = [cell for cell in expected_cells(settings) if cell.concurrency in concurrencies]
    totals = {
        concurrency: math.fsum(weight(cell, settings) for cell in cells if cell.concurrency == concurrency)
        for concurrency in concurrencies
    }
    weights = [weight(cell, settings) / totals[cell.concurrency] for cell in cells]
    return compare_cells([(mine[cell], other[cell]) for cell in cells], weights, level)


def _decide(gain: LogRatio, level: float, through: int, plan: Plan, last_level: float) -> tuple[Outcome, str]:
    """Decide by the bounds of the gain at the level of this look."""
    is_last = through == plan.rounds
    if not gain.degrees or gain.low is None or gain.high is None:
        why = "too few boots are left to show how far they lie apart"
        return (Outcome.NO_GAIN, why) if is_last else (Outcome.OPEN, why)
    if gain.low > 0:
        return Outcome.CONFIRMED, f"at least {math.expm1(gain.low):+.1%} after {through} of {plan.rounds} rounds"
    if gain.high < 0:
        return Outcome.REFUTED, f"slower than the baseline: at most {math.expm1(gain.high):+.1%}"
    between = f"between {math.expm1(gain.low):+.1%} and {math.expm1(gain.high):+.1%}"
    if is_last:
        return Outcome.NO_GAIN, f"{between} after all {plan.rounds} rounds"
    chance = predict(gain, level, through, plan.rounds, last_level)
    if chance < FUTILE:
        return (
            Outcome.NO_GAIN,
            f"{between} after {through} of {plan.rounds} rounds, and the rest would prove a gain with a chance of {chance:.0%}",
        )
    return Outcome.OPEN, f"{between} after {through} of {plan.rounds} rounds"


def predict(gain: LogRatio, level: float, through: int, rounds: int, last_level: float) -> float:
    """Return the chance that the last look confirms, by what was seen so far and nothing else (a flat prior).

    Seen so far is a gain ``d`` with standard error ``s`` after ``k`` of ``K`` rounds; then the one after all of them has the mean
    ``d`` and the variance ``s^2 (K - k) / K``, and needs ``q s sqrt(k / K)`` (predictive power: Spiegelhalter, Freedman and Blackburn
    1986).

    Args:
        gain: with its bounds at ``level``.
        level: of the look that was just taken.
        through: rounds that are through, fewer than all.
        rounds: all rounds.
        last_level: of the last look.
    """
    from scipy.special import stdtr  # noqa: PLC0415  # slow to import, and only a confirmation needs it

    if gain.high is None or not gain.degrees:
        return 1.0
    error = (gain.high - gain.value) / student_quantile(gain.degrees, level)
    if error == 0:
        return float(gain.value > 0)
    degrees_then = gain.degrees * (rounds - 1) // (through - 1)
    needed = student_quantile(degrees_then, last_level) * error * math.sqrt(through / rounds)
    return float(stdtr(gain.degrees, (gain.value - needed) / (error * math.sqrt((rounds - through) / rounds))))


def _find_loss(
    ours: TrialRecord, theirs: TrialRecord, gains: Sequence[LogRatio], settings: StudySettings
) -> str | None:
    """Say which loss, beyond chance, forbids to recommend a leader however large its gain is."""
    allowed = settings.export.max_loss
    for concurrency, gain in zip(CONCURRENCIES, gains, strict=True):
        if gain.degrees and gain.high is not None and gain.high < math.log1p(-allowed):
            return f"{math.expm1(gain.high):+.1%} at best at C={concurrency}; a loss of {allowed:.0%} is allowed"
    return judge(ours, theirs, settings).violation


def _find_worst(ours: TrialRecord, theirs: TrialRecord, level: float) -> tuple[Cell, LogRatio] | None:
    """Return the cell that gains least."""
    mine, other = latest(ours.cells), latest(theirs.cells)
    ratios = [(cell, compare_cells([(mine[cell], other[cell])], [1.0], level)) for cell in mine if cell in other]
    return min(ratios, key=lambda each: each[1].value, default=None)


def _find_soak(plan: Plan, leader: int, trials: Sequence[TrialRecord]) -> Soak | None:
    """Return how the last soak of a leader ended; ``None`` until one has."""
    soaks = [trial for trial, boot in boots_of(plan, trials) if boot.is_soak and boot.leader == leader]
    if not soaks:
        return None
    last = soaks[-1]
    if last.state is TrialState.COMPLETE:
        return Soak(leader, is_survived=True, reason=last.reason or "it survived the soak")
    if is_ended(last) or _is_given_up(soaks):
        return Soak(leader, is_survived=False, reason=f"the soak ended as {last.state.value}: {last.reason}")
    return None
