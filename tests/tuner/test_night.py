"""What a whole night does, on an imaginary host and an imaginary clock.

Long, because all tests share one night; what begins and ends it should be in files of their own.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from autotune.cli.display import render_position
from autotune.deployment.base import Observation, Occupant
from autotune.errors import (
    BaselineError,
    ConnectionLostError,
    HostError,
    ImpossibleMetric,
    LeaseLostError,
    LiveTrafficError,
    MeasurementError,
    NothingSucceeded,
    PortTakenError,
    ProblemSetChanged,
    RestoreError,
)
from autotune.events import (
    Activity,
    CellMeasured,
    Event,
    FrontChanged,
    Noted,
    PhaseChanged,
    StudyEnded,
    StudyStarted,
    TrialEnded,
    TrialStarted,
)
from autotune.servers.base import Probe
from autotune.settings import CellSettings
from autotune.storage import TrialStore
from autotune.suggestion import measured_as, settled_keys
from autotune.trial import Configuration, EvaluationMeasurement, Figure, ParameterValue, TrialKind, TrialState
from autotune.tuner.limits import Limits
from tests.deployment.fake import Fate
from tests.tuner.imaginary import Imagined, ImaginedEvaluation

OOM = {1.0: "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."}


def test_the_baseline_comes_first_then_the_list_then_the_sampler(tmp_path: Path):
    night = Imagined(tmp_path)
    outcome = night(Limits(trials=3))

    assert night.states() == [
        ("baseline", "complete"),
        ("listed", "complete"),
        ("search", "complete"),
        ("search", "complete"),
        ("baseline", "complete"),
    ]
    assert outcome.exit_code == 0
    assert outcome.reason == "3 of 3 trials are done"
    assert night.trials[1].configuration["budget"] == 0


def test_zero_trials_boot_the_list_only(tmp_path: Path):
    night = Imagined(tmp_path)
    night(Limits(trials=0))

    assert night.states() == [("baseline", "complete"), ("listed", "complete")]


def test_the_same_command_again_goes_on_and_counts_all_trials(tmp_path: Path):
    Imagined(tmp_path)(Limits(trials=2))
    night = Imagined(tmp_path)
    night(Limits(trials=4))

    kinds = [kind for kind, _ in night.states()]
    assert kinds.count("baseline") == 3
    assert sum(trial.state.counts and trial.kind is not TrialKind.BASELINE for trial in night.trials) == 4
    assert len({night.space.key(trial.configuration) for trial in night.trials}) == 5


def test_a_long_study_boots_the_baseline_three_times(tmp_path: Path):
    night = Imagined(tmp_path)
    night(Limits(trials=8))

    kinds = [kind for kind, _ in night.states()]
    assert kinds.index("baseline", 1) == 5
    assert [index for index, kind in enumerate(kinds) if kind == "baseline"] == [0, 5, 10]


def test_every_boot_is_proved_and_its_flags_are_stored(tmp_path: Path):
    night = Imagined(tmp_path)
    night(Limits(trials=1))

    boot = night.trials[1].boot
    assert boot is not None
    assert boot.effective_flags["key"] == night.space.key(night.trials[1].configuration)
    assert boot.ready_after_s == pytest.approx(10, abs=1)
    assert boot.version == "1.0"
    assert not boot.reused


def test_a_server_that_runs_the_wanted_configuration_is_used_as_it_is(tmp_path: Path):
    night = Imagined(tmp_path, found=Occupant.BASELINE)
    night(Limits(trials=0))

    boot = night.trials[0].boot
    assert boot is not None
    assert boot.reused
    assert boot.ready_after_s is None
    assert len(night.deployment.starts) == 1


def test_a_found_baseline_serves_again_and_an_empty_host_is_empty(tmp_path: Path):
    """Case 70."""
    for found in (Occupant.BASELINE, Occupant.NOBODY):
        night = Imagined(tmp_path / found.value, found=found)
        outcome = night(Limits(trials=2))

        assert night.deployment.occupant is found
        assert outcome.restored.startswith("the baseline serves again" if found is Occupant.BASELINE else "no server")


def test_the_last_boot_of_the_baseline_is_the_restored_server(tmp_path: Path):
    night = Imagined(tmp_path, found=Occupant.BASELINE)
    night(Limits(trials=2))

    last = night.trials[-1]
    assert last.kind is TrialKind.BASELINE
    assert last.boot is not None
    assert last.boot.reused
    assert night.deployment.restores == 1


def test_a_foreign_server_ends_the_study_before_it_begins(tmp_path: Path):
    night = Imagined(tmp_path, found=Occupant.FOREIGN)
    with pytest.raises(PortTakenError):
        night(Limits(trials=2))

    assert night.trials == ()
    assert night.deployment.occupant is Occupant.FOREIGN


def test_a_secret_in_the_last_words_of_a_server_is_not_kept_with_the_trial(tmp_path: Path):
    night = Imagined(tmp_path)
    night.deployment.fates = [Fate(), Fate(ends_after_s=5, log={1.0: f"{OOM[1.0]} args: --api-key sk-123 --port 1"})]
    night(Limits(trials=2))

    words = str(night.trials[1].attributes["log_lines"])
    assert "out of memory" in words
    assert "--port 1" in words
    assert "sk-123" not in words


def test_memory_that_runs_out_makes_one_trial_infeasible_without_a_second_boot(tmp_path: Path):
    """Case 8."""
    night = Imagined(tmp_path)
    night.deployment.fates = [Fate(), Fate(ends_after_s=5, log=OOM)]
    night(Limits(trials=2))

    trial = night.trials[1]
    assert trial.state is TrialState.INFEASIBLE
    assert "out of memory" in (trial.reason or "")
    assert trial.attributes["log_lines"] == [OOM[1.0]]
    assert night.trials[2].state is TrialState.COMPLETE
    assert len(night.deployment.starts) == 4
    assert len(night.deployment.starts) == len({start.command for start in night.deployment.starts}) + 1


def test_a_crash_is_tried_once_more_and_then_forgiven(tmp_path: Path):
    night = Imagined(tmp_path)
    night.deployment.fates = [Fate(), Fate(ends_after_s=5)]
    night(Limits(trials=0))

    assert night.states() == [("baseline", "complete"), ("listed", "complete")]
    assert len(night.deployment.starts) == 3


def test_a_crash_that_repeats_while_the_baseline_works_is_the_configurations_fault(tmp_path: Path):
    night = Imagined(tmp_path)
    night.deployment.fates = [Fate(), Fate(ends_after_s=5), Fate(ends_after_s=5)]
    night(Limits(trials=0))

    assert night.states() == [("baseline", "complete"), ("listed", "infeasible"), ("baseline", "complete")]
    assert "while the baseline works" in (night.trials[1].reason or "")


def test_a_crash_without_last_words_says_why_there_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    night = Imagined(tmp_path)
    gap = "the service's log goes to a file, not to the journal"
    monkeypatch.setattr(type(night.deployment), "log_gap", gap)
    night.deployment.fates = [Fate(), Fate(ends_after_s=2), Fate(ends_after_s=2)]
    night(Limits(trials=0))

    assert f"its log could not be read: {gap}" in (night.trials[1].reason or "")


def test_a_crash_that_the_baseline_shares_stops_the_study_and_blames_no_trial(tmp_path: Path):
    night = Imagined(tmp_path)
    night.deployment.fates = [Fate(), *(Fate(ends_after_s=5) for _ in range(4))]
    with pytest.raises(BaselineError):
        night(Limits(trials=5))

    assert night.states() == [("baseline", "complete"), ("listed", "failed"), ("baseline", "failed")]
    assert night.deployment.occupant is Occupant.NOBODY


def test_a_baseline_that_does_not_fit_stops_the_study_at_once(tmp_path: Path):
    night = Imagined(tmp_path)
    night.deployment.fates = [Fate(ends_after_s=5, log=OOM)]
    with pytest.raises(BaselineError, match="out of memory"):
        night(Limits(trials=5))

    assert len(night.deployment.starts) == 1


def test_a_crash_while_measuring_is_seen_as_a_crash_of_the_server(tmp_path: Path):
    """Failing requests are the symptom; the log of the dead server is the cause."""
    night = Imagined(tmp_path)

    def crash(configuration: Configuration, cell: CellSettings) -> None:
        if configuration["budget"] == 0 and cell.concurrency == 1:
            night.deployment._fate = Fate(ends_after_s=0, log=OOM)
            raise NothingSucceeded("0 of 8")

    night.trouble = crash
    night(Limits(trials=0))

    trial = night.trials[1]
    assert trial.state is TrialState.INFEASIBLE
    assert "out of memory" in (trial.reason or "")
    assert [cell.cell.concurrency for cell in trial.cells] == [32]


def test_a_server_that_died_after_its_last_answer_gives_no_cell(tmp_path: Path):
    night = Imagined(tmp_path)

    def die(configuration: Configuration, cell: CellSettings) -> None:
        if configuration["budget"] == 0:
            night.deployment._fate = Fate(ends_after_s=0)

    night.trouble = die
    night(Limits(trials=0))

    assert night.trials[1].cells == ()
    assert night.trials[1].state is TrialState.INFEASIBLE


def test_figures_that_cannot_be_trusted_fail_the_trial_and_the_study_goes_on(tmp_path: Path):
    """Case 22: failed with the count, never a speed of zero."""
    night = Imagined(tmp_path)
    night.trouble = night.fail(NothingSucceeded("0 of 20: connection refused"), budget=0)
    night(Limits(trials=2))

    trial = night.trial_of(budget=0)
    assert trial.state is TrialState.FAILED
    assert trial.reason == "NothingSucceeded: 0 of 20: connection refused"
    assert sum(trial.state is TrialState.COMPLETE for trial in night.trials) >= 3


def test_a_study_in_which_nothing_works_any_more_is_stopped(tmp_path: Path):
    night = Imagined(tmp_path)

    def trouble(configuration: Configuration, _cell: CellSettings) -> None:
        if configuration["budget"] != 16:
            raise NothingSucceeded("0 of 20")

    night.trouble = trouble
    with pytest.raises(HostError, match="3 trials in a row"):
        night(Limits(trials=10))


def test_flags_of_no_configuration_are_never_measured(tmp_path: Path):
    """Case 34."""
    night = Imagined(tmp_path)
    read = night.dialect.fetch_effective_flags

    def report(url: str, environment: Mapping[str, str]) -> Mapping[str, ParameterValue]:
        flags = dict(read(url, environment))
        return flags | ({"key": "budget=3"} if "budget=0" in str(flags["key"]) else {})

    night.dialect.fetch_effective_flags = report  # type: ignore[method-assign]
    night(Limits(trials=0))

    assert night.states() == [("baseline", "complete"), ("listed", "infeasible")]
    assert "asked for" in (night.trials[1].reason or "")
    assert night.trials[1].cells == ()


def test_a_server_that_makes_a_measured_configuration_of_it_is_answered_by_that(tmp_path: Path):
    """Case 34."""
    night = Imagined(tmp_path)
    night.dialect.reports = {"key": night.space.key(night.space.resolve(night.settings.baseline))}
    night(Limits(trials=0))

    assert night.states() == [("baseline", "complete"), ("listed", "duplicate")]
    trial = night.trials[1]
    assert trial.cells == ()
    assert "the baseline has measured" in (trial.reason or "")
    assert trial.attributes["duplicate_of"] == night.trials[0].number
    assert night.space.key(trial.configuration) == night.space.key(night.trials[0].configuration)


def test_a_trial_is_recorded_under_the_flags_that_the_server_made_of_it(tmp_path: Path):
    """Case 34."""
    night = Imagined(tmp_path)
    read = night.dialect.fetch_effective_flags
    effective = night.space.resolve({"budget": 8, "topk": 1})
    asked = night.space.resolve({"budget": 0})

    def report(url: str, environment: Mapping[str, str]) -> Mapping[str, ParameterValue]:
        flags = dict(read(url, environment))
        return flags | ({"key": night.space.key(effective)} if flags["key"] == night.space.key(asked) else {})

    night.dialect.fetch_effective_flags = report  # type: ignore[method-assign]
    night(Limits(trials=0))
    night(Limits(trials=0))  # neither what was asked for nor what became of it is booted again

    assert night.states() == [("baseline", "complete"), ("listed", "complete")]
    trial = night.trials[1]
    assert night.space.key(trial.configuration) == night.space.key(effective)
    assert dict(trial.attributes["asked"]) == dict(asked)  # type: ignore[call-overload]
    assert measured_as(asked, night.trials, night.space) == trial
    assert measured_as(effective, night.trials, night.space) == trial
    assert {night.space.key(asked), night.space.key(effective)} <= settled_keys(night.trials, night.space)


def test_a_baseline_that_runs_as_something_else_is_no_baseline(tmp_path: Path):
    """Case 34."""
    night = Imagined(tmp_path)
    night.dialect.reports = {"key": night.space.key(night.space.resolve({"budget": 8, "topk": 1}))}
    with pytest.raises(BaselineError):
        night(Limits(trials=0))


def test_flags_of_a_server_that_is_not_ours_any_more_blame_no_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The tuner slept past its lease, and the host has put the baseline back: its flags are not those of the trial."""
    night = Imagined(tmp_path, found=Occupant.BASELINE)
    fetch, poll = night.dialect.fetch_effective_flags, night.deployment.poll

    def lose() -> int | None:
        monkeypatch.setattr(night.deployment, "poll", poll)
        raise LeaseLostError("the lease is not ours any more")

    def wake_up(url: str, environment: Mapping[str, str]) -> Mapping[str, ParameterValue]:
        if night.deployment.starts:
            monkeypatch.setattr(night.deployment, "poll", lose)
            return {"key": "the baseline"}
        return fetch(url, environment)

    monkeypatch.setattr(night.dialect, "fetch_effective_flags", wake_up)
    with pytest.raises(LeaseLostError):
        night(Limits(trials=2))

    assert night.states() == [("baseline", "complete"), ("listed", "interrupted")]


