"""What is a kind of information worth? A sampler from which it is withheld proposes what it would without it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum

from autotune.sampling.base import History, Sampler
from autotune.search_space import SearchSpace
from autotune.trial import Configuration, TrialRecord, TrialState


class Information(Enum):
    """A kind of information that a trial gives beside its speeds."""

    ACCEPT_LENGTH = "accept length"
    """Tokens a step: without it a speed cannot be taken apart."""
    PRUNED_CELLS = "cells of pruned trials"
    """What a trial measured before it was stopped."""
    INFEASIBILITY = "infeasible trials"
    """That a configuration did not start."""
    FREE_MEMORY = "free memory"
    """How much memory a server left free."""
    HISTOGRAMS = "histograms of accepted lengths"
    """How many steps accepted how many drafted tokens: what smaller blocks would have accepted."""


class WithheldSampler:
    """Asks another sampler, and keeps a kind of information from it.

    Args:
        sampler: who is asked.
        withheld: what it never sees.
    """

    def __init__(self, sampler: Sampler, withheld: Information) -> None:
        self._sampler = sampler
        self._withheld = withheld

    def propose(
        self, history: History, space: SearchSpace, pending: Sequence[Configuration], rng: random.Random
    ) -> Configuration:
        """Return what the other sampler proposes from what it sees.

        A trial that it does not see is pending for it, so that it does not propose the same again.
        """
        seen, hidden = [], []
        for trial in history.trials:
            shown = _withhold(trial, self._withheld)
            if shown is None:
                hidden.append(trial.configuration)
            else:
                seen.append(shown)
        baseline = None if history.baseline is None else _withhold(history.baseline, self._withheld)
        shortened = replace(history, trials=tuple(seen), baseline=baseline)
        return self._sampler.propose(shortened, space, [*pending, *hidden], rng)


def _withhold(trial: TrialRecord, withheld: Information) -> TrialRecord | None:
    """Return the trial without one kind of information; ``None`` when nothing is left of it."""
    match withheld:
        case Information.ACCEPT_LENGTH:
            cells = tuple(
                replace(cell, accept_length=None, step_time_s=None, accepted_histogram=()) for cell in trial.cells
            )
            evaluation = trial.evaluation and replace(trial.evaluation, accept_length=None, cell=None)
            return replace(trial, cells=cells, evaluation=evaluation)
        case Information.PRUNED_CELLS:
            return replace(trial, cells=()) if trial.state is TrialState.PRUNED else trial
        case Information.INFEASIBILITY:
            return None if trial.state is TrialState.INFEASIBLE else trial
        case Information.HISTOGRAMS:
            return replace(trial, cells=tuple(replace(cell, accepted_histogram=()) for cell in trial.cells))
        case Information.FREE_MEMORY:
            return replace(trial, boot=trial.boot and replace(trial.boot, free_memory_gb=None))
