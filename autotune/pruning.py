"""Can this trial still reach the front? Pure; Optuna's own pruning refuses studies with several objectives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autotune.settings import StudySettings
from autotune.trial import TrialRecord


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether to stop a trial, and why.

    Attributes:
        prune: True to stop it now.
        reason: one sentence for the user, either way.
        bound_c1: highest tokens/s at C=1 that it can still reach; ``None`` when unknown.
        bound_c32: same at C=32.
    """

    prune: bool
    reason: str
    bound_c1: float | None
    bound_c32: float | None


def decide(trial: TrialRecord, history: Sequence[TrialRecord], settings: StudySettings) -> Decision:
    """Judge an open trial after a stage from its finished cells and those of all other trials."""
    raise NotImplementedError