def test_an_evaluation_that_cannot_be_trusted_stops_the_study(tmp_path: Path):
    night = Imagined(tmp_path, found=Occupant.BASELINE)
    night.trouble = night.fail(ProblemSetChanged("other problems"), budget=0)
    with pytest.raises(ProblemSetChanged):
        night(Limits(trials=3))

    assert night.states() == [("baseline", "complete"), ("listed", "failed")]
    assert night.deployment.occupant is Occupant.BASELINE


def test_no_boot_starts_that_cannot_end_before_the_moment(tmp_path: Path):
    night = Imagined(tmp_path, found=Occupant.BASELINE)
    until = night.clock.now() + timedelta(seconds=150)
    outcome = night(Limits(until=until))

    assert "too long for" in outcome.reason
    assert night.clock.now() <= until
    assert night.deployment.occupant is Occupant.BASELINE
    assert sum(trial.state is TrialState.COMPLETE for trial in night.trials) >= 3
    assert all(trial.state is not TrialState.INTERRUPTED for trial in night.trials)


def test_a_slow_trial_is_interrupted_for_the_moment_and_taken_up_next_time(tmp_path: Path):
    night = Imagined(tmp_path)

    def slow(configuration: Configuration, cell: CellSettings) -> None:
        if configuration["budget"] == 0 and cell.concurrency == 32:
            night.clock.sleep(500)

    night.trouble = slow
    outcome = night(Limits(trials=2, duration_s=300))

    assert outcome.exit_code == 0
    assert night.states()[1] == ("listed", "interrupted")
    assert len(night.trials[1].cells) == 1
    again = Imagined(tmp_path)
    again(Limits(trials=1))
    assert again.states()[2] == ("listed", "complete")
    assert (again.space.key(again.trials[2].configuration), "ctx128-c32") not in again.measured


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_restores_the_host_and_says_so_by_its_exit_code(tmp_path: Path, number: int, exit_code: int):
    """Case 70 (a), (c): a second signal changes nothing."""
    night = Imagined(tmp_path, found=Occupant.BASELINE)

    def interrupt(configuration: Configuration, _cell: CellSettings) -> None:
        if configuration["budget"] == 0:
            os.kill(os.getpid(), number)
            os.kill(os.getpid(), number)

    night.trouble = interrupt
    with night.interruption:
        outcome = night(Limits(trials=5))

    assert outcome.exit_code == exit_code
    assert night.states() == [("baseline", "complete"), ("listed", "interrupted")]
    assert night.deployment.occupant is Occupant.BASELINE


