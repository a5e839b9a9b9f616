from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autotune.sampling.base import History
from autotune.search_space import load_search_space
from autotune.suggestion import MAX_ATTEMPTS, MAX_FAILURES, MAX_REPEATS, find_next, settled_keys
from autotune.trial import Configuration, TrialKind, TrialRecord, TrialState
from tests.records import make_settings, make_trial

SPACE = load_search_space("ddtree", proofs=frozenset({"best-first-tree"}))


class Recorder:
    """Proposes one configuration and keeps what it was asked with."""

    def __init__(self, text: str = "budget=9") -> None:
        self.configuration = SPACE.parse(text)
        self.asked: list[tuple[History, tuple[Configuration, ...], float]] = []

    def propose(self, history, space, pending, rng):  # noqa: ARG002  # the interface of a sampler
        self.asked.append((history, tuple(pending), rng.random()))
        return self.configuration


def trial(number: int, text: str, state: TrialState, **changes: Any) -> TrialRecord:
    return replace(make_trial(number, state=state, configuration=SPACE.parse(text)), **changes)


def test_an_interrupted_trial_comes_first_and_only_once_more():
    """case 36: the same suggestion is tried once more."""
    first = trial(0, "budget=5", TrialState.INTERRUPTED)
    again = trial(1, "budget=5", TrialState.INTERRUPTED, attributes={"retries": 0})

    taken_up = find_next([first], make_settings(), SPACE, Recorder()).suggestion
    given_up = find_next([first, again], make_settings(), SPACE, Recorder()).suggestion

    assert taken_up is not None
    assert (taken_up.configuration, taken_up.retries) == (first.configuration, 0)
    assert given_up is not None
    assert given_up.configuration["budget"] == 9


def test_an_interrupted_baseline_is_the_tuners_business():
    interrupted = trial(0, "budget=16", TrialState.INTERRUPTED, kind=TrialKind.BASELINE)

    answer = find_next([interrupted], make_settings(), SPACE, Recorder())

    assert answer.suggestion is not None
    assert answer.suggestion.retries is None


def test_what_the_sampler_had_proposed_is_not_taken_up_when_only_the_list_is_wanted():
    interrupted = trial(0, "budget=5", TrialState.INTERRUPTED)

    assert find_next([interrupted], make_settings(), SPACE, Recorder(), listed_only=True).suggestion is None


def test_a_repeat_is_asked_again_as_busy_and_with_other_chances_until_one_is_drawn():
    """case 37: repeats are answered from history; after a few an unmeasured configuration is drawn."""
    known = trial(0, "budget=9", TrialState.COMPLETE)
    sampler = Recorder()

    answer = find_next([known], make_settings(), SPACE, sampler)

    assert [trial for _, trial in answer.duplicates] == [known] * MAX_REPEATS
    assert answer.suggestion is not None
    assert answer.suggestion.configuration["budget"] != 9
    assert [len(pending) for _, pending, _ in sampler.asked] == [0, 1, 2]
    assert len({chance for *_, chance in sampler.asked}) == MAX_REPEATS


def test_an_interrupted_trial_changes_neither_history_nor_chance():
    """case 36: resume asks the same as a study that never stopped."""
    measured = trial(0, "budget=3", TrialState.COMPLETE)
    lost = trial(1, "budget=5", TrialState.INTERRUPTED)
    retried = trial(2, "budget=5", TrialState.COMPLETE, attributes={"retries": 1})
    disturbed, undisturbed = Recorder(), Recorder()

    find_next([measured, lost, retried], make_settings(), SPACE, disturbed)
    find_next([measured, replace(retried, number=1, attributes={})], make_settings(), SPACE, undisturbed)

    assert disturbed.asked[0][2] == undisturbed.asked[0][2]
    assert [t.configuration for t in disturbed.asked[0][0].trials] == [
        t.configuration for t in undisturbed.asked[0][0].trials
    ]


@pytest.mark.parametrize(
    ("states", "is_settled"),
    [
        ([TrialState.COMPLETE], True),
        ([TrialState.PRUNED], True),
        ([TrialState.INFEASIBLE], True),
        ([TrialState.DUPLICATE], False),
        ([TrialState.MEASURING], False),
        ([TrialState.FAILED] * (MAX_FAILURES - 1), False),
        ([TrialState.FAILED] * MAX_FAILURES, True),
        ([TrialState.INTERRUPTED] * (MAX_ATTEMPTS - 1), False),
        ([TrialState.INTERRUPTED] * MAX_ATTEMPTS, True),
        ([TrialState.FAILED, TrialState.INTERRUPTED, TrialState.INTERRUPTED], True),
    ],
)
def test_what_must_not_be_booted_again(states: list[TrialState], is_settled: bool):
    trials = [trial(number, "budget=5", state) for number, state in enumerate(states)]

    assert (SPACE.key(SPACE.parse("budget=5")) in settled_keys(trials, SPACE)) == is_settled
