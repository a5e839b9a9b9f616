"""What do all checks together say about a night? The one entry of this package."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from autotune.clock import Clock, SystemClock
from autotune.deployment.data_path import open_data_path
from autotune.deployment.host import Host
from autotune.doctor.catalogue import Area
from autotune.doctor.examination import Examination
from autotune.doctor.finding import Finding, Level, exit_code_of, judge_error
from autotune.doctor.host import examine_host, is_at_work
from autotune.doctor.local_server import examine_local_server
from autotune.doctor.machine import examine_machine
from autotune.doctor.night import Expectation, count_baselines, count_candidates, expect, judge_end, judge_gain
from autotune.doctor.rights import examine_rights
from autotune.doctor.server import examine_api_key, examine_server
from autotune.doctor.service import Launches, examine_service
from autotune.doctor.study import StudyFacts, examine_study
from autotune.doctor.way import examine_way
from autotune.errors import AutotuneError, SettingsError, UserError
from autotune.export.findings import estimate_noise
from autotune.search_space import SearchSpace
from autotune.servers.base import ServerDialect
from autotune.settings import StudySettings
from autotune.tuner import open_dialect
from autotune.tuner.limits import Limits

_FAR_AREAS: Final = (Area.WAY, Area.RIGHTS, Area.UNIT, Area.HOST, Area.SERVER)
"""What is looked at on the machine of the service."""


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
        journal_load_s = None
        try:
            journal_load_s = _examine_deployment(exam, settings, study, directory, clock)
        except AutotuneError as error:  # the connection, most likely, between two questions
            exam.fail_rest(_FAR_AREAS, error)
        machine.result()
    trials = () if study.view is None else study.view.trials
    expected = exam.ask(
        "end",
        lambda: expect(settings, limits, trials, journal_load_s=journal_load_s, now=clock.now().astimezone()),
        lambda found: judge_end(found, limits),
    )
    exam.ask(
        "smallest gain",
        lambda: estimate_noise(trials, settings),
        lambda noise: judge_gain(noise, count_baselines(trials), count_candidates(expected)),
    )
    return Diagnosis(exam.findings(), expected)


def _examine_deployment(
    exam: Examination, settings: StudySettings, study: StudyFacts, directory: Path, clock: Clock
) -> float | None:
    """Look at the server and where it runs; return the load time that the journal shows, in seconds."""
    if settings.deployment.kind == "local":
        examine_local_server(exam, settings, study.space, directory)
        return None
    with ExitStack() as stack:
        host = examine_way(exam, settings.deployment, clock, stack)
        if host is None:
            for area in _FAR_AREAS:
                exam.skip_rest(area, "needs login" if settings.deployment.host else "needs address")
            return None
        return _examine_service(exam, settings, study, host)


def _examine_service(exam: Examination, settings: StudySettings, study: StudyFacts, host: Host) -> float | None:
    """Look at the service and its server on a connected host."""
    space = study.space
    dialect = None
    if space is not None:
        try:
            dialect = open_dialect(settings, space)
        except SettingsError as error:
            exam.note("flags", judge_error(error))
    examine_rights(exam, host, settings.deployment.unit or "")
    launches = None if space is None or dialect is None else _list_launches(settings, space, dialect)
    service = examine_service(exam, host, settings, launches)
    load_s = examine_host(exam, host, settings, service)
    command = service.process.command if service.process else service.unit.argv if service.unit else ()
    has_key = examine_api_key(exam, settings, command)
    if service.state is None or not service.state.is_up:
        exam.skip_rest(Area.SERVER, "needs unit" if service.state is None else "the service does not run")
        return load_s
    if not has_key:
        exam.skip_rest(Area.SERVER, "needs api key")
        return load_s
    if is_at_work(host, service.name):
        exam.skip_rest(Area.SERVER, "a tuner is at work there, whose figures a question would spoil")
        return load_s
    server = settings.server

    def read_environment() -> Mapping[str, str]:
        return {} if service.process is None or service.process.environment is None else service.process.environment

    try:
        with open_data_path(settings.deployment, server.host, server.port) as path:
            examine_server(exam, settings, space, dialect, path.url, read_environment)
    except AutotuneError as error:
        exam.note("data path", judge_error(error))
        exam.skip_rest(Area.SERVER, "needs data path")
    return load_s


def _list_launches(settings: StudySettings, space: SearchSpace, dialect: ServerDialect) -> Launches:
    """Return a launch of each arm and of everything that is listed."""
    chosen = {space.arm(configuration): configuration for configuration in space.configurations}
    configurations = [*chosen.values()]
    for values in (settings.baseline, *settings.try_):
        with suppress(UserError):  # another check says so
            configurations.append(space.resolve(values))
    return Launches(tuple(dialect.render_launch(each) for each in configurations), space.tuned_flags)