def test_a_signal_during_the_restore_lets_it_finish(tmp_path: Path):
    night = Imagined(tmp_path, found=Occupant.BASELINE)

    def interrupt(event: Event) -> None:
        night.events.append(event)
        if isinstance(event, PhaseChanged) and event.activity.name == "RESTORING":
            os.kill(os.getpid(), signal.SIGTERM)

    night.observer = interrupt
    with night.interruption:
        outcome = night(Limits(trials=2))

    assert outcome.exit_code == 143
    assert night.deployment.occupant is Occupant.BASELINE
    assert [kind for kind, _ in night.states()].count("baseline") == 1


def test_a_restored_server_that_does_not_serve_is_an_error_that_says_so(tmp_path: Path):
    night = Imagined(tmp_path, found=Occupant.BASELINE)

    def break_host(event: Event) -> None:
        night.events.append(event)
        if isinstance(event, PhaseChanged) and event.activity.name == "RESTORING":
            night.dialect.ready_after_s = 1e9

    night.observer = break_host
    with pytest.raises(RestoreError, match="not ready"):
        night(Limits(trials=1))

    assert isinstance(night.events[-1], StudyEnded)


def test_a_link_that_drops_after_the_restore_does_not_spoil_a_finished_night(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    night = Imagined(tmp_path, found=Occupant.BASELINE)
    restore = night.deployment.restore

    def lose_the_way() -> Observation:
        raise ConnectionLostError("10.0.0.2:22 did not answer within 10 s", where="gpu1")

    def restore_and_lose_the_way(check: Callable[[], None] | None = None) -> None:
        restore(check)
        monkeypatch.setattr(night.deployment, "observe", lose_the_way)

    monkeypatch.setattr(night.deployment, "restore", restore_and_lose_the_way)

    outcome = night(Limits(trials=1))

    assert (outcome.exit_code, outcome.restored) == (0, "the baseline serves again")
    assert night.deployment.occupant is Occupant.BASELINE
    assert any(isinstance(event, Noted) and "did not answer within 10 s" in event.sentence for event in night.events)


def test_each_trial_begins_and_ends_once_and_the_front_is_told_when_it_moves(tmp_path: Path):
    night = Imagined(tmp_path)
    night.deployment.fates = [Fate(), Fate(ends_after_s=5)]
    night(Limits(trials=3))

    begun = [event.number for event in night.events if isinstance(event, TrialStarted)]
    ended = [event.trial.number for event in night.events if isinstance(event, TrialEnded)]
    fronts = [event.front for event in night.events if isinstance(event, FrontChanged)]
    cells = [event for event in night.events if isinstance(event, CellMeasured)]
    assert begun == ended == [trial.number for trial in night.trials]
    assert isinstance(night.events[0], StudyStarted)
    assert isinstance(night.events[-1], StudyEnded)
    assert fronts[-1] == night.events[-1].front
    assert len(cells) == 2 * len(night.trials)
    assert any(isinstance(event, Noted) and "once more" in event.sentence for event in night.events)


def test_the_time_that_is_left_is_learned_from_earlier_trials(tmp_path: Path):
    night = Imagined(tmp_path)
    night(Limits(trials=4))

    starts = [event.progress for event in night.events if isinstance(event, TrialStarted)]
    trial_s = 24.0
    assert starts[0].study_left_s is None
    assert starts[2].trial_left_s == pytest.approx(trial_s, rel=0.1)
    assert starts[2].study_left_s == pytest.approx(3 * trial_s + 2 * trial_s, rel=0.15)


def test_a_hopeless_trial_is_pruned_after_its_first_stage(tmp_path: Path):
    night = Imagined(tmp_path)
    night.speed = lambda configuration, c: 100.0 * c if configuration["budget"] in (0, 16) else 95.0 * c
    night(Limits(trials=4))
    hopeless = Imagined(tmp_path)
    hopeless.speed = lambda _configuration, c: 20.0 * c
    hopeless.accept_length = 1.1  # what bounds it at C=1
    hopeless(Limits(trials=5))

    trial = hopeless.trials[-2] if hopeless.trials[-1].kind is TrialKind.BASELINE else hopeless.trials[-1]
    assert trial.state is TrialState.PRUNED
    assert [cell.cell.concurrency for cell in trial.cells] == [32]
    assert (trial.reason or "").startswith("after stage busy: ")


def test_a_broken_drafter_is_noted_with_the_cell(tmp_path: Path):
    night = Imagined(tmp_path)
    night.accept_length = 1.05
    night(Limits(trials=0))

    assert "broken drafter" in night.trials[0].cells[0].notes


def test_a_terminal_that_is_gone_ends_nothing(tmp_path: Path):
    night = Imagined(tmp_path, found=Occupant.BASELINE)

    def write(event: Event) -> None:
        if isinstance(event, CellMeasured):
            raise BrokenPipeError("the terminal is gone")

    night.observer = write
    night(Limits(trials=0))

    assert night.states() == [("baseline", "complete"), ("listed", "complete")]
    assert night.deployment.occupant is Occupant.BASELINE


def test_a_server_that_died_while_its_flags_were_read_is_judged_by_its_log(tmp_path: Path):
    night = Imagined(tmp_path)
    read = night.dialect.fetch_effective_flags

    def die(url: str, environment: Mapping[str, str]) -> Mapping[str, ParameterValue]:
        if len(night.deployment.starts) == 2:
            night.deployment._fate = Fate(ends_after_s=0, log=OOM)
            raise MeasurementError("the effective flags cannot be read")
        return read(url, environment)

    night.dialect.fetch_effective_flags = die  # type: ignore[method-assign]
    night(Limits(trials=0))

    assert night.states() == [("baseline", "complete"), ("listed", "infeasible")]
    assert night.trials[1].attributes["log_lines"] == [OOM[1.0]]


def test_a_server_that_died_after_its_flags_were_read_is_no_fault_of_the_host(tmp_path: Path):
    night = Imagined(tmp_path)
    read = night.dialect.fetch_effective_flags

    def die(url: str, environment: Mapping[str, str]) -> Mapping[str, ParameterValue]:
        effective = read(url, environment)
        if len(night.deployment.starts) == 2:
            night.deployment._fate = Fate(ends_after_s=0, log=OOM)
        return effective

    night.dialect.fetch_effective_flags = die  # type: ignore[method-assign]
    night(Limits(trials=0))

    assert night.states() == [("baseline", "complete"), ("listed", "infeasible")]


def test_a_server_that_died_late_in_the_evaluation_does_not_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    night = Imagined(tmp_path)
    run = ImaginedEvaluation.run

    def die(evaluation: ImaginedEvaluation) -> EvaluationMeasurement:
        measured = run(evaluation)
        if len(night.deployment.starts) == 2:
            night.deployment._fate = Fate(ends_after_s=0, log=OOM)
        return measured

    monkeypatch.setattr(ImaginedEvaluation, "run", die)
    night(Limits(trials=0))

    assert night.states() == [("baseline", "complete"), ("listed", "infeasible")]


def test_a_folder_that_cannot_be_made_is_the_hosts_fault(tmp_path: Path):
    night = Imagined(tmp_path)
    (tmp_path / "trials").write_text("in the way")

    with pytest.raises(HostError, match="trials"):
        night(Limits(trials=0))

    assert night.states() == [("baseline", "failed")]


@pytest.mark.parametrize("method", ["write_trial", "finish"])
def test_a_storage_that_fails_ends_the_study_and_the_found_server_serves_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
):
    night = Imagined(tmp_path, found=Occupant.BASELINE)
    checks: list[float] = []
    probe = night.dialect.probe

    def note(url: str) -> Probe:
        checks.append(night.clock.monotonic())
        return probe(url)

    def fail(_store: TrialStore, *_: object) -> None:
        raise HostError("the study's storage failed: the disk is full")

    def watch(event: Event) -> None:
        night.events.append(event)
        if isinstance(event, PhaseChanged) and event.activity.name == "LOADING" and len(night.deployment.starts) == 1:
            monkeypatch.setattr(TrialStore, method, fail)
        if isinstance(event, PhaseChanged) and event.activity.name == "RESTORING":
            night.dialect.probe = note  # type: ignore[method-assign]

    night.observer = watch
    with pytest.raises(HostError, match="the disk is full"):
        night(Limits(trials=2))

    assert night.deployment.occupant is Occupant.BASELINE
    assert night.deployment.restores == 1
    assert checks
    assert isinstance(night.events[-1], StudyEnded)
    assert "the disk is full" in night.events[-1].reason
    assert "serves again" in night.events[-1].restored


