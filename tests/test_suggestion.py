from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autotune.replay.evidence import TABLES, dump_tables
from autotune.replay.table import AcceptLengthTable
from autotune.sampling.base import History
from autotune.search_space import load_search_space
from autotune.settings import ProfileSettings, SamplerSettings
from autotune.suggestion import (
    MAX_ATTEMPTS,
    MAX_FAILURES,
    MAX_REPEATS,
    find_next,
    find_profile,
    find_retry,
    measured_as,
    settled_keys,
)
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


def profile(number: int, state: TrialState = TrialState.COMPLETE, text: str = "budget=8,topk=8") -> TrialRecord:
    table = AcceptLengthTable(None, 16, 9, (2,), ((1.5,), (1.9,)), ((0.02,), (0.03,)))
    attributes = {TABLES: dump_tables([table])}
    return trial(number, text, state, kind=TrialKind.PROFILE, cells=(), attributes=attributes)


def test_the_sampler_is_told_what_a_profile_tells_and_sees_no_trial_in_it():
    told, untold = Recorder(), Recorder()

    find_next([trial(0, "budget=3", TrialState.COMPLETE), profile(1)], make_settings(), SPACE, told)
    find_next([trial(0, "budget=3", TrialState.COMPLETE)], make_settings(), SPACE, untold)

    history, pending, chance = told.asked[0]
    assert [(item.accept_length, item.deviation) for item in history.evidence] == [(1.9, 0.03)]
    assert history.evidence[0].configuration == SPACE.parse("budget=2,topk=2")
    assert (replace(history, evidence=()), pending, chance) == untold.asked[0]


def test_what_was_profiled_was_not_measured():
    known = profile(0, text="budget=9")

    assert measured_as(SPACE.parse("budget=9"), [known], SPACE) is None
    assert settled_keys([known], SPACE) == frozenset()
    answer = find_next([known], make_settings(), SPACE, Recorder())
    assert answer.duplicates == ()


@pytest.mark.parametrize("state", [TrialState.FAILED, TrialState.INTERRUPTED])
def test_a_profile_that_did_not_end_well_says_nothing_of_its_configuration(state: TrialState):
    lost = [profile(number, state, "budget=9") for number in range(MAX_ATTEMPTS)]

    assert settled_keys(lost, SPACE) == frozenset()
    assert find_retry(lost, SPACE) is None


@pytest.mark.parametrize(
    ("states", "is_wanted"),
    [
        ([], True),
        ([TrialState.COMPLETE], False),
        ([TrialState.INTERRUPTED] * 5, True),
        ([TrialState.FAILED] * (MAX_FAILURES - 1), True),
        ([TrialState.FAILED] * MAX_FAILURES, False),
    ],
)
def test_a_study_is_profiled_until_it_is_or_failed_too_often(states: list[TrialState], is_wanted: bool):
    trials = [profile(number, state) for number, state in enumerate(states)]
    wanting = make_settings(profile=ProfileSettings(enabled=True))

    assert (find_profile(trials, wanting, SPACE) is not None) == is_wanted
    assert find_profile(trials, make_settings(profile=ProfileSettings(enabled=False)), SPACE) is None


class Exhausted(Recorder):
    """Sees nothing left to win."""

    def explain_exhaustion(self, history, space):  # noqa: ARG002  # the interface of a sampler that stops
        return "all is won"


def test_a_sampler_that_sees_nothing_left_to_win_is_asked_for_nothing():
    first = trial(0, "budget=5", TrialState.COMPLETE)
    sampler = Exhausted()

    answer = find_next([first], make_settings(), SPACE, sampler)

    assert (answer.suggestion, answer.exhaustion) == (None, "all is won")
    assert sampler.asked == []


def test_an_exhausted_search_still_takes_up_what_was_interrupted_and_what_is_listed():
    interrupted = trial(0, "budget=5", TrialState.INTERRUPTED)
    listing = make_settings(try_=({"budget": 3},))

    assert find_next([interrupted], make_settings(), SPACE, Exhausted()).suggestion is not None
    assert find_next([], listing, SPACE, Exhausted()).suggestion is not None


def test_a_search_that_may_not_end_early_does_not_ask_whether_it_could():
    going_on = make_settings(sampler=SamplerSettings(stop_when_exhausted=False))

    assert find_next([], going_on, SPACE, Exhausted()).suggestion is not None


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
