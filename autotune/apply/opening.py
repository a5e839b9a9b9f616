"""Opening the host of a service for a change that stays: connected, under the lease, with a way to its server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from autotune.apply.archive import Archive
from autotune.apply.export_file import DROP_IN_NAME, ExportFile
from autotune.apply.history import History
from autotune.apply.service import Service
from autotune.apply.site import Site
from autotune.clock import Clock
from autotune.deployment.data_path import open_data_path
from autotune.deployment.host import Host
from autotune.deployment.host_files import read_file
from autotune.deployment.lease import Lease
from autotune.deployment.leftovers import Interruptible, clear_way
from autotune.deployment.open_host import open_host
from autotune.deployment.systemd_unit import trial_drop_in_path, validate_unit_name
from autotune.deployment.unit_reader import read_state
from autotune.deployment.unit_record import UnitRecord
from autotune.errors import UnitStateError, UserError
from autotune.servers.base import ServerDialect
from autotune.settings import DeploymentSettings, StudySettings


def check_nothing_open(host: Host, unit: str) -> None:
    """Refuse to work on a service while an apply or a rollback of it was begun and never ended.

    Raises:
        UnitStateError: there is one.
    """
    history = Archive(host, host.run_as_root, unit).read()
    if history.change is not None:
        raise explain_open(history, unit, host.name)


def explain_open(history: History, unit: str, where: str) -> UnitStateError:
    """Say which change was begun and never ended, and what to do."""
    change = history.change
    if change is None:
        return UnitStateError("nothing is open", where=where)
    article = "an" if change.kind == "apply" else "a"
    return UnitStateError(
        f"{article} {change.kind} of trial {change.step.trial} of study {change.step.study} to {unit}, begun on "
        f"{change.step.started_at}, never ended",
        where=where,
        hint=f"run `autotune rollback {change.step.study}`: it puts back what was there before",
    )


def override(settings: StudySettings, *, host: str | None, unit: str | None, ssh_config: str | None) -> StudySettings:
    """Let the command line say which service is meant.

    Raises:
        UserError: neither it nor the study names one.
    """
    given = {name: value for name, value in (("host", host), ("unit", unit), ("ssh_config", ssh_config)) if value}
    if unit is None and settings.deployment.unit is None:
        raise UserError(
            f"study {settings.name} tunes no service, so there is nothing to write it into",
            hint="name one with --unit, and its machine with --host unless it is this one",
        )
    if not given:
        return settings
    before = settings.deployment.model_dump(exclude_unset=True)
    if host is not None and host != before.get("host"):
        before.pop("data_path", None)
    deployment = DeploymentSettings.model_validate({**before, **given, "kind": "systemd"})
    return settings.model_copy(update={"deployment": deployment})


def find_own_name(host: Host, unit: str) -> str:
    """Return the name under which a service keeps its lease and its history, also when another name of it was said.

    Args:
        host: connected.
        unit: a name of the service, with ``.service``.
    """
    command = ("systemctl", "show", "--property=Id", "--value", "--", unit)
    return host.expect(command, host.run(command, is_idempotent=True)).text.strip() or unit


@contextmanager
def open_site(
    settings: StudySettings,
    dialect: ServerDialect,
    *,
    name: str | None,
    clock: Clock,
    interruptible: Interruptible,
    say: Callable[[str], None],
    on_wait: Callable[[str, float], None],
) -> Iterator[Site]:
    """Connect, take the lease and open a way to the server; all of it is given back at the end.

    Args:
        settings: the study; its deployment names a service.
        dialect: how its server is asked.
        name: of the drop-in; ``None`` for the usual one.
        clock: what is waited by.
        interruptible: lets a signal end a wait at once.
        say: told each step in words.
        on_wait: told the server's last answer and the seconds waited.

    Raises:
        HostBusyError: a tuner works on this host.
        UnitStateError: a trial of a tuner that is gone is still in place.
        SshError: there is no way to the host.
    """
    deployment = settings.deployment
    with open_host(deployment) as host:
        unit = find_own_name(host, validate_unit_name(deployment.unit or ""))
        _clear_way(host, unit, clock, say, interruptible)
        state = read_state(host, unit)
        lease = Lease(host, unit, lease_s=deployment.lease_s, study=settings.name)
        record = UnitRecord(
            host=host.name,
            machine="",
            unit=unit,
            study=settings.name,
            token=lease.token,
            was_up=state.is_up,
            made_folder=False,
            baselines=(state.invocation_id,),
        )
        lease.acquire(record.facts())
        try:
            with open_data_path(deployment, settings.server.host, settings.server.port) as way:
                yield Site(
                    file=ExportFile(host, lease.run_as_root, unit, name or DROP_IN_NAME),
                    archive=Archive(host, lease.run_as_root, unit),
                    service=Service(
                        host,
                        lease.run_as_root,
                        unit,
                        way,
                        dialect,
                        settings.server,
                        clock,
                        interruptible,
                        on_wait,
                    ),
                    say=say,
                )
        finally:
            lease.release()


def _clear_way(host: Host, unit: str, clock: Clock, say: Callable[[str], None], interruptible: Interruptible) -> None:
    """Finish what tuners that are gone have left, and refuse a trial that nobody can take away."""
    findings: list[str] = []
    clear_way(host, unit, None, clock, findings, interruptible)
    for sentence in findings:
        say(sentence)
    path = trial_drop_in_path(unit)
    if read_file(host, path) is not None:
        raise UnitStateError(
            f"a trial is still in place: {path}",
            where=host.name,
            hint="run `autotune restore STUDY` for the study that wrote it; its first lines name it",
        )
