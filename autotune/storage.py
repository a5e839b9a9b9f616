"""Where do trials live? In Optuna's own relational storage, one Optuna trial for each of ours.

Optuna's view of a trial is for its dashboard and its tools only; our own state is in the user attributes, and nothing of
ours reads anything else. The table of :data:`TOLD` is the one place that says how our states are told to Optuna;
``docs/decisions/0003-three-objectives-two-of-them-searched.md`` says why.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self

import optuna
import sqlalchemy
from optuna.distributions import BaseDistribution
from optuna.exceptions import ExperimentalWarning, StorageInternalError
from optuna.storages import RDBStorage
from optuna.study import StudyDirection
from optuna.trial import TrialState as OptunaState

from autotune.errors import HostError, SettingsError, StudyMismatchError
from autotune.trial import Configuration, TrialState

TOLD: Final[Mapping[TrialState, OptunaState]] = {
    TrialState.SUGGESTED: OptunaState.RUNNING,
    TrialState.DEPLOYING: OptunaState.RUNNING,
    TrialState.MEASURING: OptunaState.RUNNING,
    TrialState.COMPLETE: OptunaState.COMPLETE,  # with its values and constraints
    TrialState.PRUNED: OptunaState.PRUNED,  # Optuna refuses values here; the cells stay in the attributes
    TrialState.INFEASIBLE: OptunaState.COMPLETE,  # with measured values and the missed constraint; PRUNED without values
    TrialState.FAILED: OptunaState.FAIL,
    TrialState.DUPLICATE: OptunaState.FAIL,
    TrialState.INTERRUPTED: OptunaState.FAIL,
}
"""Our state -> Optuna's."""

Distributions = Mapping[str, BaseDistribution]
"""Optuna's distribution of every parameter, by name."""

SQLITE_TIMEOUT_S: Final = 60.0
"""How long a writer waits for a reader, and the other way round."""

_CAUSES: Final[Mapping[str, tuple[str, str]]] = {
    "disk is full": ("the disk is full", "make room, then run the same command again"),
    "is locked": ("another program keeps the database locked", "end it, then run the same command again"),
    "readonly": ("the database is read-only", "make it and its folder writable, then run the same command again"),
}
"""What SQLite says -> what happened, and what to do next."""

_REMOVED: Final = (
    "its file, or the whole folder, was removed while it was in use",
    "put the folder of the study back and run the same command again; without it, that command begins anew",
)


