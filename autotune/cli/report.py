"""``autotune report``: one self-contained page about a study, to read, to send and to print."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from autotune import __version__
from autotune.cli import render, study_argument
from autotune.errors import UserError
from autotune.export.findings import find
from autotune.export.report import render_report


@click.command("report")
@study_argument.argument
@study_argument.directory_option
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Where to write; - is stdout; default: report.html in the study's directory.",
)
def command(study: str | None, study_directory: Path | None, output: Path | None) -> None:
    """Write one self-contained HTML page about a study.

    It holds the recommendation with its reason, the Pareto plot, every trial with its figures, how they were measured
    and what was running. It needs no network. STUDY as in `autotune status`.
    """
    opened = study_argument.open_view(study, study_directory)
    page = render_report(
        opened.view,
        find(opened.view),
        autotune_version=__version__,
        written_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    if output == Path("-"):
        render.show(page)
        return
    path = output or opened.directory / "report.html"
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"the report cannot be written: {error.strerror}", where=str(path), hint="name another file with --output"
        ) from error
    render.say(f"wrote {path}")
