"""What do all checks together say about a night? The one entry of this package."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from autotune.clock import Clock, SystemClock
from autotune.doctor.catalogue import Area
from autotune.doctor.examination import Examination
from autotune.doctor.finding import Finding, Level, exit_code_of
from autotune.doctor.local_server import examine_local_server
from autotune.doctor.machine import examine_machine
from autotune.doctor.night import Expectation, count_baselines, expect, judge_end, judge_gain
from autotune.doctor.study import StudyFacts, examine_study
from autotune.export.findings import estimate_noise
from autotune.settings import StudySettings
from autotune.tuner.limits import Limits


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What was found.

    Attributes:
        findings: one for each check, in the order of the catalogue.
        expected: what the night will take; ``None`` when that could not be estimated.
    """

    findings: tuple[Finding, ...]
    expected: Expectation | None

    @property
    def exit_code(self) -> int:
        """0 when a night can begin, else the branch of the worst problem."""
        return exit_code_of(self.findings)

    def count(self, level: Level) -> int:
        """Return how many findings are of a level."""
        return sum(finding.judgement.level is level for finding in self.findings)


def diagnose(settings: StudySettings, directory: Path, limits: Limits, clock: Clock | None = None) -> Diagnosis:
    """Look at everything that a night with these limits needs, and change nothing.

    Args:
        settings: the study.
        directory: folder of the study; it need not exist, and is not made.
        limits: when the night is to end.
        clock: where times come from.
    """
    clock = clock or SystemClock()
    exam = Examination(clock)
    study = examine_study(exam, settings, directory, limits)
    with ThreadPoolExecutor(max_workers=1) as pool:
        machine = pool.submit(examine_machine, exam, settings, directory)
        journal_load_s = _examine_deployment(exam, settings, study, directory)
        machine.result()
    trials = () if study.view is None else study.view.trials
    expected = exam.ask(
        "end",
        lambda: expect(settings, limits, trials, journal_load_s=journal_load_s, now=clock.now().astimezone()),
        lambda found: judge_end(found, limits),
    )
    exam.ask("smallest gain", lambda: estimate_noise(trials), lambda noise: judge_gain(noise, count_baselines(trials)))
    return Diagnosis(exam.findings(), expected)


def _examine_deployment(exam: Examination, settings: StudySettings, study: StudyFacts, directory: Path) -> float | None:
    """Look at the server and where it runs; return the load time that the journal shows, in seconds."""
    if settings.deployment.kind == "local":
        examine_local_server(exam, settings, study.space, directory)
        return None
    for area in (Area.WAY, Area.RIGHTS, Area.UNIT, Area.HOST, Area.SERVER):
        exam.skip_rest(area, "not looked at")
    return None
