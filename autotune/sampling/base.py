"""What does the study ask of whoever proposes configurations?"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from autotune.search_space import SearchSpace
from autotune.settings import StudySettings
from autotune.trial import Configuration, TrialRecord


@dataclass(frozen=True, slots=True)
class AcceptLengthEvidence:
    """What is known of the accept length of a configuration without booting it, for example from replayed drafts.

    Attributes:
        configuration: canonical form.
        accept_length: tokens a step, over the prompts of the study.
        deviation: standard deviation of the error of its log, bias included.
        source: where it comes from, in words.
    """

    configuration: Configuration
    accept_length: float
    deviation: float
    source: str


@dataclass(frozen=True, slots=True)
class History:
    """What is known when a configuration is proposed.

    Attributes:
        settings: the study.
        trials: finished trials by number, without interrupted ones, so that a killed and resumed study has the history of
            one that never stopped.
        baseline: the pooled baseline; ``None`` while there is none.
        evidence: of accept lengths, beside what the trials measured.
    """

    settings: StudySettings
    trials: tuple[TrialRecord, ...]
    baseline: TrialRecord | None
    evidence: tuple[AcceptLengthEvidence, ...] = ()


class Sampler(Protocol):
    """Proposes configurations; the same history and the same random numbers give the same proposal."""

    def propose(
        self, history: History, space: SearchSpace, pending: Sequence[Configuration], rng: random.Random
    ) -> Configuration:
        """Return one canonical configuration of the space; it may have been measured before.

        Args:
            history: finished trials.
            space: where to look.
            pending: configurations that are being measured now.
            rng: the only source of chance.
        """
        ...


@runtime_checkable
class StoppingSampler(Sampler, Protocol):
    """A sampler that knows when to stop."""

    def explain_exhaustion(self, history: History, space: SearchSpace) -> str | None:
        """Return the sentence that says why nothing is left to win; ``None`` while something is, or too little is known."""
        ...