def test_the_baseline_that_judges_is_measured_anew_although_an_interrupted_one_has_cells(tmp_path: Path):
    night = Imagined(tmp_path)
    baseline = night.space.key(night.space.resolve(night.settings.baseline))

    def linger(configuration: Configuration, cell: CellSettings) -> None:
        is_last = night.measured.count((baseline, "ctx128-c32")) == 2
        if is_last and night.space.key(configuration) == baseline and cell.concurrency == 32:
            night.clock.sleep(10_000)

    night.trouble = linger
    night(Limits(trials=2, duration_s=9000))
    assert night.states()[-1] == ("baseline", "interrupted")
    assert len(night.trials[-1].cells) == 1

    again = Imagined(tmp_path)
    failing: list[str] = []

    def fail(configuration: Configuration, _cell: CellSettings) -> None:
        key = again.space.key(configuration)
        if key == baseline:
            return
        failing[:] = failing or [key]
        if key in failing:
            raise NothingSucceeded("0 of 8")

    again.trouble = fail
    again(Limits(trials=3))

    judge = next(trial for trial in again.trials[len(night.trials) :] if trial.kind is TrialKind.BASELINE)
    assert judge.state is TrialState.COMPLETE
    assert judge.attributes.get("retries") is None
    assert [name for key, name in again.measured if key == baseline][:2] == ["ctx128-c32", "ctx128-c1"]


