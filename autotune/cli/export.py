"""``autotune export``: the best configuration as a systemd drop-in with its provenance, or as plain flags."""

from __future__ import annotations

import shlex
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from autotune import __version__
from autotune.apply.applying import apply
from autotune.apply.preparing import Candidate, prepare
from autotune.apply.site import Site
from autotune.cli import render, service_change, study_argument
from autotune.deployment.drop_in import render_drop_in, render_drop_in_as_written
from autotune.deployment.unit_file import Word, parse_service, replace_flags
from autotune.errors import UserError
from autotune.export.findings import Findings, find
from autotune.export.proof import judge_proof
from autotune.export.provenance import Provenance, render_header
from autotune.export.wording import clean
from autotune.pareto import Choice
from autotune.search_space import Rendering
from autotune.study_view import StudyView
from autotune.trial import TrialKind, TrialRecord, TrialState
from autotune.tuner.interruption import Interruption


@click.command("export")
@study_argument.argument
@study_argument.directory_option
@click.option(
    "--trial",
    "number",
    type=click.IntRange(min=0),
    metavar="N",
    help="Export this trial instead of the recommended one.",
)
@click.option(
    "--rule",
    type=click.Choice(["balanced", "c1", "c32"]),
    help="Recommend by this rule instead of the study's: both gains together, one user, or 32 users.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["drop-in", "flags"]),
    default="drop-in",
    show_default=True,
    help="A systemd drop-in, or variables and flags for a shell.",
)
@click.option(
    "--unit",
    metavar="FILE|NAME",
    help="Keep the command of the unit in FILE and change only the tuned flags; - reads `systemctl cat UNIT` from a "
    "pipe. With --apply: NAME of the service instead of the study's.",
)
@click.option(
    "--apply",
    "is_applied",
    is_flag=True,
    help="Write the drop-in into the service's own configuration, restart it and check it; `autotune rollback` undoes.",
)
@click.option("--yes", "is_agreed", is_flag=True, help="With --apply: do not ask.")
@click.option("--start", is_flag=True, help="With --apply: start a service that does not run.")
@click.option(
    "--name",
    metavar="FILE.conf",
    help="With --apply: name of the drop-in in /etc/systemd/system/UNIT.d; default: 50-autotune.conf.",
)
@service_change.options
@click.option(
    "--json", "as_json", is_flag=True, help="Print trial, configuration, flags, variables and reason as data."
)
def command(
    study: str | None,
    study_directory: Path | None,
    number: int | None,
    rule: str | None,
    form: str,
    unit: str | None,
    is_applied: bool,
    is_agreed: bool,
    start: bool,
    drain: bool,
    host: str | None,
    ssh_config: str | None,
    name: str | None,
    as_json: bool,
) -> None:
    """Print the best configuration as a systemd drop-in or as plain flags; with --apply, put it into production.

    The drop-in goes to stdout, what it holds and why to stderr. Put it into /etc/systemd/system/UNIT.d/, then run
    `systemctl daemon-reload` and restart the unit. Without --unit its command is the one that the trial ran with. STUDY
    as in `autotune status`.

    With --apply all of that is done on the service's host, around the service's own command: what was there is saved
    first, and put back when anything fails.
    """
    if not is_applied and (is_agreed or start or drain or host or ssh_config or name):
        raise click.UsageError("--yes, --start, --drain, --host, --ssh-config and --name belong to --apply")
    if is_applied and (as_json or form != "drop-in"):
        raise click.UsageError("--apply writes a drop-in: --json and --format do not go with it")
    if number is not None and rule is not None:
        raise click.UsageError("--trial names a trial and --rule chooses one: give only one of them")
    opened = study_argument.open_view(study, study_directory)
    view = opened.view
    if rule is not None:
        chosen = view.settings.export.model_copy(update={"rule": rule})
        view = replace(view, settings=view.settings.model_copy(update={"export": chosen}))
    findings = find(view)
    choice = _choose(view, findings, number)
    if is_applied:
        with service_change.opened(view.settings, host=host, unit=unit, ssh_config=ssh_config, name=name) as (
            site,
            signals,
        ):
            undo = _rollback_command(
                study or opened.directory.name, study_directory, host=host, ssh_config=ssh_config, unit=unit
            )
            _apply(site, signals, view, findings, choice, undo=undo, is_agreed=is_agreed, start=start, drain=drain)
        return
    if as_json:
        render.show_json(export_document(view, findings, choice))
        return
    if form == "flags":
        render.show(render_flags(view, choice.trial))
    else:
        render.show(_render_drop_in(view, findings, choice, None if unit is None else _read_text(unit)))
    render.say(clean(_explain(view, findings, choice)))


def _explain(view: StudyView, findings: Findings, choice: Choice) -> str:
    """Say what is exported, why, and whether its gain is proven."""
    proof = judge_proof(choice.trial, findings)
    tail = "" if proof is None else f"; {proof}"
    return f"{view.space.describe(choice.trial.configuration)}: {choice.reason}{tail}"


def export_document(view: StudyView, findings: Findings, choice: Choice) -> dict[str, Any]:
    """Return what ``--json`` prints; a variable that is null is to be removed."""
    proof = judge_proof(choice.trial, findings)
    rendering = view.space.render_flags(choice.trial.configuration)
    return {
        "study": view.settings.name,
        "trial": choice.trial.number,
        "configuration": dict(choice.trial.configuration),
        "arguments": list(rendering.arguments),
        "environment": dict(rendering.environment),
        "reason": choice.reason,
        "proof": proof and {"is_proven": proof.is_proven, "verdict": proof.verdict, "why": proof.why},
    }


