"""What does a study look like to somebody who only reads it, even while its tuner runs?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from autotune.baseline import pool_baseline
from autotune.errors import StudyMismatchError
from autotune.pareto import Point, point_of, reference_point
from autotune.search_space import SearchSpace, search_space_of
from autotune.settings import StudySettings
from autotune.settings_difference import load_settings_dump
from autotune.storage import TrialStore, sqlite_url
from autotune.trial import TrialKind, TrialRecord
from autotune.trial_attributes import load_trial

DATABASE_NAME: Final = "study.db"
"""The study's SQLite file in its folder."""

PLAIN_ARM: Final = "plain"
"""The arm of a search space that decodes without speculation."""


@dataclass(frozen=True, slots=True)
class StudyView:
    """A study at one moment.

    Attributes:
        settings: as stored when the study was last opened; ``storage`` is never stored.
        space: its search space.
        trials: by number, duplicates and interrupted ones included.
        reference: fixed reference of the hypervolume, tokens/s at C=1 and C=32; ``None`` until the first arms are measured.
    """

    settings: StudySettings
    space: SearchSpace
    trials: tuple[TrialRecord, ...]
    reference: Point | None = None

    @property
    def baseline(self) -> TrialRecord | None:
        """The baseline, all its complete boots pooled cell by cell; ``None`` until one is complete."""
        return pool_baseline(self.trials, self.settings)

    @property
    def counted(self) -> int:
        """Trials that used up one of ``--trials``."""
        return sum(trial.is_counted for trial in self.trials)


def read_view(settings: StudySettings, space: SearchSpace, store: TrialStore) -> StudyView:
    """Read everything from an open store."""
    trials = tuple(load_trial(number, attributes) for number, _, attributes in store.trials())
    reference = store.read("reference")
    return StudyView(settings, space, trials, None if reference is None else tuple(reference))


def load_study(directory: Path, *, storage: str | None = None, name: str | None = None) -> StudyView:
    """Read a study without a lock; safe while its tuner runs.

    Args:
        directory: folder of the study.
        storage: SQLAlchemy URL when it is not the SQLite file of the folder.
        name: the study's name; default: that of the folder, and in the folder's own file the only one there is.

    Raises:
        StudyMismatchError: there is no study here, or another version made it.
        SearchSpaceError: its search space is not there any more.
        SettingsError: the storage cannot be opened.
    """
    path = directory / DATABASE_NAME
    if storage is None and not path.is_file():
        raise missing_study(directory)
    if name is None and storage is not None:
        name = directory.resolve().name
    store = TrialStore.open(storage or sqlite_url(path), name, objectives=None)
    if store is None:
        raise missing_study(directory)
    try:
        stored = store.read("settings")
        if stored is None:
            raise missing_study(directory)
        settings = load_settings_dump(stored, str(directory))
        return read_view(settings, search_space_of(settings), store)
    finally:
        store.close()


def missing_study(directory: Path) -> StudyMismatchError:
    """Return the error for a folder without a study."""
    return StudyMismatchError(
        "there is no study here", where=str(directory), hint="start one with: autotune optimize STUDY.toml"
    )


def study_reference(trials: Sequence[TrialRecord], settings: StudySettings, space: SearchSpace) -> Point | None:
    """Return the reference that the first arms give: the baseline, and plain decoding where the space has it.

    Returns:
        ``None`` until the baseline is complete and plain decoding is measured; once the sampler's first trial has ended,
        plain decoding is waited for no longer.
    """
    baseline = pool_baseline(trials, settings)
    if baseline is None:
        return None
    plain = next(
        (
            trial
            for trial in trials
            if space.arm(trial.configuration) == PLAIN_ARM and point_of(trial.objectives) is not None
        ),
        None,
    )
    has_plain = any(space.arm(configuration) == PLAIN_ARM for configuration in space.configurations)
    is_searching = any(trial.kind is TrialKind.SEARCH and trial.state.counts for trial in trials)
    if plain is None and has_plain and not is_searching:
        return None
    return reference_point(baseline, plain)
