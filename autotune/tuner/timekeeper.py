"""Where a night stands: what was counted, how long things take, and whether there is time for another boot."""

from __future__ import annotations

from typing import Final

from autotune.baseline import count_baseline_boots
from autotune.clock import Clock
from autotune.confirmation.due import find_due
from autotune.confirmation.plan import Plan
from autotune.confirmation.verdict import judge_plan
from autotune.eta import learn_durations
from autotune.events import Progress
from autotune.study import Study
from autotune.trial import TrialKind
from autotune.tuner.interruption import OutOfTime
from autotune.tuner.limits import Limits

BASELINE_BOOTS: Final = 3
"""Boots of the baseline over a study: fewer show nothing about the noise between boots."""

_FEWEST_TRIALS_FOR_MIDDLE = 4

SHARE_FOR_CONFIRMATION: Final = 1 / 3
"""Of the time of a command, kept for the confirmation of a leader; what does not fit is left to the next command."""


class Timekeeper:
    """Watches the limits of one command.

    Args:
        study: its history teaches how long things take.
        limits: when to end.
        clock: where times come from.

    Attributes:
        trials: all trials of the study when it was last looked at.
        counted: trials that used up one of ``--trials``.
        baselines: complete boots of the baseline, those of confirmations among them.
        restores_server: whether a server must run again afterwards, which takes a boot.
        is_touched: whether a server was stopped or started, so that there is something to restore.
        is_binding: False while the host is restored, which nothing may cut short.
        plan: the confirmation that is under way; ``None`` while the search goes on.
    """

    def __init__(self, study: Study, limits: Limits, clock: Clock) -> None:
        self._study = study
        self._limits = limits
        self._clock = clock
        self._started_s = clock.monotonic()
        self._trial_started_s: float | None = None
        self._kind: TrialKind | None = None
        self.plan: Plan | None = None
        self.restores_server = False
        self.is_touched = False
        self.is_binding = True
        self.learn()

    def learn(self) -> None:
        """Look at the study again."""
        view = self._study.view()
        self._durations = learn_durations(view.trials)
        self.trials = view.trials
        self.counted = view.counted
        self.baselines = count_baseline_boots(view.trials)
        due = self.plan or find_due(view.trials, view.settings)
        self._has_leader = due is not None
        self._boots_left, self._soak_left_s = self._look_ahead(due)

    def _look_ahead(self, plan: Plan | None) -> tuple[int, float]:
        """Return how many boots a confirmation will take at most from now on, and its soak in seconds."""
        settings = self._study.settings
        if plan is None:
            has_search_left = self._limits.trials is not None and self.counted < self._limits.trials
            boots = settings.confirmation_boots if has_search_left else 0
            return boots, settings.soak_s if boots else 0.0
        verdict = judge_plan(plan, self.trials, settings)
        is_soaked = verdict.is_decided and verdict.next_soak is None
        return (0 if verdict.is_decided else plan.boots - verdict.boots), 0.0 if is_soaked else settings.soak_s

    def begin_trial(self, kind: TrialKind) -> tuple[float | None, TrialKind | None]:
        """Start to time a trial; return what :meth:`end_trial` takes back when it was begun inside another."""
        outer = self._trial_started_s, self._kind
        self._trial_started_s, self._kind = self._clock.monotonic(), kind
        return outer

    def end_trial(self, outer: tuple[float | None, TrialKind | None]) -> None:
        """Stop timing a trial."""
        self._trial_started_s, self._kind = outer

    def is_time_for_baseline(self) -> bool:
        """Whether the baseline should be booted between trials now: halfway, while too few boots are known."""
        if self.baselines + 1 >= BASELINE_BOOTS:
            return False
        trials = self._limits.trials
        if trials:
            return trials >= _FEWEST_TRIALS_FOR_MIDDLE and self.counted >= trials / 2
        left_s = self._left_s()
        return left_s is not None and self.counted > 1 and left_s <= self._elapsed_s()

    def is_baseline_wanted_last(self) -> bool:
        """Whether the baseline should be measured once more at the end."""
        return 0 < self.baselines < BASELINE_BOOTS and self.counted > 1

    def find_lateness(self) -> str | None:
        """Return why no trial may start any more, if time forbids it; where a leader is known, time is kept to confirm it."""
        kept_s = 0.0
        if self._has_leader and (left_s := self._left_s()) is not None:
            wanted_s = self._durations.confirming_s(self._boots_left, self._soak_left_s) or 0.0
            kept_s = min(wanted_s, SHARE_FOR_CONFIRMATION * (self._elapsed_s() + left_s))
        what = "another trial, the confirmation and the restore" if kept_s else "another trial and the restore"
        return self._find_lateness(what, self._needed_s() + kept_s)

    def find_lateness_of_boot(self) -> str | None:
        """Return why no boot of a confirmation may start any more, if time forbids it."""
        return self._find_lateness("another boot and the restore", self._needed_s())

    def find_lateness_of_soak(self, soak_s: float) -> str | None:
        """Return why a leader may not be loaded for so long any more, if time forbids it."""
        needed_s = soak_s + 2 * self._restore_s(will_boot=True)  # it may have to be booted before
        return self._find_lateness("the soak and the restore", needed_s)

    def _needed_s(self) -> float:
        """Return how long another boot with its measurements and the restore may take."""
        needed_s = self._durations.needed_s(restores_server=self.restores_server)
        return self._restore_s(will_boot=True) if needed_s is None else needed_s

    def _find_lateness(self, what: str, needed_s: float) -> str | None:
        left_s = self._left_s()
        if left_s is None or left_s > needed_s:
            return None
        return f"{what} take about {needed_s:.0f} s, too long for {self._limits.explain_time()}"

    def check(self) -> None:
        """End the trial when the restore has to begin.

        Raises:
            OutOfTime: it has.
        """
        left_s = self.until_restore_s()
        if left_s is not None and left_s <= 0:
            raise OutOfTime

    def until_restore_s(self) -> float | None:
        """Return the seconds until the restore has to begin; ``None`` without a time limit, or while restoring."""
        left_s = self._left_s()
        return None if left_s is None or not self.is_binding else left_s - self._restore_s(will_boot=self.is_touched)

    def progress(self) -> Progress:
        """Say where the study stands."""
        known = self._durations
        trial_left_s: float | None = None
        usual_s = known.trial_s or known.baseline_s
        if self._kind is TrialKind.CONFIRMATION:
            usual_s = known.confirmation_s or usual_s
        if self._trial_started_s is not None and (mean_s := usual_s) is not None:
            trial_left_s = max(mean_s - (self._clock.monotonic() - self._trial_started_s), 0.0)
        limit = self._limits.trials
        return Progress(
            counted=self.counted,
            limit=None if limit is not None and self.counted >= limit else limit,  # the list may go beyond it
            elapsed_s=self._elapsed_s(),
            trial_left_s=trial_left_s,
            study_left_s=self._study_left_s(trial_left_s),
        )

    def _study_left_s(self, trial_left_s: float | None) -> float | None:
        """Return the time until the host is restored: by trials, by the clock, whichever is sooner."""
        left = [] if (by_clock_s := self._left_s()) is None else [max(by_clock_s, 0.0)]
        if self._limits.trials is not None:
            running = self._trial_started_s is not None and self._kind is not TrialKind.PROFILE
            boots_left = max(self._boots_left - (self._kind is TrialKind.CONFIRMATION), 0)
            # A confirmation boots the baseline too, so none has to be measured once more at the end.
            own_baselines = BASELINE_BOOTS - self.baselines - (boots_left > 0)
            by_trials_s = self._durations.study_left_s(
                max(self._limits.trials - self.counted - running, 0),
                max(own_baselines, 0) if self._limits.trials > 1 else 0,
                restores_server=self.restores_server,
                confirming_s=self._durations.confirming_s(boots_left, self._soak_left_s),
            )
            if by_trials_s is not None:
                left.append(by_trials_s + (trial_left_s or 0.0))
        return min(left, default=None)

    def _elapsed_s(self) -> float:
        return self._clock.monotonic() - self._started_s

    def _left_s(self) -> float | None:
        return self._limits.left_s(self._elapsed_s(), self._clock.now())

    def _restore_s(self, *, will_boot: bool) -> float:
        """Return how long the restore may take; before any boot was seen, as long as the settings allow."""
        if not will_boot:
            return 0.0
        known = self._durations.restore_s(restores_server=self.restores_server)
        if known is not None:
            return known
        return self._study.settings.server.ready_timeout_s if self._limits.until is not None else 0.0
