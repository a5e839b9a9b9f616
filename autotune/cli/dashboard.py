"""``autotune dashboard``: a study in optuna-dashboard, on this machine only and only to read."""

from __future__ import annotations

import warnings
from datetime import UTC, datetime
from pathlib import Path

import click

from autotune import __version__
from autotune.cli import render, study_argument
from autotune.dashboard import Shown, ShownFile, ShownTrial, build_app, file_of, find_page, make_loopback_server
from autotune.errors import PortTakenError
from autotune.export.findings import Findings, find
from autotune.export.front_figure import draw_front
from autotune.export.notes import render_study_note, render_trial_note, trial_attributes
from autotune.export.points import locate_points
from autotune.export.report import render_report
from autotune.study_view import StudyView
from autotune.trial import TrialRecord, TrialState


@click.command("dashboard")
@study_argument.argument
@study_argument.directory_option
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8080,
    show_default=True,
    help="Port on 127.0.0.1; 0 takes a free one.",
)
def command(study: str | None, study_directory: Path | None, port: int) -> None:
    """Browse a study in optuna-dashboard, on this machine only.

    Notes, our own front, the report and the logs are laid over what Optuna stored, and follow the study while it runs.
    Nothing is written. From another machine: ssh -L 8080:127.0.0.1:8080 HOST. STUDY as in `autotune status`.
    """
    opened = study_argument.open_view(study, study_directory)
    app = build_app(
        opened.url,
        opened.view.settings.name,
        lambda: show_study(study_argument.open_view(study, study_directory).view, opened.directory),
    )
    try:
        server = make_loopback_server(app, port)
    except OSError as error:
        raise PortTakenError(
            f"the dashboard cannot listen there: {error.strerror}",
            where=f"127.0.0.1:{port}",
            hint="name another port with --port, or 0 for a free one",
        ) from error
    # Its plots warn about every small study; nobody who reads this terminal can act on that.
    warnings.filterwarnings("ignore", module="optuna")
    with server:
        page = find_page(opened.url, opened.view.settings.name)
        render.say(f"study {opened.view.settings.name}: http://127.0.0.1:{server.server_port}{page}")
        render.say("Ctrl-C ends it")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            render.say("stopped")


def show_study(view: StudyView, directory: Path) -> Shown:
    """Return what the dashboard shows beside Optuna's own data."""
    findings = find(view)
    points = locate_points(view, findings)
    return Shown(
        note=render_study_note(view, findings),
        figure=draw_front(points) if points else None,
        trials={trial.number: _show_trial(trial, view, findings, directory) for trial in view.trials},
        front=frozenset(member.number for point in findings.front for member in point.trials),
        files=(ShownFile("report.html", "text/html; charset=utf-8", lambda: _report(view, findings)),),
    )


def _show_trial(trial: TrialRecord, view: StudyView, findings: Findings, directory: Path) -> ShownTrial:
    folder = directory / "trials" / f"{trial.number:04}"
    return ShownTrial(
        note=render_trial_note(trial, view, findings),
        attributes=trial_attributes(trial, view, findings),
        is_infeasible=trial.state is TrialState.INFEASIBLE,
        files=tuple(file_of(path, f"{folder.name}/{path.name}") for path in sorted(folder.glob("*")) if path.is_file()),
    )


def _report(view: StudyView, findings: Findings) -> bytes:
    written_at = datetime.now(UTC).isoformat(timespec="seconds")
    return render_report(view, findings, autotune_version=__version__, written_at=written_at).encode()
