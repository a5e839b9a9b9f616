"""``autotune optimize``: search until a limit is reached, show it while it happens, and say what came out."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import click

from autotune.cli import render, study_argument
from autotune.cli.display import LiveDisplay, PlainDisplay
from autotune.cli.limit_options import choose_limits, limit_options
from autotune.cli.option_values import checked, parse_assignments, parse_boots
from autotune.cli.status import render_summary
from autotune.confirmation.recommendation import find_statement
from autotune.export.findings import find
from autotune.export.wording import clean
from autotune.search_space import search_space_of
from autotune.settings import StudySettings, Value
from autotune.study_view import load_study
from autotune.tuner import NightOutcome, open_dialect, run


@click.command("optimize")
@study_argument.argument
@limit_options
@click.option(
    "--try",
    "tries",
    multiple=True,
    callback=checked(parse_assignments),
    metavar="NAME=VALUE,...",
    help="Boot this configuration first; may be given more than once. Missing parameters get their defaults.",
)
@click.option(
    "--drain",
    is_flag=True,
    help="Stop a server although requests of others are in flight; it finishes them and refuses new ones.",
)
@click.option(
    "--dry-run",
    "is_dry_run",
    is_flag=True,
    help="Print what one trial would run and write, in order; change nothing. The trial is the first one listed.",
)
@click.option(
    "--confirm-boots",
    callback=checked(parse_boots),
    metavar="N",
    help="Boot leaders and baseline again after the search, so many times together at most, to see whether the gain is real; "
    "0 for not at all, else at least 4. Default: as the study says.",
)
@click.option("--no-pruning", is_flag=True, help="Measure every trial to its end.")
@click.option("--seed", type=int, metavar="N", help="Seed of the search instead of the study's.")
@study_argument.directory_option
@click.option(
    "--live/--plain", "is_live", default=None, help="A live board or timestamped lines; default: by the terminal."
)
@click.pass_context
def command(
    context: click.Context,
    study: str | None,
    trials: int | None,
    duration_s: float | None,
    until: datetime | None,
    tries: tuple[dict[str, Value], ...],
    drain: bool,
    is_dry_run: bool,
    confirm_boots: int | None,
    no_pruning: bool,
    seed: int | None,
    study_directory: Path | None,
    is_live: bool | None,
) -> None:
    """Search for the best configuration of a server, and leave the server as it was found.

    STUDY is a study file, or the name of one in ./studies or of a packaged one; default: embedded, a small DDTree server
    on this machine. Data goes to ./studies/NAME/. The same command again continues a study, also after a crash. Ctrl-C
    ends it and puts the server back.
    """
    settings = apply_options(study_argument.find_settings(study), tries=tries, no_pruning=no_pruning, seed=seed)
    settings = with_confirm_boots(settings, confirm_boots)
    directory = study_argument.find_directory(settings, study_directory)
    if is_dry_run:
        show_rehearsal(settings, directory)
        return
    limits = choose_limits(trials, duration_s, until)
    describe = search_space_of(settings).describe
    is_board = render.is_terminal() if is_live is None else is_live
    display = LiveDisplay(describe=describe) if is_board else PlainDisplay(describe=describe)
    with display:
        outcome = run(settings, limits, display, directory=directory, drain=drain)
    for line in render_ending(settings, directory, outcome, in_default_place=study_directory is None):
        render.say(clean(line))
    context.exit(outcome.exit_code)


def show_rehearsal(settings: StudySettings, directory: Path) -> None:
    """Print what one trial would do."""
    from autotune.tuner import rehearsal  # noqa: PLC0415  # only a dry run needs it

    space = search_space_of(settings)
    dialect = open_dialect(settings, space)
    configuration = rehearsal.choose_configuration(space, settings)
    render.say(f"one trial, for example {space.describe(configuration)}; nothing is changed")
    if settings.deployment.kind == "systemd":
        lines = rehearsal.render_rehearsal(
            rehearsal.rehearse(settings, space, dialect, configuration, directory.absolute())
        )
    else:
        lines = rehearsal.render_local(dialect.render_launch(configuration))
    render.show("\n".join(clean(line) for line in lines))


def apply_options(
    settings: StudySettings, *, tries: Sequence[dict[str, Value]], no_pruning: bool, seed: int | None
) -> StudySettings:
    """Let the command line have the last word; what it lists comes before what the file lists."""
    update: dict[str, object] = {"try_": (*tries, *settings.try_)}
    if no_pruning:
        update["pruning"] = settings.pruning.model_copy(update={"enabled": False})
    if seed is not None:
        update["seed"] = seed
    return settings.model_copy(update=update)


def with_confirm_boots(settings: StudySettings, boots: int | None) -> StudySettings:
    """Let the command line say how many boots a confirmation has; ``None`` leaves it to the study."""
    if boots is None:
        return settings
    confirmation = settings.confirmation.model_copy(update={"boots": boots})
    return settings.model_copy(update={"confirmation": confirmation})


def render_ending(
    settings: StudySettings, directory: Path, outcome: NightOutcome, *, in_default_place: bool
) -> list[str]:
    """Say what came out, what was put back, and what to do with it."""
    view = load_study(directory, storage=settings.storage, name=settings.name)
    findings = find(view)
    place = "" if in_default_place else f" --study-directory {shlex.quote(str(directory))}"
    lines = [
        "",
        *render_summary(view, findings, directory),
        f"  ended:       {outcome.reason}",
        f"  server:      {outcome.restored}",
        "",
        "Next:",
        f"  autotune report {settings.name}{place}      one page with everything",
        f"  autotune dashboard {settings.name}{place}   to look around in a browser",
    ]
    if findings.is_baseline_recommended:
        lines.append("  nothing to change: the baseline is recommended")
    elif findings.choice is not None:
        if find_statement(findings.choice.trial.number, findings.confirmations) is None:
            lines.append(
                f"  autotune confirm {settings.name}{place}     to see in fresh boots whether the gain is real"
            )
        if settings.deployment.kind == "systemd":
            lines += [
                f"  autotune export {settings.name}{place} --apply   to put it into service",
                f"  autotune rollback {settings.name}{place}         to undo that",
            ]
        else:
            lines.append(f"  autotune export {settings.name}{place} > 50-autotune.conf")
    if outcome.exit_code:
        lines.append("  the same command again continues where this one ended")
    return lines
