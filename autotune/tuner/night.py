"""The order of one night: baseline, what was listed, what the sampler proposes, the leaders again; then restore."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from autotune.baseline import with_one_baseline
from autotune.clock import Clock
from autotune.confirmation.plan import Plan
from autotune.deployment.base import Deployment, Observation, Occupant, explain_foreign
from autotune.errors import (
    AutotuneError,
    BaselineError,
    EvaluationError,
    HostError,
    LeaseLostError,
    LiveTrafficError,
    MeasurementError,
    RestoreError,
    ServerError,
    SshError,
    UnitUnsupportedError,
)
from autotune.events import (
    Activity,
    CellMeasured,
    Counted,
    Event,
    FrontChanged,
    Noted,
    Observer,
    PhaseChanged,
    StudyEnded,
    StudyStarted,
    TrialEnded,
    TrialStarted,
    Waiting,
)
from autotune.pareto import front
from autotune.servers.base import LaunchSpec, ServerDialect
from autotune.study import Study, Suggestion
from autotune.suggestion import measured_as
from autotune.trial import Cell, CellMeasurement, TrialKind, TrialRecord, TrialState
from autotune.tuner.begun_trial import Rig, say_briefly
from autotune.tuner.boot import Booter
from autotune.tuner.confirming import Confirming
from autotune.tuner.interruption import Interrupted, Interruption, OutOfTime
from autotune.tuner.limits import Limits
from autotune.tuner.meters import Meters
from autotune.tuner.profile_run import NOT_LOGGED, ProfileRun, find_launch
from autotune.tuner.soak_run import SoakRun
from autotune.tuner.timekeeper import Timekeeper
from autotune.tuner.trial_run import TrialRun, Unexplained

_FAILURES_IN_A_ROW = 3


@dataclass(frozen=True, slots=True)
class NightOutcome:
    """How a night ended.

    Attributes:
        reason: one sentence: why it ended.
        exit_code: 0, or 128 plus the number of the signal that ended it.
        front: the Pareto front, fastest at C=1 first.
        restored: one sentence about the host as it was left.
    """

    reason: str
    exit_code: int
    front: tuple[TrialRecord, ...]
    restored: str


@dataclass(frozen=True, slots=True)
class _Ending:
    """How a part of a night ended: regularly, by a signal, or by an error that ends the study."""

    reason: str
    exit_code: int = 0
    failure: AutotuneError | None = None

    @classmethod
    def by(cls, interrupted: Interrupted) -> _Ending:
        return cls(f"ended by {interrupted}", exit_code=interrupted.exit_code)

    @property
    def is_regular(self) -> bool:
        return self.exit_code == 0 and self.failure is None

    def then(self, later: _Ending) -> _Ending:
        """Add how the next part ended: both reasons of regular ends, else the later one."""
        if not later.is_regular:
            return later
        return _Ending("; ".join(reason for reason in (self.reason, later.reason) if reason))


class Night:
    """Runs trials strictly one after the other and leaves the host as it was found.

    Args:
        study: open, and held by this process.
        deployment: the host; not entered yet.
        dialect: the server's family.
        meters: who measures.
        limits: when to end.
        observer: told everything.
        clock: where times come from.
        interruption: signals; entered already.
        drain: stop a server although requests of others are in flight; it finishes them first.
    """

    def __init__(
        self,
        study: Study,
        *,
        deployment: Deployment,
        dialect: ServerDialect,
        meters: Meters,
        limits: Limits,
        observer: Observer,
        clock: Clock,
        interruption: Interruption,
        drain: bool = False,
    ) -> None:
        self._study = study
        self._deployment = deployment
        self._dialect = dialect
        self._limits = limits
        self._observer = observer
        self._clock = clock
        self._interruption = interruption
        self._booter = Booter(
            deployment,
            dialect,
            study.settings.server,
            clock,
            interruption,
            self.on_activity,
            self._on_wait,
            self.on_note,
            drain=drain,
        )
        self._profile_launch: LaunchSpec | None = None
        self._rig = Rig(study, self._booter, deployment, dialect, meters, self, interruption, clock)
        self._time = Timekeeper(study, limits, clock)
        self._confirming = Confirming(study, self._time, self._run, self.on_note)
        self._trial: int | None = None
        self._front: tuple[TrialRecord, ...] = ()
        self._failures = 0
        self._told_findings = 0

    def run(self) -> NightOutcome:
        """Run until a limit is reached, nothing is left to measure, or somebody ends it; then confirm what was found.

        Raises:
            AutotuneError: the study cannot go on; the host was restored, or the error says what is left to do.
        """
        return self._conduct(self._run_trials, self._confirming.run_after_search, last=self._measure_baseline_last)

    def confirm(self, plan: Plan) -> NightOutcome:
        """Boot leaders and baseline again, and nothing else.

        Raises:
            AutotuneError: as :meth:`run`.
        """
        return self._conduct(lambda: self._confirming.confirm(plan))

    def _conduct(self, *parts: Callable[[], str], last: Callable[[], str] | None = None) -> NightOutcome:
        """Run parts of a night one after the other, put the host back, and run the last one on the server that serves again."""
        with self._deployment:
            found = self._observe()
            ending = _Ending("")
            for part in parts:
                if ending.is_regular:
                    ending = ending.then(self._run_to_end(part))
            restored = self._restore(found, ending)
            if ending.is_regular and (number := self._interruption.received) is not None:
                ending = _Ending.by(Interrupted(number))
            if ending.is_regular and last is not None:
                after = self._run_to_end(last)
                ending = ending if after.is_regular else after
                restored = self._restore(found, ending)
        self._emit(StudyEnded(self._time.progress(), ending.reason, self._front, restored))
        if ending.failure is not None:
            raise ending.failure
        return NightOutcome(ending.reason, ending.exit_code, self._front, restored)

    def _run_to_end(self, part: Callable[[], str]) -> _Ending:
        """Run a part of the night and say how it ended."""
        self._time.is_binding = True
        try:
            return _Ending(part())
        except OutOfTime:
            return _Ending(f"{self._limits.explain_time()} has come")
        except Interrupted as interrupted:
            return _Ending.by(interrupted)
        except AutotuneError as error:
            return _Ending(str(error), failure=error)
        finally:
            self._time.is_binding = False

    def _run_trials(self) -> str:
        """Run trials until one of the limits; return the reason for the end."""
        if self._time.baselines == 0:
            self._run(self._study.suggest_baseline(), may_reuse=True)
        if not self._limits.is_counted_out(self._time.counted):
            self._profile()
        while True:
            self._interruption.check()
            listed_only = self._limits.is_counted_out(self._time.counted)
            if (late := self._time.find_lateness()) is not None:
                return late
            self.on_activity(Activity.ASKING)
            suggestion = self._study.next_suggestion(listed_only=listed_only)
            self._time.learn()
            self._interruption.check()  # a sampler may think for a minute
            if suggestion is None:
                return self._explain_end(listed_only=listed_only)
            self._run(suggestion, may_reuse=True)
            if self._time.is_time_for_baseline() and self._time.find_lateness() is None:
                self._run(self._study.suggest_baseline(), may_reuse=False)

    def _profile(self) -> None:
        """Boot a server that logs its drafts, where the study wants that and has not done it yet."""
        suggestion = self._study.suggest_profile()
        if suggestion is None:
            return
        try:
            self._profile_launch = find_launch(self._rig, suggestion)
        except UnitUnsupportedError as error:
            self.on_note(f"no profile boot, so accept lengths are learned from trials alone: {error.message}")
            return
        if self._profile_launch is None:
            self.on_note(NOT_LOGGED)
        elif self._time.find_lateness() is None:
            self._run(suggestion, may_reuse=False)

    def _run(self, suggestion: Suggestion, *, may_reuse: bool) -> TrialRecord:
        """Run one trial and see to its end whatever happens."""
        number = self._study.begin(suggestion)
        outer, outer_start = self._trial, self._time.begin_trial(suggestion.kind)
        self._trial = number
        try:
            return self._run_begun(number, suggestion, may_reuse=may_reuse)
        finally:
            self._trial = outer
            self._time.end_trial(outer_start)

    def _run_begun(self, number: int, suggestion: Suggestion, *, may_reuse: bool) -> TrialRecord:
        """Run a trial that the study has begun, and end it."""
        self._emit(TrialStarted(self._time.progress(), number, suggestion.kind, suggestion.configuration))
        try:
            trial = self._measure(number, suggestion, may_reuse=may_reuse)
        except Unexplained as unexplained:
            trial = self._judge(number, suggestion, unexplained)
        except (SshError, LeaseLostError, LiveTrafficError) as error:
            self._interrupt(number, f"nobody blames this trial: {say_briefly(error)}")
            raise
        except (HostError, EvaluationError) as error:
            self._fail(number, f"nobody blames this trial: {say_briefly(error)}")
            raise
        except OutOfTime:
            self._end(self._study.interrupt(number, f"{self._limits.explain_time()} came first"))
            raise
        except Interrupted as interrupted:
            self._end(self._study.interrupt(number, f"ended by {interrupted}"))
            raise
        self._end(trial)
        if suggestion.is_baseline and trial.state is not TrialState.COMPLETE:
            raise BaselineError(
                f"the baseline does not serve: {trial.reason}",
                where=self._deployment.url,
                hint=f"mend [baseline] or the server first; its log is in trials/{number:04d}",
            )
        self._count_failures(trial)
        return trial

    def _measure(self, number: int, suggestion: Suggestion, *, may_reuse: bool) -> TrialRecord:
        """Let a trial run to its end."""
        if self._profile_launch is not None and suggestion.kind is TrialKind.PROFILE:
            return ProfileRun(self._rig, number, suggestion, self._profile_launch).run()
        if suggestion.confirmation is not None and suggestion.confirmation.is_soak:
            return SoakRun(self._rig, number, suggestion).run()
        return TrialRun(self._rig, number, suggestion).run(may_reuse=may_reuse)

    def _judge(self, number: int, suggestion: Suggestion, unexplained: Unexplained) -> TrialRecord:
        """Decide about a trial that failed twice for no known reason, by booting the baseline."""
        error = unexplained.error
        if suggestion.is_baseline:
            return self._study.fail(number, say_briefly(error))
        self._emit(
            Noted(self._time.progress(), "failed twice, so the baseline is booted to see who is to blame", number)
        )
        try:
            # Cells of an interrupted baseline, of a healthier hour perhaps, would clear the host unseen.
            self._run(replace(self._study.suggest_baseline(), retries=None, cells=()), may_reuse=False)
        except AutotuneError:
            self._fail(number, f"the baseline failed as well: {say_briefly(error)}")
            raise
        except (OutOfTime, Interrupted):
            self._end(self._study.interrupt(number, "ended before the baseline could tell who is to blame"))
            raise
        if isinstance(error, MeasurementError):
            return self._study.fail(number, say_briefly(error))
        return self._study.mark_infeasible(number, f"failed twice while the baseline works: {say_briefly(error)}")

    def _fail(self, number: int, reason: str) -> None:
        """End a trial because of an error that ends the study too; it may be proposed again."""
        self._give_up(number, lambda: self._study.fail(number, reason))

    def _interrupt(self, number: int, reason: str) -> None:
        """Leave a trial to the next command, which takes up its finished cells."""
        self._give_up(number, lambda: self._study.interrupt(number, reason))

    def _give_up(self, number: int, end: Callable[[], TrialRecord]) -> None:
        """End a trial, even where the storage is what failed."""
        try:
            has_ended = self._study.trial(number).state.is_final  # the storage may fail after that
            self._end(self._study.trial(number) if has_ended else end())
        except HostError as error:
            self.on_note(f"stays open until the next command: {error}")

    def _count_failures(self, trial: TrialRecord) -> None:
        """Stop a study in which nothing works any more."""
        if not trial.kind.counts:
            return
        self._failures = self._failures + 1 if trial.state is TrialState.FAILED else 0
        if self._failures >= _FAILURES_IN_A_ROW:
            raise HostError(
                f"{self._failures} trials in a row failed for reasons unknown, the last: {trial.reason}",
                where=self._deployment.url,
                hint="look at their logs and request records before going on",
            )

    def _end(self, trial: TrialRecord) -> None:
        """Tell about the end of a trial, and about the front if it moved."""
        self._time.learn()
        self._emit(TrialEnded(self._time.progress(), trial))
        now = self._find_front()
        if [item.number for item in now] != [item.number for item in self._front]:
            self._front = now
            self._emit(FrontChanged(self._time.progress(), now))

    def _find_front(self) -> tuple[TrialRecord, ...]:
        return tuple(
            trial
            for point in front(with_one_baseline(self._time.trials, self._study.settings))
            for trial in point.trials
        )

    def _measure_baseline_last(self) -> str:
        """Measure the baseline once more at the end, on the server that serves again if there is one."""
        if self._time.is_baseline_wanted_last() and self._time.find_lateness() is None:
            self._run(self._study.suggest_baseline(), may_reuse=True)
        return "the baseline was measured once more"

    def _observe(self) -> Observation:
        """Look at the host and tell about it; a foreign server ends the study before it begins."""
        self._time.learn()
        self._front = self._find_front()
        self._time.restores_server = self._deployment.was_serving
        observation = self._deployment.observe()
        if observation.occupant is Occupant.FOREIGN:
            raise explain_foreign(observation, self._deployment.url)
        settings = self._study.settings
        if observation.occupant is Occupant.BASELINE:
            state = "serves" if observation.is_listening else "is loading"
            found = f"the baseline {state} as process {observation.pid}"
        elif self._time.restores_server:
            found = "the server that ran before was stopped by an earlier command and will be put back"
        else:
            found = "no server runs, and none will run afterwards"
        self._emit(
            StudyStarted(
                self._time.progress(),
                settings.name,
                str(self._study.directory),
                self._deployment.url,
                self._study.space.resolve(settings.baseline),
                found,
                len(self._time.trials),
            )
        )
        self._tell_findings()
        self._check_baseline(observation)
        return observation

    def _check_baseline(self, observation: Observation) -> None:
        """Refuse, before anything is stopped, a server that runs with other flags than the baseline.

        Raises:
            BaselineError: it does. One that still loads is asked in its own trial.
        """
        if observation.occupant is not Occupant.BASELINE or not observation.is_listening:
            return
        try:
            effective = self._dialect.fetch_effective_flags(self._deployment.url, self._deployment.read_environment())
        except MeasurementError:
            return
        baseline = self._study.space.resolve(self._study.settings.baseline)
        mismatches = self._dialect.find_mismatches(baseline, effective)
        if mismatches:
            raise BaselineError(
                f"what serves is not the baseline of this study: {'; '.join(mismatches)}",
                where=self._deployment.url,
                hint="if an `export --apply` has changed it, `autotune rollback` takes that back; else write into "
                "[baseline] of a new study what runs",
            )

    def _restore(self, found: Observation, ending: _Ending) -> str:
        """Put the host back, checked by a generation where a server must serve; say what was done."""
        self._emit(PhaseChanged(self._time.progress(), Activity.RESTORING))
        try:
            self._deployment.restore(self._check_serving)
        except (ServerError, HostError, OSError) as error:
            failure = error if isinstance(error, RestoreError) else self._explain_unrestored(error)
            self._emit(StudyEnded(self._time.progress(), ending.reason, self._front, str(failure)))
            raise failure from ending.failure or error
        self._tell_findings()
        if not self._time.restores_server:
            return "no server runs, as before"
        try:
            pid = self._deployment.observe().pid
        except HostError as error:
            self.on_note(f"the host was put back, and could not be looked at once more after that: {error.message}")
            return "the baseline serves again"
        if pid is None:
            return "no server runs: the one that was found had ended by itself before it was touched; start it as usual"
        return f"the baseline serves {'still' if pid == found.pid else 'again'} as process {pid}"

    def _explain_unrestored(self, error: AutotuneError | OSError) -> RestoreError:
        return RestoreError(
            f"the host could not be put back: {error if isinstance(error, OSError) else error.message}",
            where=self._deployment.url,
            hint="see the server's log; the next command tries again",
        )

    def _check_serving(self) -> None:
        self._booter.wait()

    def _explain_end(self, *, listed_only: bool) -> str:
        if not listed_only:
            return self._study.exhaustion or "every configuration of the search space was measured"
        if self._limits.trials == 0:
            return self._explain_end_of_list()
        done, wanted = self._time.counted, self._limits.trials
        if done == wanted:
            return f"{done} of {wanted} trials are done"
        return f"{done} trials are done, {wanted} {'was' if wanted == 1 else 'were'} asked for"

    def _explain_end_of_list(self) -> str:
        """Say that the list is through, and how many of it have no result."""
        space = self._study.space
        trials = self._time.trials
        listed = {
            space.key(configuration): configuration for configuration in map(space.resolve, self._study.settings.try_)
        }
        given_up = sum(measured_as(configuration, trials, space) is None for configuration in listed.values())
        if not given_up:
            return "every listed configuration was measured"
        return f"no listed configuration is left: {len(listed) - given_up} measured, {given_up} given up"

    def on_activity(self, activity: Activity, stage: str | None = None, cell: Cell | None = None) -> None:
        """Tell what is done next, unless it is time to end."""
        self._tell_findings()
        self._interruption.check()
        self._time.check()
        self._time.is_touched |= activity in (Activity.STOPPING, Activity.STARTING)
        self._emit(PhaseChanged(self._time.progress(), activity, self._trial, stage, cell))

    def time_left_s(self) -> float | None:
        """Return the seconds until the restore has to begin; ``None`` without a time limit."""
        return self._time.until_restore_s()

    def on_cell(self, stage: str, measurement: CellMeasurement) -> None:
        """Tell about a cell that is on disk."""
        if self._trial is not None:
            self._emit(CellMeasured(self._time.progress(), self._trial, stage, measurement))

    def on_count(self, what: str, done: int, of: int) -> None:
        """Tell that there is one more of something."""
        self._emit(Counted(self._time.progress(), self._trial, what, done, of))

    def _tell_findings(self) -> None:
        """Tell what the deployment has found since it was asked last."""
        findings = self._deployment.findings
        told, self._told_findings = self._told_findings, len(findings)
        for finding in findings[told:]:
            self.on_note(finding)

    def on_note(self, sentence: str) -> None:
        """Tell something else."""
        self._emit(Noted(self._time.progress(), sentence, self._trial))

    def _on_wait(self, answer: str, waited_s: float) -> None:
        self._time.check()
        self._emit(Waiting(self._time.progress(), self._trial, answer, waited_s))

    def _emit(self, event: Event) -> None:
        """Tell the observer; a night goes on, and restores, when the terminal it was watched on is gone."""
        try:
            self._observer(event)
        except OSError:
            self._observer = _watch_nothing


def _watch_nothing(_event: Event) -> None:
    """Take the place of an observer that cannot be reached any more."""
