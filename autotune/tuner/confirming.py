"""After the search: which leaders are booted again beside the baseline, in which order, and when is it over?

What is planned and what each boot was for is stored with the boots, so the next command goes on where this one was cut off.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from autotune.confirmation.due import find_due
from autotune.confirmation.plan import Plan
from autotune.confirmation.verdict import Verdict, judge_plan
from autotune.confirmation.wording import describe_round, describe_verdict
from autotune.study import Study, Suggestion
from autotune.trial import ConfirmationBoot, TrialKind, TrialRecord
from autotune.tuner.timekeeper import Timekeeper


class Runner(Protocol):
    """Runs one trial to its end."""

    def __call__(self, suggestion: Suggestion, *, may_reuse: bool) -> TrialRecord:
        """Boot and measure, or load for long."""
        ...


class Confirming:
    """Runs confirmations of one study.

    Args:
        study: open, and held by this process.
        time: whether there is time for another boot.
        run: runs one trial.
        on_note: told how far it is.
    """

    def __init__(self, study: Study, time: Timekeeper, run: Runner, on_note: Callable[[str], None]) -> None:
        self._study = study
        self._time = time
        self._run = run
        self._on_note = on_note

    def run_after_search(self) -> str:
        """Confirm what the search has found, or go on with what was cut off; say what came out, or nothing."""
        plan = find_due(self._study.trials(), self._study.settings)
        return "" if plan is None else self.confirm(plan)

    def confirm(self, plan: Plan) -> str:
        """Boot until the decision is clear, the boots have ended or there is no more time; say what came out."""
        self._time.plan = plan
        told = 0
        while True:
            self._time.learn()
            verdict = judge_plan(plan, self._study.trials(), self._study.settings)
            if verdict.rounds != told:
                told = verdict.rounds
                self._on_note(describe_round(verdict))
            boot = verdict.next_boot
            if boot is None:
                return self._finish(verdict)
            late = self._time.find_lateness_of_boot()
            if late is not None:
                return f"{late}; the confirmation goes on with the next command"
            self._run(self._suggest(boot), may_reuse=False)

    def _finish(self, verdict: Verdict) -> str:
        """Load the chosen leader for long, if the study wants that; say what came out."""
        soak_s = self._study.settings.soak_s
        if soak_s and verdict.next_soak is not None:
            late = self._time.find_lateness_of_soak(soak_s)
            if late is not None:
                return f"{describe_verdict(verdict)}; {late}; the next command soaks it"
            self._run(self._suggest(verdict.next_soak), may_reuse=True)
            verdict = judge_plan(verdict.plan, self._study.trials(), self._study.settings)
        return describe_verdict(verdict)

    def _suggest(self, boot: ConfirmationBoot) -> Suggestion:
        space, settings = self._study.space, self._study.settings
        leader = None if boot.leader is None else self._study.trial(boot.leader)
        configuration = space.resolve(settings.baseline) if leader is None else leader.configuration
        return Suggestion(configuration, TrialKind.CONFIRMATION, confirmation=boot)
