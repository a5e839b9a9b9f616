"""Who has the port of a server that the tuner starts itself?"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from autotune.deployment.base import Observation, Occupant, explain_foreign
from autotune.deployment.local import LocalDeployment
from autotune.doctor.catalogue import Area
from autotune.doctor.examination import Examination
from autotune.doctor.finding import Judgement, judge_error, ok
from autotune.doctor.server import examine_api_key, examine_server
from autotune.search_space import SearchSpace
from autotune.servers.base import ServerDialect
from autotune.settings import StudySettings
from autotune.tuner import open_dialect

NO_SERVICE = 'deployment.kind = "local": the tuner starts the server itself, on this machine'
NO_SERVER = "no server runs; the first boot will tell"


@dataclass(frozen=True, slots=True)
class _Seen:
    """What was looked at, and by whom."""

    dialect: ServerDialect
    deployment: LocalDeployment
    observation: Observation


def examine_local_server(
    exam: Examination, settings: StudySettings, space: SearchSpace | None, directory: Path
) -> None:
    """Look at the port and at the server behind it."""
    for area in (Area.WAY, Area.RIGHTS, Area.UNIT):
        exam.skip_rest(area, NO_SERVICE)
    if space is None:
        exam.skip_rest(Area.HOST, "needs search space")
        exam.skip_rest(Area.SERVER, "needs search space")
        return
    known = space
    has_key = examine_api_key(exam, settings, settings.server.command)
    seen = exam.ask(
        "port",
        lambda: _look(settings, known, directory),
        lambda found: judge_occupant(found.observation, found.deployment.url),
    )
    exam.skip_rest(Area.HOST, NO_SERVICE)
    if seen is None or seen.observation.occupant is Occupant.NOBODY:
        exam.skip_rest(Area.SERVER, "needs port" if seen is None else NO_SERVER)
    elif seen.observation.occupant is Occupant.FOREIGN:
        exam.skip_rest(Area.SERVER, "another program listens there")
    elif not has_key:
        exam.skip_rest(Area.SERVER, "needs api key")
    elif not seen.observation.is_listening:
        exam.skip_rest(Area.SERVER, "the server is still loading")
    else:
        examine_server(exam, settings, space, seen.dialect, seen.deployment.url, seen.deployment.read_environment)


def _look(settings: StudySettings, space: SearchSpace, directory: Path) -> _Seen:
    """Describe the deployment, which is looked at and never entered, and look."""
    dialect = open_dialect(settings, space)
    deployment = LocalDeployment(
        baseline=dialect.render_launch(space.resolve(settings.baseline)),
        host=settings.server.host,
        port=settings.server.port,
        folder=directory,
        stop_timeout_s=settings.server.stop_timeout_s,
    )
    return _Seen(dialect, deployment, deployment.observe())


def judge_occupant(seen: Observation, url: str) -> Judgement:
    """Say who has the port."""
    if seen.occupant is Occupant.FOREIGN:
        return judge_error(explain_foreign(seen, url))
    if seen.occupant is Occupant.NOBODY:
        return ok(f"nobody listens at {url}")
    command = shlex.join(seen.command)
    if not seen.is_listening:
        return ok(f"the baseline is loading as process {seen.pid} ({command})")
    return ok(f"the baseline listens at {url} as process {seen.pid} ({command})")
