"""``autotune restore``: put back what a killed command left behind; does nothing where nothing is left."""

from __future__ import annotations

from pathlib import Path

import click

from autotune.cli import render, study_argument
from autotune.errors import AutotuneError
from autotune.search_space import search_space_of
from autotune.tuner import restore


@click.command("restore")
@study_argument.argument
@study_argument.directory_option
def command(study: str | None, study_directory: Path | None) -> None:
    """Put the server back as it was found, after a command was killed.

    Every other command that changes the server does this first by itself. STUDY is a name, a study file or a directory;
    without it, every study in ./studies that left something.
    """
    if study is not None or study_directory is not None:
        _restore_one(study, study_directory)
        return
    left = study_argument.list_left_behind()
    if not left:
        render.say(f"nothing was left to put back by any study in {study_argument.STUDIES.absolute()}")
    failures: list[AutotuneError] = []
    for directory in left:
        try:
            _restore_one(f"{directory}/", None)
        except AutotuneError as error:
            # One study that cannot be put back must not keep the others from it.
            render.say(f"{directory.name}:")
            render.show_error(error)
            failures.append(error)
    if failures:
        click.get_current_context().exit(failures[0].exit_code)


def _restore_one(study: str | None, study_directory: Path | None) -> None:
    settings, directory = study_argument.find_stored(study, study_directory)

    def tell(sentence: str) -> None:
        render.say(f"{settings.name}: {sentence}")

    if restore(settings, search_space_of(settings), directory=directory, on_finding=tell):
        render.say(f"{settings.name}: the server is as it was found")
    else:
        render.say(f"{settings.name}: nothing was left to put back ({directory})")
