"""Which trials are booted again beside the baseline, how often, and in which order? Pure.

Every round boots the baseline and each leader once, and the next round goes the other way round (A B, B A, A B): a machine that
gets slower by and by then favours none of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from autotune.baseline import measure_spread, pool_baseline, with_one_baseline
from autotune.interval import ASSUMED_SPREAD
from autotune.pareto import rank
from autotune.settings import StudySettings
from autotune.trial import ConfirmationBoot, TrialRecord, TrialState

FIRST_LOOK: Final = 2
"""Rounds before anything can be decided: one boot of each shows nothing of how far boots lie apart."""

_MOST_LEADERS: Final = 3
_ROUNDS_FOR_MORE: Final = 3
"""Rounds that must be left for each before another leader joins."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One confirmation as it was planned.

    Attributes:
        number: of the confirmation in the study, from 0.
        leaders: numbers of the trials that are compared with the baseline, the recommended one first.
        rounds: how often each of them and the baseline is booted, at most.
        alpha: chance that a leader without any gain is confirmed, over all leaders and looks together.
        rule: ``balanced``, ``c1`` or ``c32``: which gain is looked at.
    """

    number: int
    leaders: tuple[int, ...]
    rounds: int
    alpha: float
    rule: str

    @property
    def width(self) -> int:
        """How many are booted in a round: the leaders and the baseline."""
        return len(self.leaders) + 1

    @property
    def boots(self) -> int:
        """How many boots it takes at most."""
        return self.rounds * self.width

    def order(self, round_number: int) -> tuple[int | None, ...]:
        """Return what a round boots, in order; ``None`` is the baseline.

        The last round ends with the recommended trial, whose server then is there for the soak.

        >>> plan = Plan(0, (7,), 3, 0.05, "balanced")
        >>> [plan.order(number) for number in range(3)]
        [(None, 7), (7, None), (None, 7)]
        """
        forth = (None, *reversed(self.leaders))
        return forth if (self.rounds - 1 - round_number) % 2 == 0 else forth[::-1]

    def boot(self, round_number: int, leader: int | None, *, is_soak: bool = False) -> ConfirmationBoot:
        """Return what is stored with one boot."""
        return ConfirmationBoot(
            self.number, self.leaders, self.rounds, self.alpha, self.rule, round_number, leader, is_soak
        )


def find_plans(trials: Sequence[TrialRecord]) -> tuple[Plan, ...]:
    """Return every confirmation of a study in its order, by what is stored with its boots."""
    plans: dict[int, Plan] = {}
    for trial in trials:
        if trial.confirmation is not None:
            boot = trial.confirmation
            plans[boot.confirmation] = Plan(boot.confirmation, boot.leaders, boot.rounds, boot.alpha, boot.rule)
    return tuple(plans[number] for number in sorted(plans))


def boots_of(plan: Plan, trials: Sequence[TrialRecord]) -> Iterator[tuple[TrialRecord, ConfirmationBoot]]:
    """Yield the trials of a confirmation with what they are in it, by number."""
    for trial in trials:
        if trial.confirmation is not None and trial.confirmation.confirmation == plan.number:
            yield trial, trial.confirmation


def is_stale(plan: Plan, trials: Sequence[TrialRecord]) -> bool:
    """Whether other trials were measured since a confirmation began, so that its leaders may be others now."""
    first = min(trial.number for trial, _boot in boots_of(plan, trials))
    return any(trial.is_counted and trial.number > first for trial in trials)


def choose_leaders(
    trials: Sequence[TrialRecord], settings: StudySettings, boots: int, *, without: frozenset[int] = frozenset()
) -> tuple[int, ...]:
    """Return the trials that are worth booting again, the one that the study's rule chooses first; none when none is ahead.

    A near tie joins where enough boots are left for each: a point of the front that the rule allows and whose merit lies
    within one standard deviation of a difference of two boots from the best.

    Args:
        trials: all trials.
        settings: the study.
        boots: how many there may be in all, the baseline's among them.
        without: numbers of trials that are out of the question.
    """
    baseline = pool_baseline(trials, settings)
    if baseline is None:
        return ()
    points = [trial for trial in with_one_baseline(trials, settings) if trial.number not in without]
    ranked = [each for each in rank(points, baseline, settings.export) if each.trial.kind.counts]
    if not ranked:
        return ()
    spread = measure_spread(trials, settings)
    near = math.sqrt(2) * (ASSUMED_SPREAD if spread is None else spread.deviation)
    most = max(1, min(_MOST_LEADERS, boots // _ROUNDS_FOR_MORE - 1))
    close = [each for each in ranked if math.log(ranked[0].merit / each.merit) <= near]
    return tuple(each.trial.number for each in close[:most])


def make_plan(trials: Sequence[TrialRecord], settings: StudySettings, leaders: Sequence[int], boots: int) -> Plan:
    """Return the next confirmation of a study.

    Raises:
        ValueError: the boots are too few to decide anything.
    """
    rounds = boots // (len(leaders) + 1)
    if rounds < FIRST_LOOK:
        raise ValueError(f"{boots} boots are too few for the baseline and {len(leaders)} trials, {FIRST_LOOK} of each")
    number = max((plan.number for plan in find_plans(trials)), default=-1) + 1
    return Plan(number, tuple(leaders), rounds, settings.confirmation.alpha, settings.export.rule)


def is_ended(trial: TrialRecord) -> bool:
    """Whether a boot of a confirmation is over, for better or worse; an interrupted one is booted again in its place."""
    return trial.state.is_final and trial.state is not TrialState.INTERRUPTED
