"""Taking back: the bytes, modes and absences from before an apply, and a service that runs as it did then."""

from __future__ import annotations

from dataclasses import replace

from autotune.apply.history import Change, FileState, History, Step
from autotune.apply.site import Site
from autotune.apply.wanted import render_diff
from autotune.errors import AutotuneError, RestoreError, UnitStateError


def rollback(site: Site, *, forced: bool, drain: bool) -> str:
    """Take back the newest apply, or finish a change that was begun and never ended; idempotent.

    Returns:
        What the user should know.

    Raises:
        UnitStateError: somebody changed the drop-in since.
        LiveTrafficError: requests of others are in flight; nothing was changed.
        RestoreError: the service does not serve with what was put back.
    """
    history = site.archive.read()
    service = site.service
    if history.change is not None:
        change = history.change
        site.say(f"finishing {'an' if change.kind == 'apply' else 'a'} {change.kind} that was begun and never ended")
        return put_back(site, history, forced=forced)
    if not history.steps:
        return f"nothing to take back: no apply to {service.unit} is recorded on {service.host.name}"
    step = history.steps[-1]
    file = replace(site.file, name=step.file_name)
    state = service.read_state()
    current, before = file.read(), site.archive.read_before(step)
    if current.digest not in {before.digest, step.written_digest} and not forced:
        _keep_theirs(replace(site, file=file), step, current, forced=False)
    if state.is_up:
        note = service.look_for_users(drain=drain)
        if note is not None:
            site.say(note)
    site.say(f"taking back trial {step.trial} of study {step.study}, applied on {step.started_at}")
    begun = Change(
        "rollback",
        step,
        was_running=state.is_up,
        invocation_id=state.invocation_id,
        dependants=service.find_dependants(),
    )
    opened = history.begin(begun)
    site.archive.write(opened)
    return put_back(site, opened, forced=forced)


def put_back(site: Site, history: History, *, forced: bool = False) -> str:
    """Put back what was there before the change under way, and take the change off the history.

    Doing it again does no harm: what is there already is left alone.

    Args:
        site: the host.
        history: with the change under way.
        forced: also over a file that somebody has changed since; theirs is kept beside the saved ones.

    Returns:
        What the user should know.

    Raises:
        UnitStateError: somebody changed the file since we wrote it; nothing was changed.
        RestoreError: the service does not serve with what was put back.
        HostError: a command failed.
    """
    change = history.change
    if change is None:
        return "nothing was left to put back"
    step, service, archive = change.step, site.service, site.archive
    site = replace(site, file=replace(site.file, name=step.file_name))
    before = archive.read_before(step)
    current = site.file.read()
    notes = []
    if current.digest not in {before.digest, step.written_digest}:
        notes.append(_keep_theirs(site, step, current, forced=forced))
    if current != before:
        site.file.put(before)
    if not step.had_folder and not site.file.remove_folder_if_empty():
        notes.append(f"{site.file.folder} was left, because others have put something into it")
    service.reload()
    notes.append(_bring_back(site, change))
    service.start_dependants(change.dependants)
    archive.write(history.undone())
    archive.forget(step)
    if history.undone() == History():
        archive.write(History())
    return "; ".join(notes)


def _bring_back(site: Site, change: Change) -> str:
    """Let the service run as it did before the change, checked; say how it stands."""
    service, step = site.service, change.step
    state = service.read_state()
    was_restarted = state.invocation_id != change.invocation_id
    if not change.was_running:
        if state.is_up and was_restarted:
            service.stop()
            return f"the state before is back; {service.unit} does not run, as before"
        return f"the state before is back; {service.unit} was not touched"
    if state.is_up and not was_restarted and change.kind == "apply":
        return f"the state before is back; {service.unit} was not restarted and goes on serving"
    try:
        if was_restarted:
            service.replace()  # it may crash over and over
        else:
            service.restart()
        service.wait_until_serving()
    except AutotuneError as error:
        raise RestoreError(
            f"the files are as they were before, but {service.unit} does not serve: {error.message}",
            where=service.host.name,
            hint=f"see `journalctl -u {service.unit}` there; `autotune rollback {step.study}` tries again",
        ) from error
    if step.reported_before:
        reported = service.fetch_reported()
        other = [name for name, value in step.reported_before.items() if reported.get(name) != value]
        if other:
            raise RestoreError(
                f"the files are as they were before, but the server reports other values of {', '.join(other)}",
                where=service.url,
                hint="see whether something else that its unit reads was changed",
            )
    return f"the state before is back and {service.unit} serves, checked by a generation"


def _keep_theirs(site: Site, step: Step, current: FileState, *, forced: bool) -> str:
    """Refuse to overwrite what somebody else wrote, or keep a copy of it first."""
    if not forced:
        written = site.archive.read_saved(step.written_name)
        diff = render_diff(written, current.content, site.file.path)
        for line in diff:
            site.say(line)
        raise UnitStateError(
            f"{site.file.path} was {'removed' if current.content is None else 'changed'} since it was written",
            where=site.service.host.name,
            hint="see the difference above; --force keeps a copy of it and puts back what was there before",
        )
    if current.content is None:
        return "the drop-in had been removed by somebody"
    name = f"{step.number:04d}-theirs.conf"
    site.archive.save(name, current.content)
    return f"what somebody had written there is kept in {site.archive.folder}/{name}"
