"""What a night makes of crashes and of figures that cannot be trusted, on an imaginary host and an imaginary clock."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from autotune.deployment.base import Occupant
from autotune.errors import (
    BaselineError,
    ConnectionLostError,
    HostError,
    MeasurementError,
    NothingSucceeded,
    ProblemSetChanged,
)
from autotune.events import (
    CellMeasured,
    Event,
    Noted,
    PhaseChanged,
    StudyEnded,
)
from autotune.servers.base import Probe
from autotune.settings import CellSettings
from autotune.storage import TrialStore
from autotune.trial import Configuration, EvaluationMeasurement, Figure, ParameterValue, TrialKind, TrialState
from autotune.tuner.limits import Limits
from tests.deployment.fake import Fate
from tests.tuner.imaginary import Imagined, ImaginedEvaluation

OOM = {1.0: "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."}


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


def test_an_evaluation_that_cannot_be_trusted_stops_the_study(tmp_path: Path):
    night = Imagined(tmp_path, found=Occupant.BASELINE)
    night.trouble = night.fail(ProblemSetChanged("other problems"), budget=0)
    with pytest.raises(ProblemSetChanged):
        night(Limits(trials=3))

    assert night.states() == [("baseline", "complete"), ("listed", "failed")]
    assert night.deployment.occupant is Occupant.BASELINE


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
