"""What would a trial do to the host? Its commands and files, from the code that runs it, without running them."""

from __future__ import annotations

import json
import shlex
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from autotune.apply.opening import check_nothing_open
from autotune.deployment.host import Host
from autotune.deployment.host_record import RECORD_NAME
from autotune.deployment.lease import RUN_FOLDER
from autotune.deployment.open_host import open_host
from autotune.deployment.recorded_host import ChangingCommand, RehearsedHost
from autotune.deployment.systemd import SystemdDeployment
from autotune.deployment.systemd_unit import validate_unit_name
from autotune.deployment.unit_reader import read_unit
from autotune.errors import UnitStateError
from autotune.export.provenance import HIDDEN, hide_secret_arguments, is_secret
from autotune.search_space import SearchSpace
from autotune.servers.base import LaunchSpec, ServerDialect
from autotune.settings import StudySettings
from autotune.trial import Configuration

_UNBOUNDED_MB: Final = 10**9


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """One trial that was not run.

    Attributes:
        place: where it would run.
        user_id: user id of the commands there; commands of others than root run behind ``sudo -n --``.
        phases: name of each phase, and its changing commands in order.
        secrets: values that must not be shown.
    """

    place: str
    user_id: int
    phases: tuple[tuple[str, tuple[ChangingCommand, ...]], ...]
    secrets: frozenset[str] = frozenset()


class _RehearsedDeployment(SystemdDeployment):
    """The real deployment, with its record in a scratch folder and without the one look that only a real change passes."""

    def __init__(
        self, host: Host, settings: StudySettings, space: SearchSpace, baseline: LaunchSpec, folder: Path, scratch: Path
    ) -> None:
        super().__init__(
            host,
            settings=settings,
            baseline=baseline,
            tuned_flags=space.tuned_flags,
            folder=folder,
            check=check_nothing_open,
        )
        self._record_path = scratch / RECORD_NAME

    def _check_loaded(self, launch: LaunchSpec | None) -> None:
        """Systemd has loaded nothing, because nothing was written."""


def rehearse(
    settings: StudySettings, space: SearchSpace, dialect: ServerDialect, configuration: Configuration, folder: Path
) -> Rehearsal:
    """Go through one trial of a service on its host: take it, stop, write, start, put back; nothing is changed.

    Args:
        settings: the study; it tunes a service.
        space: its search space.
        dialect: of its server.
        configuration: what the trial boots.
        folder: of the study; nothing is written there.

    Raises:
        UnitStateError: an earlier command was cut off, so the next one would begin by putting the service back.
        HostError: what would stop a real trial before its first change.
    """
    if (folder / RECORD_NAME).exists():
        raise UnitStateError(
            "an earlier command of this study was cut off, so the next one puts the service back first",
            where=str(folder),
            hint=f"run `autotune restore {settings.name}`, then ask again",
        )
    unit = validate_unit_name(settings.deployment.unit or "")
    # The GPUs hold the memory of a server that was not really stopped.
    deployment_settings = settings.deployment.model_copy(update={"gpu_idle_mb": _UNBOUNDED_MB})
    rehearsed = settings.model_copy(update={"deployment": deployment_settings})
    host = RehearsedHost(open_host(settings.deployment), unit)
    baseline = dialect.render_launch(space.resolve(settings.baseline))
    phases: list[tuple[str, tuple[ChangingCommand, ...]]] = []

    def close(name: str) -> None:
        phases.append((name, tuple(host.changes)))
        host.changes.clear()

    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        with _RehearsedDeployment(host, rehearsed, space, baseline, folder, scratch) as deployment:
            secrets = _find_secrets(host.host, unit, settings)
            user_id, place = host.user_id, host.name
            close("take the host")
            deployment.stop()
            close("stop the server")
            deployment.start(dialect.render_launch(configuration), scratch / "server.log")
            close("write the trial and start it; then it is verified and measured")
            deployment.restore()
            close("put the service back as it was found")
        close("give the host back")
    return Rehearsal(place, user_id, tuple(phases), secrets)


def render_rehearsal(rehearsal: Rehearsal) -> Iterator[str]:
    """Yield the commands for people, each with what it reads below it; secrets are hidden."""
    yield f"# On {rehearsal.place}, in this order. Commands marked * run under the lock, while the lease is ours."
    sudo = () if rehearsal.user_id == 0 else ("sudo", "-n", "--")
    shown: set[str] = set()
    for name, changes in rehearsal.phases:
        yield ""
        yield f"# {name}"
        for change in changes:
            yield _hide(f"{'*' if change.is_fenced else ' '} {shlex.join((*sudo, *change.command))}", rehearsal.secrets)
            text = change.stdin.decode("utf-8", errors="backslashreplace")
            target = change.command[-1]
            if text and target in shown and target.startswith(RUN_FOLDER):
                yield "    | (the tuner's own notes, as above but with what is known by then)"
                continue
            shown.add(target)
            yield from (_hide(f"    | {line}", rehearsal.secrets) for line in text.splitlines())


def render_local(launch: LaunchSpec) -> Iterator[str]:
    """Yield the command line and the variables of a trial that is a process of this machine; secrets are hidden."""
    yield "# On this machine, as a child of the tuner:"
    for name, value in launch.environment.items():
        if value is None:
            yield f"unset {name}"
        else:
            yield f"export {name}={HIDDEN if is_secret(name) and value else shlex.quote(value)}"
    yield shlex.join(hide_secret_arguments(launch.command))


def choose_configuration(space: SearchSpace, settings: StudySettings) -> Configuration:
    """Return the configuration that is rehearsed: the first one listed, else one that is not the baseline."""
    baseline = space.resolve(settings.baseline)
    listed: Sequence[Configuration] = [space.resolve(values) for values in settings.try_]
    return next((item for item in (*listed, *space.configurations) if item != baseline), baseline)


def _find_secrets(host: Host, unit: str, settings: StudySettings) -> frozenset[str]:
    """Return values of the study and of the unit whose names look secret."""
    facts = read_unit(host, unit)
    found = {
        value for name, value in (*settings.server.environment.items(), *facts.environment.items()) if is_secret(name)
    }
    shown = hide_secret_arguments(facts.argv)
    found |= {word for word, kept in zip(facts.argv, shown, strict=True) if kept == HIDDEN}
    return frozenset(form for value in found if value for form in _spellings(value))


def _spellings(value: str) -> set[str]:
    """Return a value as it stands in a command, in a record and in a unit file."""
    escaped = value.replace("%", "%%").replace("\\", "\\\\").replace('"', '\\"')
    return {spelling for text in (value, escaped) for spelling in (text, json.dumps(text)[1:-1], shlex.quote(text))}


def _hide(line: str, secrets: frozenset[str]) -> str:
    for secret in sorted(secrets, key=len, reverse=True):
        line = line.replace(secret, HIDDEN)
    return line
