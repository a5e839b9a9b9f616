"""The profile boot in a night on an imaginary host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from autotune.errors import HostError, LeaseLostError, MeasurementError, UnitUnsupportedError
from autotune.events import Noted, TrialStarted
from autotune.replay.evidence import find_evidence
from autotune.replay.table import AcceptLengthTable
from autotune.servers.base import DraftLogPlace, LaunchSpec
from autotune.settings import SamplerSettings, parse_settings
from autotune.suggestion import find_profile
from autotune.trial import Configuration, TrialState
from autotune.tuner.draft_profile import choose_cells, for_profile
from autotune.tuner.interruption import OutOfTime
from autotune.tuner.limits import Limits
from autotune.tuner.meters import Meters
from autotune.tuner.profile_run import NOT_LOGGED
from tests.deployment.fake import Fate
from tests.records import make_settings
from tests.servers.fake import FakeDialect
from tests.tuner.imaginary import STUDY, Imagined

TABLE = AcceptLengthTable(None, 16, 32, (1, 2), ((1.5, 1.5), (1.8, 1.9)), ((0.02, 0.02), (0.03, 0.03)))
PROFILE_S = 7.0


class LoggingDialect(FakeDialect):
    """A server that can log its drafts."""

    def render_profile(
        self, configuration: Configuration, place: DraftLogPlace, windows: Sequence[int]
    ) -> LaunchSpec | None:
        launch = self.render_launch(configuration)
        return replace(launch, command=(*launch.command, place.log_path, *map(str, windows)))


@dataclass
class ProfiledNight(Imagined):
    """A night whose profile tells ``TABLE`` unless ``profile`` does something else."""

    profile: Callable[[ProfiledNight], tuple[AcceptLengthTable, ...]] = lambda _night: (TABLE,)
    enabled: str = "true"
    can_log: bool = True

    def __post_init__(self) -> None:
        self.settings = parse_settings(f"{STUDY}\n[profile]\nenabled = {self.enabled}\n", "study.toml")
        super().__post_init__()
        if self.can_log:
            self.dialect = LoggingDialect(self.clock, self.space)
            self.dialect.deployment = self.deployment

    def run(self) -> tuple[AcceptLengthTable, ...]:
        log = Path(self.deployment.starts[-1].command[2])
        log.write_text("drafts")
        self.clock.sleep(PROFILE_S)
        return self.profile(self)

    def open_profile(self, _configuration: Configuration, _records: Path, log_path: Path) -> ProfiledNight:
        assert log_path == self.folder / "drafts.jsonl"
        return self

    def meters(self) -> Meters:
        return replace(super().meters(), open_profile=self.open_profile)

    def notes(self) -> list[str]:
        return [event.sentence for event in self.events if isinstance(event, Noted)]


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> ProfiledNight:
    """A night of two trials; its first listed configuration is the one that is profiled."""
    night = ProfiledNight(tmp_path_factory.mktemp("night"))
    night.settings = night.settings.model_copy(update={"try_": ({"budget": 1, "topk": 8},)})
    night(Limits(trials=2))
    return night


def test_drafts_are_logged_once_after_the_baseline_and_not_counted(night: ProfiledNight):
    kinds = [("baseline", "complete"), ("profile", "complete"), ("listed", "complete"), ("search", "complete")]
    assert night.states()[:4] == kinds
    assert sum(trial.is_counted for trial in night.trials) == 2
    profile = night.trials[1]
    assert profile.configuration == night.space.parse("budget=1,topk=8,window=none")
    assert profile.cells == ()
    assert profile.boot is not None
    start = night.deployment.starts[1]
    assert start.command[3:] == ("32", "64", "128", "256", "512")
    assert not (night.folder / "drafts.jsonl").exists()
    assert any("4 trees accept 1.50 to 1.90 tokens a step" in note for note in night.notes())


def test_what_was_learned_outlives_the_command_and_is_not_asked_again(night: ProfiledNight):
    again = ProfiledNight(night.folder)
    again.settings = night.settings
    again(Limits(trials=3))

    assert [kind for kind, _ in again.states()].count("profile") == 1
    evidence = {again.space.key(item.configuration): item for item in find_evidence(again.trials, again.space)}
    assert set(evidence) == {f"budget={budget},topk={topk},window=none" for budget in (1, 2) for topk in (1, 2)}
    assert evidence["budget=2,topk=2,window=none"].accept_length == 1.9


def test_the_profiled_configuration_itself_is_still_measured(night: ProfiledNight):
    assert night.trials[2].configuration == night.trials[1].configuration
    assert night.trials[2].cells


def test_a_server_that_cannot_log_is_told_of_once(tmp_path: Path):
    night = ProfiledNight(tmp_path, can_log=False)
    night(Limits(trials=2))

    assert "profile" not in [kind for kind, _ in night.states()]
    assert night.notes().count(NOT_LOGGED) == 1


def test_a_command_without_trials_of_the_sampler_logs_nothing(tmp_path: Path):
    night = ProfiledNight(tmp_path)
    night(Limits(trials=0))

    assert "profile" not in [kind for kind, _ in night.states()]


def test_a_study_that_does_not_want_it_logs_nothing_and_says_nothing(tmp_path: Path):
    night = ProfiledNight(tmp_path, enabled="false")
    night(Limits(trials=1))

    assert "profile" not in [kind for kind, _ in night.states()]
    assert NOT_LOGGED not in night.notes()


def test_a_profile_that_fails_costs_the_night_nothing_else_and_is_tried_by_one_more_command(tmp_path: Path):
    def fail(_night: ProfiledNight) -> tuple[AcceptLengthTable, ...]:
        raise MeasurementError("line 3 of the log of drafts cannot be read", where="log")

    states = []
    for trials in (1, 2, 3):
        night = ProfiledNight(tmp_path, profile=fail)
        night(Limits(trials=trials))
        states.append([state for kind, state in night.states() if kind == "profile"])
        assert sum(trial.is_counted for trial in night.trials) == trials

    assert states == [["failed"], ["failed"] * 2, ["failed"] * 2]
    failed = next(trial for trial in night.trials if trial.state is TrialState.FAILED)
    assert failed.reason == "MeasurementError: line 3 of the log of drafts cannot be read"


def test_a_server_that_dies_while_it_starts_ends_the_profile(tmp_path: Path):
    night = ProfiledNight(tmp_path)
    night.deployment.fates = [Fate(), Fate(ends_after_s=2)]
    night(Limits(trials=1))

    assert ("profile", "failed") in night.states()
    assert ("listed", "complete") in night.states()


def test_a_log_that_tells_nothing_fails_the_profile(tmp_path: Path):
    night = ProfiledNight(tmp_path, profile=lambda _night: ())
    night(Limits(trials=1))

    assert ("profile", "failed") in night.states()


def test_a_profile_that_was_cut_off_is_taken_up_again(tmp_path: Path):
    def cut_off(_night: ProfiledNight) -> tuple[AcceptLengthTable, ...]:
        raise OutOfTime

    first = ProfiledNight(tmp_path, profile=cut_off)
    first(Limits(duration_s=300))
    again = ProfiledNight(tmp_path)
    again(Limits(trials=1))

    assert [state for kind, state in again.states() if kind == "profile"] == ["interrupted", "complete"]


def test_a_host_where_the_hook_does_not_fit_is_told_of_once_and_booted_for_no_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def refuse(_path: Path) -> DraftLogPlace:
        raise UnitUnsupportedError("it may not write below /run (ProtectSystem=strict)")

    night = ProfiledNight(tmp_path)
    monkeypatch.setattr(night.deployment, "find_draft_log", refuse)
    night(Limits(trials=2))

    assert "profile" not in [kind for kind, _ in night.states()]
    assert sum(trial.is_counted for trial in night.trials) == 2
    said = "no profile boot, so accept lengths are learned from trials alone: it may not write below /run"
    assert sum(note.startswith(said) for note in night.notes()) == 1


def test_what_the_hook_has_said_is_told(tmp_path: Path):
    def fail(_night: ProfiledNight) -> tuple[AcceptLengthTable, ...]:
        raise MeasurementError("the server answered and logged no draft")

    night = ProfiledNight(tmp_path, profile=fail)
    line = "autotune draft hook steps aside: this SGLang has no sglang.srt.speculative.ddtree_worker"
    night.deployment.fates = [Fate(), Fate(log={0.0: f"[TP0] {line}"})]
    night(Limits(trials=1))

    assert f"accept lengths are learned from trials alone: {line}" in night.notes()


def test_a_host_that_was_lost_while_drafts_were_logged_is_not_taken_for_a_bad_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def fail(night: ProfiledNight) -> tuple[AcceptLengthTable, ...]:
        def lost() -> None:
            raise LeaseLostError("the host has put the baseline back")

        monkeypatch.setattr(night.deployment, "poll", lost)
        raise MeasurementError("the log of drafts cannot be read: No such file or directory")

    night = ProfiledNight(tmp_path, profile=fail)
    with pytest.raises(LeaseLostError):
        night(Limits(trials=1))
    monkeypatch.undo()

    assert ("profile", "interrupted") in night.states()


def test_a_broken_disk_ends_the_night(tmp_path: Path):
    def fail(_night: ProfiledNight) -> tuple[AcceptLengthTable, ...]:
        raise OSError(28, "No space left on device", "log")

    night = ProfiledNight(tmp_path, profile=fail)
    with pytest.raises(HostError, match="No space left"):
        night(Limits(trials=1))


def test_it_is_called_by_its_name(night: ProfiledNight):
    assert [event.kind.value for event in night.events if isinstance(event, TrialStarted)][1] == "profile"


def test_the_time_left_is_that_of_all_trials_while_drafts_are_logged(night: ProfiledNight):
    baseline_s = night.trials[0].duration_s
    started = next(event for event in night.events if isinstance(event, TrialStarted) and event.number == 1)
    assert baseline_s is not None
    # The profile itself, taken to be as long as a trial, two trials and two more baselines; then the server is stopped.
    assert started.progress.study_left_s == pytest.approx(5 * baseline_s + 5)


def test_by_default_a_study_is_profiled_where_its_sampler_uses_it():
    random = make_settings(sampler=SamplerSettings(name="random"))

    assert make_settings().wants_profile
    assert not random.wants_profile
    assert find_profile([], random, Imagined(Path("unused")).space) is None


def test_each_context_is_profiled_at_its_busiest_cell():
    settings = parse_settings(
        """
        name = "contexts"
        [baseline]
        budget = 16
        [benchmark]
        warmup_requests = 4
        [[benchmark.stages]]
        name = "all"
        cells = [
          { context = 64, concurrency = 1 }, { context = 64, concurrency = 32 }, { context = 256, concurrency = 1 },
          { context = 512, concurrency = 32 }, { context = 512, concurrency = 64 }, { context = 1024, concurrency = 8 },
        ]
        """,
        "study.toml",
    )

    cells = [(cell.context, cell.concurrency) for cell in choose_cells(settings)]

    assert cells == [(64, 32), (256, 1), (512, 32)]
    profiled = for_profile(settings.benchmark)
    assert (profiled.warmup_requests, profiled.max_rounds) == (0, 1)
    assert profiled.sampling == settings.benchmark.sampling
