"""``autotune confirm``: boot leaders and baseline again, interleaved, until it is clear whether the gain is real."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import click

from autotune.cli import render, study_argument
from autotune.cli.display import LiveDisplay, PlainDisplay
from autotune.cli.limit_options import time_options
from autotune.cli.option_values import checked, parse_boots
from autotune.confirmation.due import find_asked
from autotune.confirmation.plan import Plan
from autotune.confirmation.verdict import Verdict
from autotune.confirmation.wording import describe_verdict, render_log_gain
from autotune.errors import UserError
from autotune.eta import learn_durations
from autotune.export.document import confirmation_document
from autotune.export.findings import find
from autotune.export.wording import UNKNOWN, clean, render_count, render_duration
from autotune.settings import StudySettings
from autotune.study import Study
from autotune.study_view import StudyView, load_study
from autotune.trial import TrialRecord, TrialState
from autotune.tuner import Limits, confirm


@click.command("confirm")
@study_argument.argument
@click.option(
    "--boots",
    callback=checked(parse_boots),
    metavar="N",
    help="Boots of leaders and baseline together, at most; at least 4. Default: as the study says, else 6.",
)
@click.option(
    "--trial",
    "numbers",
    type=click.IntRange(min=0),
    multiple=True,
    metavar="N",
    help="Confirm this trial instead of the recommended one; may be given more than once.",
)
@time_options
@click.option(
    "--drain",
    is_flag=True,
    help="Stop a server although requests of others are in flight; it finishes them and refuses new ones.",
)
@study_argument.directory_option
@click.option(
    "--live/--plain", "is_live", default=None, help="A live board or timestamped lines; default: by the terminal."
)
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as data.")
@click.pass_context
def command(
    context: click.Context,
    study: str | None,
    boots: int | None,
    numbers: tuple[int, ...],
    duration_s: float | None,
    until: datetime | None,
    drain: bool,
    study_directory: Path | None,
    is_live: bool | None,
    as_json: bool,
) -> None:
    """Boot the leaders of a study against its baseline again, to see whether the gain is real.

    Leaders and baseline take turns, in fresh boots, until the decision is clear or the boots have ended; what was cut off
    goes on where it was. STUDY as in `autotune status`. The exit code is 0 whatever the verdict is; "no significant gain" is
    an answer.
    """
    settings, directory = study_argument.find_stored(study, study_directory)
    view = load_study(directory, storage=settings.storage, name=settings.name)
    if boots == 0:
        raise click.UsageError("--boots 0 confirms nothing: at least 4")
    _check_numbers(view, numbers)
    plan = _find_plan(view.trials, settings, numbers, boots)
    if plan is None:
        choice = find(view).choice
        why = "the baseline has not been measured" if choice is None else choice.reason
        render.say(clean(f"nothing to confirm: {why}"))
        if as_json:
            render.show_json(None)
        return
    render.say(clean(_announce(plan, view)))
    is_board = render.is_terminal() if is_live is None else is_live
    describe = view.space.describe
    with LiveDisplay(describe=describe) if is_board else PlainDisplay(describe=describe) as display:

        def find_again(opened: Study) -> Plan:
            found = _find_plan(opened.trials(), settings, numbers, boots)
            return plan if found is None else found

        outcome = confirm(
            settings,
            find_again,
            Limits(trials=0, duration_s=duration_s, until=until),
            display,
            directory=directory,
            drain=drain,
        )
    view = load_study(directory, storage=settings.storage, name=settings.name)
    verdict = find(view).confirmations[-1] if any(trial.confirmation for trial in view.trials) else None
    if as_json:
        render.show_json(None if verdict is None else confirmation_document(verdict))
    elif verdict is not None:
        show_verdict(view, verdict)
    if verdict is not None:
        render.say(clean(describe_verdict(verdict)))
    render.say(clean(f"server: {outcome.restored}"))
    context.exit(outcome.exit_code)


def show_verdict(view: StudyView, verdict: Verdict) -> None:
    """Print a row for each leader."""
    trials = {trial.number: trial for trial in view.trials}
    rows = []
    for leader in verdict.leaders:
        cell, worst = leader.worst or (None, None)
        rows.append(
            (
                str(leader.trial),
                view.space.describe(trials[leader.trial].configuration),
                leader.outcome.value,
                f"{leader.boots}/{verdict.baseline_boots}",
                render_log_gain(leader.gain),
                render_log_gain(leader.gain_c1),
                render_log_gain(leader.gain_c32),
                UNKNOWN if cell is None else f"{cell.name} {render_log_gain(worst)}",
            )
        )
    render.show_table(
        ("trial", "configuration", "verdict", "boots", f"gain ({verdict.plan.rule})", "C=1", "C=32", "worst context"),
        rows,
    )
    level = next((leader.level for leader in verdict.leaders if leader.level is not None), None)
    if level is not None:
        render.show(
            f"fresh boots of the leader/of the baseline; beyond each bound lies the truth with a chance of {level:.1%}, so that a "
            f"leader without any gain is confirmed with one of {verdict.plan.alpha:.0%} over all looks"
        )


def _announce(plan: Plan, view: StudyView) -> str:
    """Say what comes, how long it takes, and what it can find."""
    names = ", ".join(f"trial {number}" for number in plan.leaders)
    seconds = learn_durations(view.trials).confirming_s(plan.boots, view.settings.soak_s)
    took = "" if seconds is None else f", about {render_duration(seconds)}"
    soak = f" and a soak of {render_duration(view.settings.soak_s)}" if view.settings.soak_s else ""
    return (
        f"{names} against the baseline: at most {render_count(plan.boots, 'boot')} in {plan.rounds} rounds{soak}{took}"
    )


def _find_plan(
    trials: Sequence[TrialRecord], settings: StudySettings, numbers: Sequence[int], boots: int | None
) -> Plan | None:
    try:
        return find_asked(trials, settings, numbers, boots)
    except ValueError as error:
        raise UserError(
            str(error), where=f"study {settings.name}", hint="allow more with --boots, or name fewer trials"
        ) from error


def _check_numbers(view: StudyView, numbers: Sequence[int]) -> None:
    """Refuse trials that cannot be compared with the baseline.

    Raises:
        UserError: one of them is none, is not complete, or was not of the search.
    """
    known = {trial.number: trial for trial in view.trials}
    fit = [number for number, trial in known.items() if trial.kind.counts and trial.state is TrialState.COMPLETE]
    for number in numbers:
        if number not in fit:
            said = f"there is no trial {number}" if number not in known else f"trial {number} cannot be confirmed"
            raise UserError(
                said,
                where=f"study {view.settings.name}",
                hint=f"complete trials of the search: {', '.join(map(str, fit)) or 'none yet'}",
            )
    if len(set(numbers)) != len(numbers):
        raise UserError("--trial names a trial twice", where=f"study {view.settings.name}", hint="name each once")
    if numbers and view.baseline is None:
        raise UserError(
            "the baseline has not been measured",
            where=f"study {view.settings.name}",
            hint="let `autotune optimize` finish its first trial",
        )
