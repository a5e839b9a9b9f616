"""Which trials does no other beat, how large is the front, and which point is recommended? Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autotune.settings import ExportSettings
from autotune.trial import TrialRecord


@dataclass(frozen=True, slots=True)
class FrontPoint:
    """One point of the front: tokens/s at C=1 and at C=32 (and pass@1 where it is an axis), and who reached it."""

    values: tuple[float, ...]
    trials: tuple[TrialRecord, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """The recommended trial and the sentence that says why; ``trial`` is the baseline when nothing beats it."""

    trial: TrialRecord
    reason: str


def front(trials: Sequence[TrialRecord], *, with_pass_at_1: bool = False) -> tuple[FrontPoint, ...]:
    """Feasible complete trials that no other dominates, fastest at C=1 first; equal points are listed once."""
    raise NotImplementedError


def hypervolume(points: Sequence[tuple[float, ...]], reference: tuple[float, ...]) -> float:
    """Volume between the reference and the front of ``points``."""
    raise NotImplementedError


def choose(trials: Sequence[TrialRecord], baseline: TrialRecord, rule: ExportSettings) -> Choice:
    """Choose one point of the front by a stated rule."""
    raise NotImplementedError