def test_a_list_that_goes_beyond_the_trials_is_said_without_nonsense(tmp_path: Path):
    night = Imagined(tmp_path)
    listed = night.settings.model_copy(update={"try_": ({"budget": 0}, {"budget": 32, "topk": 4})})
    night.settings = listed
    outcome = night(Limits(trials=1))

    positions = [
        render_position(event.progress, event.kind) for event in night.events if isinstance(event, TrialStarted)
    ]
    assert positions[:3] == ["baseline", "1 of 1, listed", "2, listed"]
    assert outcome.reason == "2 trials are done, 1 was asked for"


def test_a_listed_configuration_that_was_given_up_is_not_called_measured(tmp_path: Path):
    for _ in range(2):
        night = Imagined(tmp_path)
        night.trouble = night.fail(NothingSucceeded("0 of 8"), budget=0)
        outcome = night(Limits(trials=0))

    assert outcome.reason == "no listed configuration is left: 0 measured, 1 given up"


def test_a_server_that_works_for_others_is_not_stopped(tmp_path: Path):
    night = Imagined(tmp_path, found=Occupant.BASELINE)
    night.dialect.requests = [2]

    with pytest.raises(LiveTrafficError, match="2 requests of others"):
        night(Limits(trials=1))

    assert night.states() == [("baseline", "complete"), ("listed", "interrupted")]
    assert night.deployment.stops == 0
    assert night.deployment.occupant is Occupant.BASELINE


