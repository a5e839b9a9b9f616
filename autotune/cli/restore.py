"""``autotune restore``: put back what a killed command left behind; does nothing where nothing is left."""

from __future__ import annotations

from pathlib import Path

import click

from autotune.cli import render, study_argument
from autotune.search_space import search_space_of
from autotune.tuner import restore


@click.command("restore")
@study_argument.argument
@study_argument.directory_option
def command(study: str | None, study_directory: Path | None) -> None:
    """Put the server back as it was found, after a command was killed.

    Every other command that changes the server does this first by itself. STUDY as in `autotune optimize`.
    """
    settings = study_argument.find_settings(study)
    directory = study_argument.find_directory(settings, study_directory)
    if restore(settings, search_space_of(settings), directory=directory):
        render.say("the server is as it was found")
    else:
        render.say("nothing was left to put back")
