"""What is known of every trial, when this process alone writes them? Each write is on disk first, each read is from memory."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from autotune.storage import Distributions, TrialStore
from autotune.trial import Configuration, TrialRecord, TrialState
from autotune.trial_attributes import load_trial


class TrialLedger:
    """All trials of a study that is locked by this process.

    Args:
        store: where they are written; read once, here.
    """

    def __init__(self, store: TrialStore) -> None:
        self._store = store
        self._attributes: dict[int, dict[str, Any]] = {}
        self._records: dict[int, TrialRecord] = {}
        self._open: set[int] = set()
        for number, is_open, attributes in store.trials():
            self._attributes[number] = dict(attributes)
            if is_open:
                self._open.add(number)

    def records(self) -> tuple[TrialRecord, ...]:
        """Return all trials by number."""
        return tuple(self.record(number) for number in self._attributes)

    def record(self, number: int) -> TrialRecord:
        """Return one trial.

        Raises:
            KeyError: there is no such trial.
        """
        if number not in self._records:
            self._records[number] = load_trial(number, self._attributes[number])
        return self._records[number]

    def untold(self) -> tuple[TrialRecord, ...]:
        """Return the trials whose end Optuna was not told, by number."""
        return tuple(self.record(number) for number in sorted(self._open))

    def add(
        self,
        configuration: Configuration,
        distributions: Distributions,
        attributes: Mapping[str, Any],
    ) -> int:
        """Store an open trial and return its number."""
        plain = _as_stored(attributes)
        number = self._store.add(configuration, distributions, plain)
        self._attributes[number] = plain
        self._open.add(number)
        return number

    def write(self, number: int, attributes: Mapping[str, Any]) -> None:
        """Store attributes of an open trial one after the other, at once.

        Raises:
            ValueError: the trial has ended.
            KeyError: there is no such trial.
        """
        known = self._attributes[number]
        if TrialState(known["state"]).is_final:
            raise ValueError(f"trial {number} has ended as {known['state']} and cannot change any more")
        for key, value in _as_stored(attributes).items():
            self._store.write_trial(number, key, value)
            self._records.pop(number, None)
            known[key] = value

    def finish(
        self,
        number: int,
        state: TrialState,
        values: Sequence[float] | None = None,
        constraints: Mapping[str, float] | None = None,
    ) -> None:
        """Tell Optuna the end of a trial whose own state is final."""
        self._store.finish(number, state, values, constraints)
        self._open.discard(number)


def _as_stored(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes as they come back from the database: tuples as lists, every key a text."""
    plain: dict[str, Any] = json.loads(json.dumps(dict(attributes)))
    return plain