def test_with_drain_a_server_that_works_for_others_finishes_and_is_stopped(tmp_path: Path):
    night = Imagined(tmp_path, found=Occupant.BASELINE, drain=True)
    night.dialect.requests = [2]
    night(Limits(trials=1))

    assert night.states()[:2] == [("baseline", "complete"), ("listed", "complete")]


def test_a_server_that_does_not_say_what_it_works_on_is_noted_once(tmp_path: Path):
    night = Imagined(tmp_path, found=Occupant.BASELINE)
    night.dialect.requests = [None] * 20
    night(Limits(trials=2))

    told = [event.sentence for event in night.events if isinstance(event, Noted)]
    assert sum("live users cannot be seen" in sentence for sentence in told) == 1


def test_a_cell_in_which_others_were_served_is_measured_again_when_they_are_done(tmp_path: Path):
    night = Imagined(tmp_path)
    night.foreign = ["the server generated 90 tokens while 50 were received"]
    night.dialect.requests = [1, 1]
    started = night.clock.seconds
    night(Limits(trials=0))
    cells = night.trials[0].cells

    assert night.measured[0] == night.measured[1]
    assert cells[0].foreign is None
    assert "measured again" in " ".join(cells[0].notes)
    assert "90 tokens while 50" in " ".join(cells[0].notes)
    assert night.clock.seconds - started > 4
    assert not cells[1].notes


