"""How a confirmation reads in a sentence (pure)."""

from __future__ import annotations

import math

from autotune.confirmation.recommendation import Statement, find_statement
from autotune.confirmation.verdict import LeaderVerdict, Outcome, Verdict
from autotune.interval import LogRatio


def describe_verdict(verdict: Verdict) -> str:
    """Say in one sentence, without an end, what came out."""
    if not verdict.is_decided:
        return f"the confirmation is open: {describe_round(verdict)}"
    said = "; ".join(
        f"trial {leader.trial}: {statement.outcome.value}, {statement}"
        for leader in verdict.leaders
        if (statement := find_statement(leader.trial, [verdict])) is not None and _is_worth_saying(statement, verdict)
    )
    if verdict.recommended is not None:
        return said
    return f"{said}; the baseline stays"


def _is_worth_saying(statement: Statement, verdict: Verdict) -> bool:
    """Where one leader is confirmed, those that were then left undecided need no word."""
    return verdict.recommended is None or statement.outcome is not Outcome.OPEN


def describe_round(verdict: Verdict) -> str:
    """Say how far it is, and what fresh boots say by now."""
    leaders = "; ".join(f"trial {leader.trial} {_say_gain(leader)}" for leader in verdict.leaders)
    return f"{verdict.rounds} of {verdict.plan.rounds} rounds of boots are through: {leaders}"


def _say_gain(leader: LeaderVerdict) -> str:
    if leader.gain is None:
        return f"{leader.outcome.value}: {leader.reason}"
    return f"{render_log_gain(leader.gain)}, {leader.outcome.value}"


def render_log_gain(gain: LogRatio | None) -> str:
    """Write a log ratio as a change in percent, with its bounds where they hold what lies between boots.

    >>> render_log_gain(LogRatio(0.05, 0.01, 0.09, degrees=4))
    '+5.1% (+1.0 to +9.4)'
    >>> render_log_gain(LogRatio(0.05, 0.01, 0.09)), render_log_gain(None)
    ('+5.1%', '-')
    """
    if gain is None:
        return "-"
    if not gain.degrees or gain.low is None or gain.high is None:
        return f"{math.expm1(gain.value):+.1%}"
    return f"{math.expm1(gain.value):+.1%} ({100 * math.expm1(gain.low):+.1f} to {100 * math.expm1(gain.high):+.1f})"
