"""Can this study begin or go on? The file, the search space, what is stored, and who holds it."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from autotune.deployment.host_record import RECORD_NAME
from autotune.doctor.catalogue import Area
from autotune.doctor.examination import Examination
from autotune.doctor.finding import Judgement, ok, problem, skipped, warning
from autotune.errors import HostBusyError, SettingsError, StudyMismatchError, UserError
from autotune.exercise import find_unexercised
from autotune.search_space import SearchSpace, search_space_of
from autotune.settings import StudySettings
from autotune.settings_difference import find_differences
from autotune.storage import TrialStore, sqlite_url
from autotune.study_lock import LOCK_NAME, is_free, read_holder
from autotune.study_view import DATABASE_NAME, StudyView, load_study
from autotune.tuner.limits import Limits

_CONNECT_TIMEOUT_S = 5


@dataclass(frozen=True, slots=True)
class StorageState:
    """Where trials are to be stored, as it is now.

    Attributes:
        place: a path, or a URL without its password.
        has_study: whether tables of studies are there.
        blocked: why it cannot be written; ``None`` when it can.
    """

    place: str
    has_study: bool
    blocked: str | None = None


@dataclass(frozen=True, slots=True)
class StudyFacts:
    """What the other areas need; ``None`` is unknown, or not there.

    Attributes:
        space: the search space.
        view: the study as it is stored.
    """

    space: SearchSpace | None
    view: StudyView | None


def examine_study(exam: Examination, settings: StudySettings, directory: Path, limits: Limits) -> StudyFacts:
    """Look at everything that belongs to the study."""
    space = exam.ask("search space", lambda: search_space_of(settings), lambda found: judge_space(found, limits.trials))
    exam.judge("listed", space, lambda found: judge_listed(found, settings), needs="search space")
    exam.judge(
        "exercised", space, lambda found: judge_exercise(find_unexercised(found, settings)), needs="search space"
    )
    state = exam.ask("storage", lambda: look_at_storage(settings.storage, directory), judge_storage)
    view = None
    if state is None or space is None:
        exam.note("stored study", skipped("needs storage" if state is None else "needs search space"))
    elif not state.has_study:
        exam.note("stored study", ok("nothing is stored yet"))
    else:
        known = space
        view = exam.ask(
            "stored study",
            lambda: read_stored(settings, directory),
            lambda stored: judge_stored(stored, settings, known, read_fingerprint(settings, directory)),
        )
    exam.ask("holder", lambda: look_for_holder(directory), judge_holder)
    exam.ask(
        "left behind",
        (directory / RECORD_NAME).exists,
        lambda is_left: judge_left_behind(settings.name, is_left=is_left),
    )
    exam.skip_rest(Area.STUDY, "needs search space")
    return StudyFacts(space, view)


def judge_space(space: SearchSpace, trials: int | None) -> Judgement:
    """Say how many configurations there are, beside the trials asked for."""
    points = 1
    for parameter in space.parameters.values():
        points *= parameter.size
    found = f"{space.name}: {space.size} configurations differ, of {points} points"
    if space.size == 1:
        return problem(f"{found}, so there is nothing to search", "widen the search space", UserError)
    if trials is not None and trials > space.size:
        return warning(f"{found}; {trials} trials are more", "the study ends when all were measured; ask for fewer")
    return ok(found if trials is None else f"{found}; {trials} trials see {100 * trials / space.size:.0f} % of them")


def judge_listed(space: SearchSpace, settings: StudySettings) -> Judgement:
    """See that the baseline and the listed configurations are in the space.

    Raises:
        SearchSpaceError: one is not.
    """
    baseline = space.resolve(settings.baseline)
    listed = {space.key(space.resolve(values)) for values in settings.try_}
    same = " (the baseline itself is among them)" if space.key(baseline) in listed else ""
    return ok(f"baseline {space.describe(baseline)}; {len(listed)} listed{same}")


def judge_exercise(sentences: tuple[str, ...]) -> Judgement:
    """Say which parameters no cell exercises."""
    if not sentences:
        return ok("every parameter acts in some cell")
    return warning("; ".join(sentences), "add a cell that exercises it, or take it out of the search space")


def look_at_storage(url: str | None, directory: Path) -> StorageState:
    """Look where trials are to be stored, and write nothing.

    Raises:
        SettingsError: the URL is wrong, its driver is missing, or its server does not answer.
    """
    if url is None:
        return _look_at_file(directory / DATABASE_NAME)
    import sqlalchemy  # noqa: PLC0415  # slow to import

    try:
        parsed = sqlalchemy.make_url(url)
    except sqlalchemy.exc.ArgumentError as error:
        raise SettingsError("storage is no URL", where="storage", hint="see docs/settings.md") from error
    if parsed.get_backend_name() == "sqlite":
        return _look_at_file(Path(parsed.database or ":memory:"))
    place = parsed.render_as_string(hide_password=True)
    try:
        engine = sqlalchemy.create_engine(parsed, connect_args={"connect_timeout": _CONNECT_TIMEOUT_S})
        try:
            return StorageState(place, sqlalchemy.inspect(engine).has_table("studies"))
        finally:
            engine.dispose()
    except (sqlalchemy.exc.SQLAlchemyError, ImportError) as error:
        said = str(error).splitlines()[0].replace(url, place)
        raise SettingsError(
            f"the study's storage cannot be reached: {said}",
            where=place,
            hint="check the URL, the server, and that its driver is installed",
        ) from error


def _look_at_file(path: Path) -> StorageState:
    """Look at a SQLite file, opened for reading only.

    Raises:
        SettingsError: it is no database.
    """
    has_study = False
    if path.is_file():
        try:
            with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
                found = connection.execute("select count(*) from sqlite_master where name = 'studies'").fetchone()
        except sqlite3.Error as error:
            raise SettingsError(
                f"the study's database cannot be read: {error}", where=str(path), hint="name another file"
            ) from error
        has_study = bool(found[0])
    return StorageState(str(path), has_study, _find_blocked(path))


def _find_blocked(path: Path) -> str | None:
    """Return why a file cannot be written, or be made together with its folder."""
    if path.exists():
        for place in (path, path.parent):
            if not os.access(place, os.W_OK):
                return f"{place} cannot be written"
        nearest = path
    else:
        nearest = next(folder for folder in path.absolute().parents if folder.exists())
        if not nearest.is_dir():
            return f"{nearest} is no folder"
        if not os.access(nearest, os.W_OK | os.X_OK):
            return f"{nearest} cannot be written"
    return f"{nearest} is on a read-only disk" if os.statvfs(nearest).f_flag & os.ST_RDONLY else None


def judge_storage(state: StorageState) -> Judgement:
    """Say whether trials can be stored."""
    if state.blocked is not None:
        return problem(state.blocked, "make it writable, or name another folder with --study-directory", UserError)
    return ok(f"{state.place} {'holds studies' if state.has_study else 'can be made'}")


def read_stored(settings: StudySettings, directory: Path) -> StudyView | None:
    """Read the stored study; ``None`` when the storage holds no study of this name."""
    try:
        return load_study(directory, storage=settings.storage, name=settings.name)
    except StudyMismatchError as error:
        if error.message == "there is no study here":
            return None
        raise


def read_fingerprint(settings: StudySettings, directory: Path) -> str | None:
    """Return the fingerprint of the search space with which the study was stored; ``None`` when it is not known."""
    store = TrialStore.open(settings.storage or sqlite_url(directory / DATABASE_NAME), settings.name, objectives=None)
    if store is None:
        return None
    try:
        fingerprint = store.read("search_space")
    finally:
        store.close()
    return fingerprint if isinstance(fingerprint, str) else None


def judge_stored(
    view: StudyView | None, settings: StudySettings, space: SearchSpace, fingerprint: str | None
) -> Judgement:
    """Compare the stored study with the file."""
    if view is None:
        return ok("no study of this name is stored yet")
    differences = list(find_differences(view.settings, settings))
    if fingerprint is not None and fingerprint != space.fingerprint:
        differences.append(f"the search space {space.name!r} has other configurations or flags than before")
    if differences:
        return problem(
            f"it was made with other settings: {'; '.join(differences)}",
            "put them back to go on, or give the study another name",
            StudyMismatchError,
        )
    return ok(f"{view.counted} trials are counted so far")


def look_for_holder(directory: Path) -> str | None:
    """Name the process that works on the study; ``None`` when there is none."""
    if not (directory / LOCK_NAME).exists() or is_free(directory):
        return None
    pid = read_holder(directory)
    return "another process" if pid is None else f"process {pid}"


def judge_holder(holder: str | None) -> Judgement:
    """Say who works on the study."""
    if holder is None:
        return ok("nobody works on this study")
    return problem(f"{holder} is working on this study", "wait for it to end, or stop it", HostBusyError)


def judge_left_behind(name: str, *, is_left: bool) -> Judgement:
    """Say whether a killed command left something, or one that is still at work will put it back."""
    if not is_left:
        return ok("no command left the server changed")
    return warning(
        "host.json is there: a command changed the server and has not put it back",
        f"if none is at work: autotune restore {name}; the next optimize does the same first",
    )