def test_figures_that_cannot_be_trusted_are_measured_again_in_the_same_boot(tmp_path: Path):
    night = Imagined(tmp_path)
    trouble = [ImpossibleMetric("decode speed is infinite")]

    def fail_once(_configuration: Configuration, _cell: CellSettings) -> None:
        if trouble:
            raise trouble.pop()

    night.trouble = fail_once
    night(Limits(trials=0))

    assert night.states()[0] == ("baseline", "complete")
    assert "decode speed is infinite" in " ".join(night.trials[0].cells[0].notes)
    assert len(night.deployment.starts) == len(night.trials)


def test_a_study_among_live_users_ends_and_keeps_what_was_measured(tmp_path: Path):
    night = Imagined(tmp_path, found=Occupant.BASELINE)
    night.foreign = [None, "the server worked on 3 requests while 1 were in flight"] + ["again"] * 2

    with pytest.raises(LiveTrafficError, match="in 3 measurements"):
        night(Limits(trials=1))

    assert night.states() == [("baseline", "interrupted")]
    assert len(night.trials[0].cells) == 1
    assert night.deployment.occupant is Occupant.BASELINE


def test_a_lost_connection_blames_no_trial_and_its_cells_are_taken_up(tmp_path: Path):
    night = Imagined(tmp_path)

    def lose(configuration: Configuration, cell: CellSettings) -> None:
        if configuration["budget"] == 0 and cell.concurrency == 1:
            raise ConnectionLostError("the cable is out", where="gpu1")

    night.trouble = lose
    with pytest.raises(ConnectionLostError):
        night(Limits(trials=1))
    again = Imagined(tmp_path)
    again(Limits(trials=1))

    assert night.states()[1] == ("listed", "interrupted")
    assert again.states()[2] == ("listed", "complete")
    assert (again.space.key(again.trials[2].configuration), "ctx128-c32") not in again.measured