def render_flags(view: StudyView, trial: TrialRecord) -> str:
    """Render variables as shell commands and then the flags, quoted for a shell."""
    rendering = view.space.render_flags(trial.configuration)
    lines = [
        f"unset {name}" if value is None else f"export {name}={shlex.quote(value)}"
        for name, value in rendering.environment.items()
    ]
    return "\n".join([*lines, *([shlex.join(rendering.arguments)] if rendering.arguments else [])])


def _choose(view: StudyView, findings: Findings, number: int | None) -> Choice:
    """Return the trial to export and why.

    Raises:
        UserError: there is no such trial, it is not complete, or nothing can be recommended yet.
    """
    if number is None:
        if findings.choice is None:
            raise UserError(
                "nothing can be recommended: the baseline has not been measured",
                where=f"study {view.settings.name}",
                hint="let `autotune optimize` finish its first trial, or name a trial with --trial",
            )
        return findings.choice
    trial = next((trial for trial in view.trials if trial.number == number), None)
    measured = [
        trial for trial in view.trials if trial.state is TrialState.COMPLETE and trial.kind is not TrialKind.PROFILE
    ]
    complete = ", ".join(str(trial.number) for trial in measured) or "none yet"
    if trial is None:
        raise UserError(
            f"there is no trial {number}", where=f"study {view.settings.name}", hint=f"complete trials: {complete}"
        )
    if trial not in measured:
        state = "a profile, which measures no speed" if trial.kind is TrialKind.PROFILE else trial.state.value
        raise UserError(
            f"trial {number} is {state}" + (f": {trial.reason}" if trial.reason else ""),
            where=f"study {view.settings.name}",
            hint=f"export a complete trial: {complete}",
        )
    return Choice(trial, "named by hand with --trial")


def _apply(
    site: Site,
    interruption: Interruption,
    view: StudyView,
    findings: Findings,
    choice: Choice,
    *,
    undo: str,
    is_agreed: bool,
    start: bool,
    drain: bool,
) -> None:
    """Show what would change, ask, and put it into the service."""
    trial = choice.trial
    rendering = view.space.render_flags(trial.configuration)
    prepared = prepare(
        site,
        Candidate(
            study=view.settings.name,
            trial=trial.number,
            configuration=trial.configuration,
            rendering=Rendering(rendering.arguments, {**view.settings.server.environment, **rendering.environment}),
            tuned=view.space.tuned_flags,
            reported_names=frozenset(view.space.reported(trial.configuration)),
            arguments_variable=view.settings.deployment.arguments_variable,
        ),
        _header(view, findings, choice),
    )
    what = _explain(view, findings, choice)
    if prepared.is_applied:
        render.say(clean(f"nothing to do: {site.service.unit} serves trial {trial.number} already ({what})"))
        return
    service_change.show_diff(prepared.diff)
    render.say(clean(what))
    question = f"Write this to {site.file.path} on {site.service.host.name}" + (
        f" and restart {site.service.unit}?" if prepared.is_up or start else "?"
    )
    service_change.confirm(question, interruption, is_agreed=is_agreed)
    apply(site, prepared.wanted, drain=drain, start=start, now=_now())
    if prepared.is_up or start:
        render.say(f"{site.service.unit} serves trial {trial.number}; `{undo}` undoes it")
    else:
        render.say(f"written; {site.service.unit} did not run and was not started (--start does); `{undo}` undoes it")


def _rollback_command(
    study: str,
    study_directory: Path | None,
    *,
    host: str | None,
    ssh_config: str | None,
    unit: str | None,
) -> str:
    """Return the command that takes an apply back, with the options that said which service is meant."""
    options = {
        "--study-directory": None if study_directory is None else str(study_directory),
        "--host": host,
        "--ssh-config": ssh_config,
        "--unit": unit,
    }
    named = [word for option, value in options.items() if value is not None for word in (option, value)]
    return shlex.join(["autotune", "rollback", study, *named])


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _read_text(file: str) -> str:
    """Read a unit from a file, or from a pipe for ``-``."""
    try:
        with click.open_file(file, encoding="utf-8") as stream:
            return str(stream.read())
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            f"{file} cannot be read: {error}", where="--unit", hint="name a unit file, or - for a pipe"
        ) from error


def _header(view: StudyView, findings: Findings, choice: Choice) -> list[str]:
    """Return the comment at the top of the drop-in."""
    provenance = Provenance(
        study=view.settings.name,
        trial=choice.trial,
        baseline=findings.baseline,
        reason=choice.reason,
        describe=view.space.describe,
        autotune_version=__version__,
        written_at=_now(),
    )
    return render_header(provenance, findings)


def _render_drop_in(view: StudyView, findings: Findings, choice: Choice, unit: str | None) -> str:
    """Render the drop-in around the command that the trial ran with, or around that of a unit."""
    trial = choice.trial
    header = _header(view, findings, choice)
    rendering = view.space.render_flags(trial.configuration)
    if unit is not None:
        line = replace_flags(_only_command(unit), view.space.tuned_flags, rendering.arguments)
        return render_drop_in_as_written(line, rendering.environment, header)
    if trial.boot is None:
        raise UserError(
            f"trial {trial.number} has no record of the command it ran",
            where=f"study {view.settings.name}",
            hint="export another trial, or use --unit or --format flags",
        )
    return render_drop_in(trial.boot.command, {**view.settings.server.environment, **rendering.environment}, header)


def _only_command(unit: str) -> tuple[Word, ...]:
    """Return the command of a unit.

    Raises:
        UserError: it has none, or several.
    """
    commands = parse_service(unit).commands
    if len(commands) != 1:
        raise UserError(
            f"the unit has {len(commands)} ExecStart= commands, one is needed",
            where="--unit",
            hint="pass the text that `systemctl cat UNIT` prints",
        )
    return commands[0]
