"""What is to be booted next, and was it measured before? Nothing here writes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from autotune.baseline import pool_baseline
from autotune.replay.evidence import find_evidence
from autotune.replay.tree_shape import choose_logger
from autotune.sampling.base import History, Sampler, StoppingSampler
from autotune.search_space import SearchSpace
from autotune.servers.sglang import wants_draft_hook
from autotune.settings import StudySettings
from autotune.trial import CellMeasurement, Configuration, ConfirmationBoot, TrialKind, TrialRecord, TrialState

MAX_FAILURES: Final = 2
"""Times that one configuration may fail for unknown reasons before it is left alone."""

MAX_REPEATS: Final = 3
"""Proposals that were measured before, in a row, until an unmeasured configuration is drawn at random instead."""

MAX_ATTEMPTS: Final = 3
"""Failed and interrupted trials of one configuration before it is left alone: it may be what ends the tuner."""


ASKED: Final = "asked"
"""Attribute with the configuration that was asked for, where the server has made another one of it."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A configuration to boot next.

    Attributes:
        configuration: canonical form.
        kind: who asked for it.
        retries: number of the interrupted trial that this one takes up; ``None`` for a first attempt.
        cells: finished cells of that interrupted trial, measured in its boot.
        confirmation: which boot of a confirmation it is; ``None`` for every other kind.
    """

    configuration: Configuration
    kind: TrialKind
    retries: int | None = None
    cells: tuple[CellMeasurement, ...] = ()
    confirmation: ConfirmationBoot | None = None

    @property
    def is_baseline(self) -> bool:
        """Whether it is the baseline, which must serve, that is booted."""
        return self.kind is TrialKind.BASELINE or (self.confirmation is not None and self.confirmation.leader is None)


@dataclass(frozen=True, slots=True)
class Answer:
    """What comes next, and what was asked on the way and is answered from history.

    Attributes:
        suggestion: ``None`` when nothing is left to boot.
        duplicates: each with the trial that answers it, in the order they were asked.
        exhaustion: why the sampler sees nothing left to win; ``None`` unless that is why there is no suggestion.
    """

    suggestion: Suggestion | None
    duplicates: tuple[tuple[Suggestion, TrialRecord], ...] = ()
    exhaustion: str | None = None


def find_next(
    trials: Sequence[TrialRecord],
    settings: StudySettings,
    space: SearchSpace,
    sampler: Sampler,
    *,
    listed_only: bool = False,
) -> Answer:
    """Find what comes next: interrupted again, then listed, then proposed by the sampler.

    Args:
        trials: all trials by number.
        settings: the study.
        space: its search space.
        sampler: who is asked last.
        listed_only: never ask the sampler, and do not take up what it had proposed.
    """
    again = find_retry(trials, space)
    if again is not None and not (listed_only and again.kind is TrialKind.SEARCH):
        return Answer(again)
    duplicates: list[tuple[Suggestion, TrialRecord]] = []
    for configuration in find_listed(trials, settings, space):
        listed = Suggestion(configuration, TrialKind.LISTED)
        known = measured_as(configuration, trials, space)
        if known is None:
            return Answer(listed, tuple(duplicates))
        duplicates.append((listed, known))
    if listed_only:
        return Answer(None, tuple(duplicates))
    asked = _ask(trials, settings, space, sampler)
    return Answer(asked.suggestion, (*duplicates, *asked.duplicates), asked.exhaustion)


def _ask(trials: Sequence[TrialRecord], settings: StudySettings, space: SearchSpace, sampler: Sampler) -> Answer:
    """Ask the sampler until a proposal is new; after a few repeats draw a new one at random.

    Chance depends on the seed and on how many proposals were decided before, interrupted ones left out: a study that was
    killed and resumed is asked the same as one that never stopped.
    """
    settled = settled_keys(trials, space)
    left = [item for item in space.configurations if space.key(item) not in settled]
    if not left:
        return Answer(None)
    history = read_history(trials, settings, space)
    if settings.sampler.stop_when_exhausted and isinstance(sampler, StoppingSampler):
        reason = sampler.explain_exhaustion(history, space)
        if reason is not None:
            return Answer(None, exhaustion=reason)
    pending = [trial.configuration for trial in trials if not trial.state.is_final]
    duplicates: list[tuple[Suggestion, TrialRecord]] = []
    repeats: list[TrialRecord] = []
    while True:
        decided = (*history.trials, *repeats)
        proposed_before = sum(trial.kind is TrialKind.SEARCH for trial in decided)
        rng = random.Random(f"{settings.seed}:{proposed_before}")  # noqa: S311  # chance, not secrecy
        if len(duplicates) == MAX_REPEATS:
            break
        # A repeat counts as being measured, so that a sampler that knows the answer looks elsewhere.
        busy = [*pending, *(trial.configuration for trial in repeats)]
        proposal = sampler.propose(replace(history, trials=decided), space, busy, rng)
        if space.key(proposal) not in settled:
            return Answer(Suggestion(proposal, TrialKind.SEARCH), tuple(duplicates))
        known = measured_as(proposal, trials, space)
        if known is None:  # given up: history has no answer, so it is no duplicate either
            break
        duplicates.append((Suggestion(proposal, TrialKind.SEARCH), known))
        repeats.append(TrialRecord(len(trials) + len(repeats), TrialKind.SEARCH, TrialState.DUPLICATE, proposal))
    return Answer(Suggestion(rng.choice(left), TrialKind.SEARCH), tuple(duplicates))


def read_history(trials: Sequence[TrialRecord], settings: StudySettings, space: SearchSpace) -> History:
    """Return what a sampler is told of a study: its ended trials but interrupted ones, profiles and soaks."""
    told = tuple(
        trial
        for trial in trials
        if trial.state.is_final
        and trial.state is not TrialState.INTERRUPTED
        and trial.kind is not TrialKind.PROFILE
        and not trial.is_soak
    )
    return History(settings, told, pool_baseline(trials, settings), find_evidence(trials, space))


def find_profile(trials: Sequence[TrialRecord], settings: StudySettings, space: SearchSpace) -> Suggestion | None:
    """Return the configuration whose drafts are worth logging; ``None`` when nothing is to be profiled.

    A study is profiled once. A profile that failed is tried once more by a later command, an interrupted one again.
    """
    if not is_profile_due(trials, settings):
        return None
    configuration = choose_logger(space, only_full_trees=wants_draft_hook(settings))
    return None if configuration is None else Suggestion(configuration, TrialKind.PROFILE)


def is_profile_due(trials: Sequence[TrialRecord], settings: StudySettings) -> bool:
    """Whether a study wants a profile that it does not have yet."""
    states = Counter(trial.state for trial in trials if trial.kind is TrialKind.PROFILE)
    return settings.wants_profile and not states[TrialState.COMPLETE] and states[TrialState.FAILED] < MAX_FAILURES


def measured_as(configuration: Configuration, trials: Sequence[TrialRecord], space: SearchSpace) -> TrialRecord | None:
    """Return the first trial that answers this configuration from history; ``None`` when it has to be booted."""
    key = space.key(configuration)
    for trial in trials:
        if trial.kind is TrialKind.PROFILE:
            continue
        if trial.state.counts and key in _answered_keys(trial, space):
            return trial
        if trial.state is TrialState.DUPLICATE and key == _asked_key(trial, space):
            return next((other for other in trials if other.number == trial.attributes.get("duplicate_of")), None)
    return None


def _answered_keys(trial: TrialRecord, space: SearchSpace) -> set[str]:
    """Keys of the configurations that a trial answers: its own, and what was asked for where that became another one."""
    asked = _asked_key(trial, space)
    own = space.key(trial.configuration)
    return {own} if asked is None else {own, asked}


def _asked_key(trial: TrialRecord, space: SearchSpace) -> str | None:
    asked = trial.attributes.get(ASKED)
    return space.key(dict(asked)) if isinstance(asked, list) else None


def settled_keys(trials: Sequence[TrialRecord], space: SearchSpace) -> frozenset[str]:
    """Return the keys of the configurations that must not be booted again: measured, or given up after many attempts."""
    measured: set[str] = set()
    failed: Counter[str] = Counter()
    interrupted: Counter[str] = Counter()
    for trial in trials:
        if trial.kind is TrialKind.PROFILE:
            continue
        key = space.key(trial.configuration)
        if trial.state.counts:
            measured |= _answered_keys(trial, space)
        elif trial.state is TrialState.DUPLICATE and (asked := _asked_key(trial, space)) is not None:
            measured.add(asked)
        failed[key] += trial.state is TrialState.FAILED
        interrupted[key] += trial.state is TrialState.INTERRUPTED
    given_up = {key for key in failed if failed[key] >= MAX_FAILURES or failed[key] + interrupted[key] >= MAX_ATTEMPTS}
    return frozenset(measured | given_up)


def find_retry(trials: Sequence[TrialRecord], space: SearchSpace) -> Suggestion | None:
    """Return the first interrupted trial that was not taken up yet, to be tried once more."""
    last = {
        space.key(trial.configuration): trial
        for trial in trials
        if trial.kind.counts and trial.state is not TrialState.DUPLICATE
    }
    settled = settled_keys(trials, space)
    for key, trial in last.items():
        is_first_attempt = trial.attributes.get("retries") is None
        if trial.state is TrialState.INTERRUPTED and is_first_attempt and key not in settled:
            return Suggestion(trial.configuration, trial.kind, trial.number, trial.cells)
    return None


def find_listed(trials: Sequence[TrialRecord], settings: StudySettings, space: SearchSpace) -> Iterator[Configuration]:
    """Yield the listed configurations that no listed trial has answered yet, in the order of the list, each once."""
    answered = {
        key
        for trial in trials
        if trial.kind is TrialKind.LISTED and (trial.state.counts or trial.state is TrialState.DUPLICATE)
        for key in _answered_keys(trial, space)
    }
    settled = settled_keys(trials, space)
    for values in settings.try_:
        configuration = space.resolve(values)
        key = space.key(configuration)
        is_given_up = key in settled and measured_as(configuration, trials, space) is None
        if key not in answered and not is_given_up:
            answered.add(key)
            yield configuration