def test_what_was_found_on_the_host_is_told(tmp_path: Path):
    night = Imagined(tmp_path)
    night.deployment.found_out = ("the host restored itself at 03:12",)

    def find_more(_configuration: Configuration, _cell: CellSettings) -> None:
        night.deployment.found_out = ("the host restored itself at 03:12", "no GPU tool")

    night.trouble = find_more
    night(Limits(trials=0))

    told = [event.sentence for event in night.events if isinstance(event, Noted)]
    assert told == ["the host restored itself at 03:12", "no GPU tool"]


def test_a_server_with_other_flags_than_the_baseline_is_refused_before_it_is_stopped(tmp_path: Path):
    night = Imagined(tmp_path, found=Occupant.BASELINE)
    night.dialect.reports = {"key": "budget=15"}

    with pytest.raises(BaselineError, match="is not the baseline of this study: key is budget=15"):
        night(Limits(trials=1))

    assert night.states() == []
    assert (night.deployment.stops, night.deployment.starts) == (0, [])


def test_a_signal_that_comes_while_a_configuration_is_chosen_begins_no_trial(tmp_path: Path):
    night = Imagined(tmp_path)
    night(Limits(trials=0))
    again = Imagined(tmp_path)
    tell = again.events.append

    def interrupt(event: Event) -> None:
        tell(event)
        if isinstance(event, PhaseChanged) and event.activity is Activity.ASKING:
            again.interruption.received = signal.SIGINT

    again.observer = interrupt
    outcome = again(Limits(trials=9))

    assert outcome.exit_code == 130
    assert len(again.trials) == len(night.trials)


def test_a_boot_that_drifts_is_noted_when_it_ends(tmp_path: Path):
    night = Imagined(tmp_path)
    night.canaries = [Figure(value, 6) for value in (100, 100, 101, 101, 99, 99, 100, 60)]
    night(Limits(trials=3))

    told = [event.sentence for event in night.events if isinstance(event, Noted) and "drifted" in event.sentence]
    assert told == [
        "this boot drifted: its canary (prefill of fixed prompts) changed by -40.0% while it was measured, +0.0% being usual; 5.0% is the limit"
    ]
    canaries = [trial.condition.canaries for trial in night.trials if trial.condition is not None]
    assert canaries[0] == (Figure(100, 6), Figure(100, 6))
    assert canaries[-1] == ()


def test_a_canary_that_cannot_be_had_costs_no_trial(tmp_path: Path):
    night = Imagined(tmp_path)
    night(Limits(trials=1))

    assert night.states()[0] == ("baseline", "complete")
