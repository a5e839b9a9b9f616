"""Which study does the word on the command line mean, and where is its data?"""

from __future__ import annotations

import difflib
import shlex
from dataclasses import dataclass, replace
from pathlib import Path

import click

from autotune.deployment.host_record import RECORD_NAME
from autotune.errors import AutotuneError, SettingsError, StudyMismatchError
from autotune.packaged import find_packaged, list_packaged
from autotune.settings import StudySettings, load_settings
from autotune.storage import sqlite_url
from autotune.study_lock import is_free
from autotune.study_view import DATABASE_NAME, StudyView, load_study
from autotune.trial import TrialState

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
    """A stored study as it is read, and where it lies.

    Attributes:
        view: the study; what a killed tuner left open is interrupted, as it will be when the study goes on.
        directory: its folder.
        url: its SQLAlchemy URL.
        restore_command: puts back what a killed tuner left; ``None`` when nothing is left, or the tuner lives.
    """

    view: StudyView
    directory: Path
    url: str
    restore_command: str | None = None


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
    restore_command = None
    if is_free(directory):
        view = _interrupt_open_trials(view)
        if (directory / RECORD_NAME).exists():
            is_in_place = directory == STUDIES / directory.name
            restore_command = f"autotune restore {shlex.quote(directory.name if is_in_place else f'{directory}/')}"
    return OpenedView(view, directory, storage or sqlite_url(directory / DATABASE_NAME), restore_command)


def _interrupt_open_trials(view: StudyView) -> StudyView:
    """Show what a tuner that is gone left open as what it will become."""
    return replace(
        view,
        trials=tuple(
            trial
            if trial.state.is_final
            else replace(trial, state=TrialState.INTERRUPTED, reason="the tuner ended while this trial was open")
            for trial in view.trials
        ),
    )


def find_stored(study: str | None, study_directory: Path | None) -> tuple[StudySettings, Path]:
    """Find the settings and the folder of a study that may have been run: by study file, name or directory.

    A name means the stored settings where there are some, because they say what was changed on the host.

    Raises:
        StudyMismatchError: nothing is stored in the directory.
        SettingsError: there is no such study, or its file is wrong.
    """
    if study is not None and Path(study).suffix == ".toml":
        settings = load_settings(Path(study))
        return settings, find_directory(settings, study_directory)
    if study_directory is not None:
        directory = study_directory
    elif study is not None and "/" in study:
        directory = Path(study)
    else:
        directory = STUDIES / (study or "embedded")
        if not (directory / DATABASE_NAME).is_file():
            return find_settings(study), directory
    return load_study(directory, name=None if study is None or "/" in study else study).settings, directory


def list_left_behind() -> list[Path]:
    """Return the folders in ./studies whose command left something to put back, or is still at work."""
    return sorted(path.parent for path in STUDIES.glob(f"*/{RECORD_NAME}"))


def _latest_directory() -> Path:
    """Return the study of ./studies that was written last; one without a trial only where all are.

    Raises:
        StudyMismatchError: there is none.
    """
    databases = sorted(STUDIES.glob(f"*/{DATABASE_NAME}"), key=lambda path: path.stat().st_mtime, reverse=True)
    if not databases:
        raise StudyMismatchError(
            "no study has been run here",
            where=str(STUDIES.absolute()),
            hint="run `autotune optimize --trials 20` first, or name a study with --study-directory",
        )
    return next((path.parent for path in databases if _has_trials(path.parent)), databases[0].parent)


def _has_trials(directory: Path) -> bool:
    """True also for a study that cannot be read: whoever opens it must hear of that."""
    try:
        return bool(load_study(directory).trials)
    except AutotuneError:
        return True
