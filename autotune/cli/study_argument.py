"""Which study does the word on the command line mean, and where is its data?"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path

import click

from autotune.errors import SettingsError, StudyMismatchError
from autotune.packaged import find_packaged, list_packaged
from autotune.settings import StudySettings, load_settings
from autotune.storage import sqlite_url
from autotune.study_view import DATABASE_NAME, StudyView, load_study

STUDIES = Path("studies")
"""Where studies are looked for and where their data goes, seen from the working directory."""

argument = click.argument("study", required=False, metavar="[STUDY]")
directory_option = click.option(
    "--study-directory",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Where this study's data is; default: ./studies/NAME.",
)


@dataclass(frozen=True, slots=True)
class OpenedView:
    """A stored study as it is read, and where it lies: its folder and its SQLAlchemy URL."""

    view: StudyView
    directory: Path
    url: str


def find_settings(study: str | None) -> StudySettings:
    """Find a study file: a path, a name in ./studies, or the name of a packaged one (default: ``embedded``).

    Raises:
        SettingsError: there is no such file, or it is wrong.
    """
    word = study or "embedded"
    if Path(word).suffix == ".toml" or "/" in word:
        return load_settings(Path(word))
    own = STUDIES / f"{word}.toml"
    path = own if own.is_file() else find_packaged("studies", f"{word}.toml")
    if path is not None:
        return load_settings(path)
    known = sorted({*(file.stem for file in STUDIES.glob("*.toml")), *list_packaged("studies")})
    near = difflib.get_close_matches(word, known, n=1)
    raise SettingsError(
        f"there is no study called {word!r}" + (f", did you mean {near[0]!r}?" if near else ""),
        hint=f"name a study file, or one of: {', '.join(known)}",
    )


def find_directory(settings: StudySettings, study_directory: Path | None) -> Path:
    """Return where the data of a study goes."""
    return study_directory or STUDIES / settings.name


def open_view(study: str | None, study_directory: Path | None) -> OpenedView:
    """Read a stored study: by name, by study file, by its directory, or the one worked on last.

    Raises:
        StudyMismatchError: nothing is stored there.
        SettingsError: a study file was named and is wrong.
    """
    storage = name = None
    if study is not None and Path(study).suffix == ".toml":
        settings = load_settings(Path(study))
        directory, storage, name = find_directory(settings, study_directory), settings.storage, settings.name
    elif study_directory is not None:
        directory, name = study_directory, study
    elif study is not None:
        directory = Path(study) if "/" in study else STUDIES / study
    else:
        directory = _latest_directory()
    view = load_study(directory, storage=storage, name=name)
    return OpenedView(view, directory, storage or sqlite_url(directory / DATABASE_NAME))


def _latest_directory() -> Path:
    """Return the study of ./studies that was written last.

    Raises:
        StudyMismatchError: there is none.
    """
    databases = sorted(STUDIES.glob(f"*/{DATABASE_NAME}"), key=lambda path: path.stat().st_mtime)
    if not databases:
        raise StudyMismatchError(
            "no study has been run here",
            where=str(STUDIES.absolute()),
            hint="run `autotune optimize --trials 20` first, or name a study with --study-directory",
        )
    return databases[-1].parent
