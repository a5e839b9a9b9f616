"""``autotune export``: the best configuration as a systemd drop-in with its provenance, or as plain flags."""

from __future__ import annotations

import shlex
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

import click

from autotune import __version__
from autotune.cli import render, study_argument
from autotune.deployment.drop_in import render_drop_in, render_drop_in_as_written
from autotune.deployment.unit_file import Word, parse_service, replace_flags
from autotune.errors import UserError
from autotune.export.findings import Findings, find
from autotune.export.provenance import Provenance, render_header
from autotune.pareto import Choice
from autotune.study_view import StudyView
from autotune.trial import TrialRecord, TrialState


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
    type=click.File(encoding="utf-8"),
    metavar="FILE",
    help="Keep the command of this unit and change only the tuned flags; - reads `systemctl cat UNIT` from a pipe.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print trial, configuration, flags, variables and reason as data."
)
def command(
    study: str | None,
    study_directory: Path | None,
    number: int | None,
    rule: str | None,
    form: str,
    unit: TextIO | None,
    as_json: bool,
) -> None:
    """Print the best configuration as a systemd drop-in or as plain flags.

    The drop-in goes to stdout, what it holds and why to stderr. Put it into /etc/systemd/system/UNIT.d/, then run
    `systemctl daemon-reload` and restart the unit. Without --unit its command is the one that the trial ran with. STUDY
    as in `autotune status`.
    """
    if number is not None and rule is not None:
        raise click.UsageError("--trial names a trial and --rule chooses one: give only one of them")
    view = study_argument.open_view(study, study_directory).view
    if rule is not None:
        chosen = view.settings.export.model_copy(update={"rule": rule})
        view = replace(view, settings=view.settings.model_copy(update={"export": chosen}))
    findings = find(view)
    choice = _choose(view, findings, number)
    if as_json:
        render.show_json(export_document(view, choice))
        return
    if form == "flags":
        render.show(render_flags(view, choice.trial))
    else:
        render.show(_render_drop_in(view, findings, choice, None if unit is None else unit.read()))
    render.say(f"{view.space.describe(choice.trial.configuration)}: {choice.reason}")


def export_document(view: StudyView, choice: Choice) -> dict[str, Any]:
    """Return what ``--json`` prints; a variable that is null is to be removed."""
    rendering = view.space.render_flags(choice.trial.configuration)
    return {
        "study": view.settings.name,
        "trial": choice.trial.number,
        "configuration": dict(choice.trial.configuration),
        "arguments": list(rendering.arguments),
        "environment": dict(rendering.environment),
        "reason": choice.reason,
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
    complete = ", ".join(str(trial.number) for trial in view.trials if trial.state is TrialState.COMPLETE) or "none yet"
    if trial is None:
        raise UserError(
            f"there is no trial {number}", where=f"study {view.settings.name}", hint=f"complete trials: {complete}"
        )
    if trial.state is not TrialState.COMPLETE:
        raise UserError(
            f"trial {number} is {trial.state.value}" + (f": {trial.reason}" if trial.reason else ""),
            where=f"study {view.settings.name}",
            hint=f"export a complete trial: {complete}",
        )
    return Choice(trial, "named by hand with --trial")


def _render_drop_in(view: StudyView, findings: Findings, choice: Choice, unit: str | None) -> str:
    """Render the drop-in around the command that the trial ran with, or around that of a unit."""
    trial = choice.trial
    provenance = Provenance(
        study=view.settings.name,
        trial=trial,
        baseline=findings.baseline,
        reason=choice.reason,
        describe=view.space.describe,
        autotune_version=__version__,
        written_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    header = render_header(provenance, findings)
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