class TrialStore:
    """One study in an Optuna storage: attributes of the study, and trials made of attributes.

    Args:
        storage: an open storage.
        study_id: Optuna's id of the study in it.

    Every method but ``close`` raises :class:`HostError` when the storage cannot be read or written any more.
    """

    def __init__(self, storage: RDBStorage, study_id: int) -> None:
        self._storage = storage
        self._study_id = study_id
        self._ids: dict[int, int] = {}

    @classmethod
    def open(
        cls, url: str, name: str | None, *, objectives: Sequence[str] | None, alone_in: Path | None = None
    ) -> Self | None:
        """Open a study.

        Args:
            url: SQLAlchemy URL.
            name: Optuna's name of the study; ``None`` is the only one there, whatever it is called.
            objectives: names of the objectives of a study that is to be made; ``None`` never makes one.
            alone_in: folder of the storage, where a study is made only while no other one is there.

        Returns:
            ``None`` when there is no such study and none is to be made.

        Raises:
            SettingsError: the storage cannot be opened.
            StudyMismatchError: the folder belongs to another study.
            HostError: the study cannot be made in it.
        """
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        make = objectives is not None
        try:
            storage = RDBStorage(
                # Optuna fills in braces of a URL, so those of a path are doubled.
                url.replace("{", "{{").replace("}", "}}"),
                engine_kwargs={"connect_args": {"timeout": SQLITE_TIMEOUT_S}} if url.startswith("sqlite") else {},
                skip_table_creation=not make,
            )
            studies = {study.study_name: study._study_id for study in storage.get_all_studies()}  # noqa: SLF001
        except (sqlalchemy.exc.SQLAlchemyError, StorageInternalError, ImportError, RuntimeError) as error:
            safe = _without_password(url)
            raise SettingsError(
                f"the study's storage cannot be opened: {error}".replace(url, safe),
                where=safe,
                hint="check the URL, the server, and that its driver is installed",
            ) from error
        if name is None and len(studies) == 1:
            name = next(iter(studies))
        if name in studies:
            return cls(storage, studies[name])
        if objectives is None or name is None:
            _dispose(storage)
            return None
        if alone_in is not None and studies:
            _dispose(storage)
            raise StudyMismatchError(
                f"another study is here: {', '.join(sorted(studies))}; {name!r} cannot be put beside it",
                where=str(alone_in),
                hint="name another folder with --study-directory",
            )
        with _reached(storage):
            study_id = storage.create_new_study([StudyDirection.MAXIMIZE] * len(objectives), name)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ExperimentalWarning)
                optuna.load_study(study_name=name, storage=storage).set_metric_names(list(objectives))
        return cls(storage, study_id)

    def close(self) -> None:
        """Close all connections."""
        _dispose(self._storage)

    def read(self, key: str) -> Any:
        """Return an attribute of the study; ``None`` when it was never written."""
        with _reached(self._storage):
            return self._storage.get_study_user_attrs(self._study_id).get(key)

    def write(self, key: str, value: Any) -> None:
        """Write an attribute of the study, at once."""
        with _reached(self._storage):
            self._storage.set_study_user_attr(self._study_id, key, value)

    def trials(self) -> list[tuple[int, bool, dict[str, Any]]]:
        """Return number, whether Optuna has it open, and attributes of every trial, by number."""
        with _reached(self._storage):
            return [
                (trial.number, not trial.state.is_finished(), trial.user_attrs)
                for trial in self._storage.get_all_trials(self._study_id, deepcopy=False)
                if "state" in trial.user_attrs
            ]

    def attributes(self, number: int) -> dict[str, Any]:
        """Return the attributes of one trial."""
        with _reached(self._storage):
            return dict(self._storage.get_trial(self._id(number)).user_attrs)

    def add(
        self,
        configuration: Configuration,
        distributions: Distributions,
        attributes: Mapping[str, Any],
    ) -> int:
        """Store an open trial with all its attributes in one transaction and return its number."""
        template = optuna.trial.create_trial(
            state=OptunaState.RUNNING,
            params=dict(configuration),
            distributions=dict(distributions),
            user_attrs=dict(attributes),
        )
        with _reached(self._storage):
            trial_id = self._storage.create_new_trial(self._study_id, template)
            number = self._storage.get_trial_number_from_id(trial_id)
        self._ids[number] = trial_id
        return number

    def write_trial(self, number: int, key: str, value: Any) -> None:
        """Write an attribute of an open trial, at once."""
        with _reached(self._storage):
            self._storage.set_trial_user_attr(self._id(number), key, value)

    def finish(
        self,
        number: int,
        state: TrialState,
        values: Sequence[float] | None = None,
        constraints: Mapping[str, float] | None = None,
    ) -> None:
        """Tell Optuna the end of a trial, by :data:`TOLD`.

        Args:
            number: the trial.
            state: our final state.
            values: the objectives; for COMPLETE always, for INFEASIBLE when they were measured.
            constraints: 0 or less is met; always all of them in one order, or none.
        """
        with _reached(self._storage):
            trial_id = self._id(number)
            for name, value in (constraints or {}).items():
                self._storage.set_trial_system_attr(trial_id, f"constraints:{name}", value)
            told = TOLD[state]
            if told is OptunaState.COMPLETE and values is None:
                told = OptunaState.PRUNED
            self._storage.set_trial_state_values(trial_id, told, values if told is OptunaState.COMPLETE else None)

    def _id(self, number: int) -> int:
        if number not in self._ids:
            self._ids[number] = self._storage.get_trial_id_from_study_id_trial_number(self._study_id, number)
        return self._ids[number]


def sqlite_url(path: Path) -> str:
    """Return the URL of a SQLite file."""
    return sqlalchemy.URL.create("sqlite", database=str(path.resolve())).render_as_string()


@contextmanager
def _reached(storage: RDBStorage) -> Iterator[None]:
    """Say what is wrong with the host when the storage fails."""
    try:
        yield
    except (sqlalchemy.exc.SQLAlchemyError, StorageInternalError) as error:
        url = storage.engine.url
        is_file = url.get_backend_name() == "sqlite"
        said = str(error.__cause__ if isinstance(error, StorageInternalError) and error.__cause__ else error)
        what, hint = next(
            (cause for words, cause in _CAUSES.items() if words in said),
            ((said or type(error).__name__).splitlines()[0], "see to the storage, then run the same command again"),
        )
        if is_file and url.database and not Path(url.database).exists():  # SQLite calls a file without a name read-only
            what, hint = _REMOVED
        where = url.database if is_file else url.render_as_string(hide_password=True)
        raise HostError(f"the study's storage failed: {what}", where=where, hint=hint) from error


def _without_password(url: str) -> str:
    """Return a URL that may be shown."""
    try:
        return sqlalchemy.make_url(url).render_as_string(hide_password=True)
    except sqlalchemy.exc.ArgumentError:
        return "storage"


def _dispose(storage: RDBStorage) -> None:
    storage.remove_session()
    storage.engine.dispose()
