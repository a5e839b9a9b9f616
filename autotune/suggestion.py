"""What is still to be booted, and was it measured before? Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from autotune.search_space import SearchSpace
from autotune.settings import StudySettings
from autotune.trial import CellMeasurement, Configuration, TrialKind, TrialRecord, TrialState

MAX_FAILURES: Final = 2
"""Times that one configuration may fail for unknown reasons before it is left alone."""

MAX_ATTEMPTS: Final = 3
"""Failed and interrupted trials of one configuration before it is left alone: it may be what ends the tuner."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A configuration to boot next.

    Attributes:
        configuration: canonical form.
        kind: who asked for it.
        retries: number of the interrupted trial that this one takes up; ``None`` for a first attempt.
        cells: finished cells of that interrupted trial, measured in its boot.
    """

    configuration: Configuration
    kind: TrialKind
    retries: int | None = None
    cells: tuple[CellMeasurement, ...] = ()


def measured_as(configuration: Configuration, trials: Sequence[TrialRecord], space: SearchSpace) -> TrialRecord | None:
    """Return the first trial that answers this configuration from history; ``None`` when it has to be booted."""
    return next((trial for trial in _attempts(configuration, trials, space) if trial.state.counts), None)


def is_settled(configuration: Configuration, trials: Sequence[TrialRecord], space: SearchSpace) -> bool:
    """Return whether a configuration must not be booted again: measured, or given up after too many attempts."""
    attempts = list(_attempts(configuration, trials, space))
    failed = sum(trial.state is TrialState.FAILED for trial in attempts)
    interrupted = sum(trial.state is TrialState.INTERRUPTED for trial in attempts)
    return (
        any(trial.state.counts for trial in attempts) or failed >= MAX_FAILURES or failed + interrupted >= MAX_ATTEMPTS
    )


def find_retry(trials: Sequence[TrialRecord], space: SearchSpace) -> Suggestion | None:
    """Return the first interrupted trial that was not taken up yet, to be tried once more."""
    last = {
        space.key(trial.configuration): trial
        for trial in trials
        if trial.kind is not TrialKind.BASELINE and trial.state is not TrialState.DUPLICATE
    }
    for trial in last.values():
        is_first_attempt = trial.attributes.get("retries") is None
        if (
            trial.state is TrialState.INTERRUPTED
            and is_first_attempt
            and not is_settled(trial.configuration, trials, space)
        ):
            return Suggestion(trial.configuration, trial.kind, trial.number, trial.cells)
    return None


def find_listed(trials: Sequence[TrialRecord], settings: StudySettings, space: SearchSpace) -> Iterator[Configuration]:
    """Yield the listed configurations that no listed trial has answered yet, in the order of the list, each once."""
    answered = {
        space.key(trial.configuration)
        for trial in trials
        if trial.kind is TrialKind.LISTED and (trial.state.counts or trial.state is TrialState.DUPLICATE)
    }
    for values in settings.try_:
        configuration = space.resolve(values)
        key = space.key(configuration)
        is_given_up = is_settled(configuration, trials, space) and measured_as(configuration, trials, space) is None
        if key not in answered and not is_given_up:
            answered.add(key)
            yield configuration


def _attempts(configuration: Configuration, trials: Sequence[TrialRecord], space: SearchSpace) -> Iterator[TrialRecord]:
    """Yield every trial that booted this configuration, or tried to."""
    key = space.key(configuration)
    for trial in trials:
        if trial.state is not TrialState.DUPLICATE and space.key(trial.configuration) == key:
            yield trial
