"""Walks along texts, by hand and by property."""

from __future__ import annotations

from typing import Any

import numpy as np

from autotune.replay.chain_walk import DraftedText, walk
from tests.replay.drafts import drafted, random_texts


def counts(text: DraftedText, budget: int) -> tuple[int, ...]:
    walks = walk([text], topks=[1], largest_budget=4, positions=3)
    return tuple(int(each[0, 0, budget - 1]) for each in (walks.tokens, walks.steps, walks.redirected))


def test_a_walk_moves_on_by_what_is_accepted_and_one():
    # From 0 it accepts 2 (to 3), from 3 nothing (to 4), from 4 it accepts 1 (to 6), which is the last token.
    text = drafted(range(7), [2, 3, 3, 0, 1, 3, 3])

    assert counts(text, 4) == (6, 3, 0)


def test_a_budget_ends_a_chain():
    text = drafted(range(7), [3, 3, 3, 3, 3, 3, 3])

    assert counts(text, 1) == (6, 3, 0)
    assert counts(text, 2) == (6, 2, 0)


def test_the_last_step_makes_no_more_than_the_text_has():
    text = drafted(range(4), [3, 3, 3, 3])

    assert counts(text, 4) == (3, 1, 0)


def test_a_place_without_a_draft_is_left_out_and_counted():
    text = drafted(range(8), [1, 1, -1, 1, 1, 1, 1, 1])

    # 0 -> 2, which has no draft: taken from 3 -> 5 -> 7. Tokens 3 is nobody's.
    assert counts(text, 4) == (6, 3, 1)


def test_a_text_without_a_draft_behind_it_has_no_steps_there():
    text = drafted(range(8), [1, -1, -1, -1, -1, -1, -1, -1])

    assert counts(text, 4) == (2, 1, 0)


def test_each_text_is_walked_by_itself():
    texts = random_texts(1, 5)
    options: dict[str, Any] = {"topks": [1, 2, 4], "largest_budget": 12, "positions": 7}

    together = walk(texts, **options)

    for number, text in enumerate(texts):
        alone = walk([text], **options)
        assert together.tokens[number].tolist() == alone.tokens[0].tolist()
        assert together.steps[number].tolist() == alone.steps[0].tolist()
    assert (together.tokens == 39).all()
    assert not together.redirected.any()


def test_walks_of_all_budgets_are_those_of_each():
    texts = random_texts(2, 3)

    large = walk(texts, topks=[3], largest_budget=12, positions=7)
    small = walk(texts, topks=[3], largest_budget=5, positions=7)

    assert large.steps[:, :, :5].tolist() == small.steps.tolist()


def test_a_draft_that_is_always_right_needs_the_fewest_steps():
    text = drafted(range(41), [40] * 41, depths=7)

    walks = walk([text], topks=[1], largest_budget=9, positions=7)

    assert np.ceil(40 / np.minimum(np.arange(2, 11), 8)).tolist() == walks.steps[0, 0].tolist()
