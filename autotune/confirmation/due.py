"""Which confirmation is to be run now: the one that was cut off, or a new one, and of which trials? Pure."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.confirmation.plan import Plan, choose_leaders, find_plans, is_stale, make_plan
from autotune.confirmation.recommendation import find_statement
from autotune.confirmation.verdict import judge_all, judge_plan
from autotune.settings import CONFIRMATION_BOOTS, StudySettings
from autotune.trial import TrialRecord


def find_due(trials: Sequence[TrialRecord], settings: StudySettings) -> Plan | None:
    """Return the confirmation that comes after the search; ``None`` when there is nothing to confirm, or it is over.

    Leaders that a confirmation has judged are not asked about again by themselves: whoever repeats a test until it says yes
    gets a yes.
    """
    boots = settings.confirmation_boots
    if not boots:
        return None
    plans = find_plans(trials)
    if plans and not is_stale(plans[-1], trials):
        return plans[-1] if _is_open(plans[-1], trials, settings) else None
    verdicts = judge_all(trials, settings)
    statements = {
        number: statement
        for plan in plans
        for number in plan.leaders
        if (statement := find_statement(number, verdicts)) is not None
    }
    doubted = frozenset(number for number, statement in statements.items() if not statement.is_recommended)
    leaders = choose_leaders(trials, settings, boots, without=doubted)
    if not leaders or leaders[0] in statements:
        return None
    return make_plan(trials, settings, leaders, boots)


def find_asked(
    trials: Sequence[TrialRecord], settings: StudySettings, leaders: Sequence[int], boots: int | None
) -> Plan | None:
    """Return the confirmation that somebody asks for: the one that was cut off, or a new one; ``None`` without a leader.

    Args:
        trials: all trials.
        settings: the study.
        leaders: numbers of trials; none: those that the study's rule chooses.
        boots: at most; ``None``: as many as the study says, else the usual number.

    Raises:
        ValueError: the boots are too few to decide anything.
    """
    plans = find_plans(trials)
    if plans and not is_stale(plans[-1], trials):
        last = plans[-1]
        is_meant = tuple(leaders) in ((), last.leaders) and (boots is None or boots // last.width == last.rounds)
        if is_meant and _is_open(last, trials, settings):
            return last
    wanted = boots or settings.confirmation_boots or CONFIRMATION_BOOTS
    chosen = tuple(leaders) or choose_leaders(trials, settings, wanted)
    return make_plan(trials, settings, chosen, wanted) if chosen else None


def _is_open(plan: Plan, trials: Sequence[TrialRecord], settings: StudySettings) -> bool:
    """Whether boots are left, or the soak that the study wants."""
    verdict = judge_plan(plan, trials, settings)
    return not verdict.is_decided or (settings.soak_s > 0 and verdict.next_soak is not None)
