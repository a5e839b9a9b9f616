"""Apply, step by step, so that whatever happens in between, the host can be put back as it was.

Before the first write everything needed to undo it lies on the host, with the change marked as under way; the mark goes
when the change has been checked or undone. What is left to do after a kill follows from what is found on the host, not
from how far we believe to have come.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from autotune.apply.history import Change, History, Step
from autotune.apply.opening import explain_open
from autotune.apply.put_back import put_back
from autotune.apply.service import Service
from autotune.apply.site import Site, Wanted
from autotune.apply.verify_unit import find_complaints
from autotune.apply.wanted import find_loaded_differences
from autotune.deployment.unit_reader import read_unit
from autotune.errors import (
    AutotuneError,
    ConnectionLostError,
    RemoteTimeout,
    RestoreError,
    SystemdError,
)
from autotune.trial import ParameterValue

_RECONNECT_PATIENCE_S: Final = 90.0
_RECONNECT_PAUSE_S: Final = 3.0


def apply(site: Site, wanted: Wanted, *, drain: bool, start: bool, now: str) -> None:
    """Write the drop-in, let systemd load it, restart the service and check it; on any failure put back what was there.

    Args:
        site: the host.
        wanted: what to put into service.
        drain: restart although requests of others are in flight.
        start: start a service that does not run.
        now: UTC, ISO 8601.

    Raises:
        UnitStateError: an earlier change never ended; nothing was changed.
        LiveTrafficError: requests of others are in flight; nothing was changed.
        AutotuneError: something failed, and what was there is back; its hint says so.
        RestoreError: something failed, and what was there could not be put back.
    """
    service, archive = site.service, site.archive
    history = archive.read()
    if history.change is not None:
        raise explain_open(history, service.unit, service.host.name)
    state = service.read_state()
    if state.is_up:
        note = service.look_for_users(drain=drain)
        if note is not None:
            site.say(note)
    before = site.file.read()
    step = Step(
        number=history.next_number,
        study=wanted.study,
        trial=wanted.trial,
        started_at=now,
        file_name=site.file.name,
        before_digest=before.digest,
        before_mode=before.mode,
        before_user_id=before.user_id,
        before_group_id=before.group_id,
        had_folder=site.file.has_folder(),
        written_digest=wanted.file.digest or "",
        was_running=state.is_up,
        reported_before=_tuned_report(service, wanted) if state.is_up else {},
    )
    complaints = find_complaints(service.host, service.unit)
    if before.content is not None:
        archive.save(step.before_name, before.content)
    archive.save(step.written_name, wanted.file.content or b"")
    change = Change(
        "apply",
        step,
        was_running=state.is_up,
        invocation_id=state.invocation_id,
        dependants=service.find_dependants(),
    )
    opened = history.begin(change)
    archive.write(opened)
    try:
        site.say(f"writing {site.file.path}")
        site.file.put(wanted.file)
        _check_written(site, complaints)
        service.reload()
        _check_loaded(site, wanted)
        if state.is_up or start:
            site.say(f"{'restarting' if state.is_up else 'starting'} {service.unit}")
            if state.is_up:
                service.restart()
            else:
                service.start()
            waited_s = service.wait_until_serving()
            service.check_configuration(wanted.configuration, wanted.rendering, wanted.tuned)
            site.say(
                f"serves since {waited_s:.0f} s, checked by a generation; command and effective flags are as wanted"
            )
            service.start_dependants(change.dependants)
        archive.write(opened.apply_done())
    except BaseException as error:
        _undo_after(site, opened, error)
        raise
    kept = opened.apply_done().steps
    archive.forget(*(old for old in history.steps if old not in kept))


def _undo_after(site: Site, opened: History, error: BaseException) -> None:
    """Put back what was there after a failure, and let the error tell it."""
    if opened.change is None:
        return
    what = str(error) if isinstance(error, AutotuneError) else type(error).__name__
    site.say(f"did not succeed: {what.splitlines()[0]}")
    site.say("putting back what was there before")
    try:
        outcome = _with_patience(site, lambda: put_back(site, opened))
    except AutotuneError as second:
        raise RestoreError(
            f"{what}; and what was there before could not be put back yet: {second}",
            where=site.service.host.name,
            hint=f"run `autotune rollback {opened.change.step.study}` as soon as the host answers; "
            f"everything it needs lies in {site.archive.folder} there",
        ) from error
    site.say(outcome)
    if isinstance(error, AutotuneError):
        error.hint = f"{outcome}{f'; {error.hint}' if error.hint else ''}"


def _with_patience(site: Site, put: Callable[[], str]) -> str:
    """Try again for a while when the way to the host is gone: what is tried does no harm twice."""
    clock = site.service.clock
    deadline = clock.monotonic() + _RECONNECT_PATIENCE_S
    while True:
        try:
            return put()
        except (ConnectionLostError, RemoteTimeout) as error:
            if clock.monotonic() > deadline:
                raise
            site.say(f"{error}; trying again")
            clock.sleep(_RECONNECT_PAUSE_S)


def _check_written(site: Site, complaints: frozenset[str]) -> None:
    """Let systemd read the file before it takes it over."""
    new = sorted(find_complaints(site.service.host, site.service.unit) - complaints)
    if new:
        raise SystemdError(
            f"systemd-analyze complains about what was written: {new[0]}",
            where=site.file.path,
            hint="see whether a word of the unit's own command can be written more plainly",
        )


def _check_loaded(site: Site, wanted: Wanted) -> None:
    unit = read_unit(site.service.host, site.service.unit)
    text = (wanted.file.content or b"").decode()
    found = find_loaded_differences(unit, text, site.file.path)
    if found:
        raise SystemdError(
            f"systemd has loaded something else than was written: {'; '.join(found)}",
            where=site.file.path,
            hint=f"see `systemctl cat {unit.name}`",
        )


def _tuned_report(service: Service, wanted: Wanted) -> dict[str, ParameterValue]:
    """Return what the server reports of the tuned parameters."""
    reported = service.try_fetch_reported()
    return {name: reported[name] for name in wanted.reported_names if name in reported}
