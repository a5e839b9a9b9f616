"""Trials of an invented study with a confirmation: speeds are chosen by the test, prompts gain all the same."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from autotune.confirmation.plan import Plan
from autotune.trial import Configuration, TrialKind, TrialRecord, TrialState
from tests.records import make_cell, make_trial

BASELINE: Configuration = {"budget": 16, "topk": 4, "window": None}
PLAN = Plan(0, (1,), 3, 0.05, "balanced")


def make_boot(
    number: int,
    c1: float,
    c32: float,
    *,
    kind: TrialKind = TrialKind.SEARCH,
    configuration: Configuration | None = None,
    prompts: int = 8,
) -> TrialRecord:
    """A complete trial whose prompts were all equally fast."""
    cells = tuple(
        make_cell(concurrency, speed, prompts={f"p{index}": math.log(speed) for index in range(prompts)})
        for concurrency, speed in ((32, c32), (1, c1))
    )
    trial = make_trial(
        number, c1, c32, kind=kind, configuration=configuration or {"budget": number, "topk": 4, "window": None}
    )
    return replace(trial, cells=cells)


def make_baseline(number: int = 0, c1: float = 100.0, c32: float = 400.0) -> TrialRecord:
    """A boot of the baseline in the search."""
    return make_boot(number, c1, c32, kind=TrialKind.BASELINE, configuration=BASELINE)


def confirm(
    plan: Plan,
    rounds: Sequence[dict[int | None, float]],
    *,
    first: int = 100,
    c32: float = 4.0,
) -> list[TrialRecord]:
    """Return the boots of rounds in the order of the plan.

    Args:
        plan: of the confirmation.
        rounds: for each round the speed at C=1 of each leader that was booted, of the baseline at ``None``.
        first: number of the first boot.
        c32: the speed at C=32 over that at C=1.
    """
    trials: list[TrialRecord] = []
    for index, speeds in enumerate(rounds):
        for who in plan.order(index):
            if who in speeds:
                boot = make_boot(first + len(trials), speeds[who], c32 * speeds[who], kind=TrialKind.CONFIRMATION)
                trials.append(replace(boot, confirmation=plan.boot(index, who), evaluation=None))
    return trials


def ended(trial: TrialRecord, state: TrialState, reason: str | None = None) -> TrialRecord:
    """The same boot, ended otherwise."""
    return replace(trial, state=state, reason=reason)


def soaked(plan: Plan, leader: int, number: int, state: TrialState, reason: str) -> TrialRecord:
    """A soak of a leader."""
    boot = make_boot(number, 1.0, 1.0, kind=TrialKind.CONFIRMATION)
    return replace(
        boot,
        confirmation=plan.boot(plan.rounds - 1, leader, is_soak=True),
        cells=boot.cells[:1],
        state=state,
        reason=reason,
    )


def numbers(trials: Iterable[TrialRecord]) -> list[int]:
    """Numbers of trials, in order."""
    return [trial.number for trial in trials]
