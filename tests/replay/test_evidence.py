"""From a log to what is known of the configurations of a study."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from autotune.replay.draft_log import LoggedAnswer
from autotune.replay.evidence import TABLES, dump_tables, find_evidence, replay
from autotune.replay.grown_tree import GrownTrees
from autotune.replay.table import AcceptLengthTable
from autotune.search_space import load_search_space
from autotune.trial import TrialKind, TrialRecord, TrialState
from tests.records import make_trial
from tests.replay.drafts import random_texts

SPACE = load_search_space("ddtree", proofs=frozenset({"best-first-tree"}))


def logged(
    seed: int, count: int = 4, *, ranks: int = 4, windows: Sequence[int] = (), prompt: int = 100
) -> list[LoggedAnswer]:
    """Answers with a draft after every token, at depth 15; those of the windows are as bad as can be."""
    answers = []
    for text in random_texts(seed, count, depths=15, ranks=ranks):
        drafts = list(zip(text.places.tolist(), text.tokens, text.logprobs, strict=True))
        wrong = [(place, np.full_like(tokens, 99), logprobs) for place, tokens, logprobs in drafts]
        answers.append(LoggedAnswer(text.text.tolist(), prompt, {None: drafts, **dict.fromkeys(windows, wrong)}))
    return answers


def profile(
    tables: Sequence[AcceptLengthTable], number: int = 3, state: TrialState = TrialState.COMPLETE
) -> TrialRecord:
    stored = json.loads(json.dumps(dump_tables(tables)))
    trial = make_trial(number, None, None, kind=TrialKind.PROFILE, state=state, pass_at_1=None)
    return replace(trial, attributes={TABLES: stored})


def lengths_of(trials: Sequence[TrialRecord]) -> dict[str, float]:
    return {SPACE.key(item.configuration): item.accept_length for item in find_evidence(trials, SPACE)}


def test_windows_that_were_logged_or_that_no_text_exceeds_are_told():
    tables = replay({100: logged(1, windows=(32,))}, {100: 1.0}, SPACE)

    assert [table.window for table in tables] == [None, 512, 256, 32]
    whole, widest, _, small = tables
    assert whole.accept_lengths == widest.accept_lengths
    assert set(small.accept_lengths[40]) == {1.0}
    assert (whole.block, whole.texts, whole.topks, len(whole.accept_lengths)) == (16, 4, (1, 2, 3, 4), 64)


def test_contexts_are_pooled_by_weight_and_told_where_all_of_them_tell():
    one, two = logged(1), logged(2, prompt=300)

    (both,) = replay({100: one, 300: two}, {100: 1.0, 300: 3.0}, SPACE)[:1]
    alone = [replay({100: each}, {100: 1.0}, SPACE)[0] for each in (one, two)]

    expected = alone[0].accept_lengths[20][2] ** 0.25 * alone[1].accept_lengths[20][2] ** 0.75
    assert both.accept_lengths[20][2] == pytest.approx(expected, rel=1e-4)
    assert [table.window for table in replay({100: one, 300: two}, {100: 1.0, 300: 3.0}, SPACE)] == [None, 512]


def test_the_servers_own_rule_decides_which_trees_are_walked():
    answers = {100: logged(1)}

    best, grown = (replay(answers, {100: 1.0}, SPACE, rule)[0] for rule in (None, GrownTrees()))

    assert best.find(15, 4) != best.find(15, 1) == grown.find(15, 1) == grown.find(15, 4)  # no larger than its depth
    assert grown.find(16, 4) == grown.find(16, 2)  # its width depends on the budget
    assert grown.accept_lengths[15:] != best.accept_lengths[15:]


def test_nothing_is_told_without_drafts_or_without_trees():
    assert replay({}, {}, SPACE) == ()
    assert replay({100: []}, {100: 1.0}, SPACE) == ()
    space = load_search_space("ddtree_v2")
    assert replay({100: logged(1)}, {100: 1.0}, space) == ()


def test_every_configuration_that_the_profile_can_tell_has_its_accept_length():
    tables = replay({100: logged(1)}, {100: 1.0}, SPACE)

    evidence = find_evidence([make_trial(0), profile(tables)], SPACE)

    assert {item.source for item in evidence} == {"drafts replayed from trial 3"}
    lengths = {SPACE.key(item.configuration): (item.accept_length, item.deviation) for item in evidence}
    assert lengths["budget=24,topk=3,window=none"] == tables[0].find(24, 3)
    assert lengths["budget=15,topk=1,window=256"] == tables[2].find(15, 1)
    assert not [key for key in lengths if "window=128" in key or "topk=5" in key or "budget=0" in key]
    assert len(lengths) == sum(
        item["budget"] != 0 and int(str(item["topk"])) <= 4 and item["window"] in (None, 512, 256)
        for item in SPACE.configurations
    )


def test_only_the_last_complete_profile_speaks():
    first, second = (replay({100: logged(seed)}, {100: 1.0}, SPACE) for seed in (1, 2))

    assert lengths_of([]) == {}
    assert lengths_of([profile(first, 1, TrialState.FAILED)]) == {}
    assert lengths_of([profile(first, 1), profile(second, 2)]) == lengths_of([profile(second, 2)])
    assert lengths_of([profile(first, 1), profile(second, 2)]) != lengths_of([profile(first, 1)])
