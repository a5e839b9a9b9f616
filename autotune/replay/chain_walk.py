"""How many tokens a step would each draft tree have made of the texts that were really produced? Pure.

A chain walk starts where a text starts, takes the draft logged there, lets the tree of that draft accept what the text
confirms, moves on by that and the token that every step commits, and so on. Averaging over all logged drafts instead is
wrong: the steps of a small tree begin in easy places, those of a large tree in hard ones.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autotune.replay.acceptance import count_accepted, rank_text
from autotune.replay.grown_tree import GrownTrees, count_grown


@dataclass(frozen=True, slots=True, eq=False)
class DraftedText:
    """One answer, and what the drafter proposed on its way.

    Attributes:
        text: its tokens; the first one came from the prompt's own pass, not from a step.
        places: which token of the text each draft follows, ascending ``[drafts]``.
        tokens: drafted tokens by depth and rank, best rank first ``[drafts, depths, ranks]``.
        logprobs: their log-probabilities, likewise.
    """

    text: NDArray[np.int64]
    places: NDArray[np.int64]
    tokens: NDArray[np.int64]
    logprobs: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Walks:
    """The walks of every tree along every text, each array ``[texts, topks, budgets]``.

    Attributes:
        tokens: made by steps.
        steps: taken.
        redirected: steps that began where no draft was logged, and were taken from the next place that has one.
    """

    tokens: NDArray[np.int64]
    steps: NDArray[np.int64]
    redirected: NDArray[np.int64]


def walk(
    texts: Sequence[DraftedText],
    *,
    topks: Sequence[int],
    largest_budget: int,
    positions: int,
    rule: GrownTrees | None = None,
) -> Walks:
    """Walk all trees of the given topks and of budget 1 to the largest along all texts.

    Args:
        texts: at least one, all with as many depths and ranks.
        topks: ranks that a tree may use.
        largest_budget: nodes of the largest tree.
        positions: deepest level of a tree: the block less the committed token.
        rule: of the trees; ``None``: best-first.

    Raises:
        ValueError: a topk is larger than the ranks that were logged.
    """
    ranks = np.concatenate([rank_text(text.tokens, text.places, text.text) for text in texts])
    logprobs = np.concatenate([text.logprobs for text in texts])
    count = count_accepted if rule is None else functools.partial(count_grown, rule=rule)
    accepted = count(logprobs, ranks, topks=topks, largest_budget=largest_budget, positions=positions)
    accepted = accepted.reshape(-1, len(topks) * largest_budget)
    longest = max(len(text.text) for text in texts)
    draft_at = np.full((len(texts), longest + 1), -1)
    place_at = np.zeros((len(texts), longest + 1), np.int64)
    first = 0
    for number, text in enumerate(texts):
        places = np.arange(longest + 1)
        following = np.searchsorted(text.places, places)
        has_one = following < len(text.places)
        draft_at[number, has_one] = first + following[has_one]
        place_at[number, has_one] = text.places[following[has_one]]
        first += len(text.places)
    counts = _walk(accepted, draft_at, place_at, np.array([len(text.text) for text in texts]))
    return Walks(*counts.reshape(3, len(texts), len(topks), largest_budget))


def _walk(
    accepted: NDArray[np.uint8],
    draft_at: NDArray[np.int64],
    place_at: NDArray[np.int64],
    lengths: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Walk; returns tokens, steps and redirected steps ``[3, texts, trees]``.

    Args:
        accepted: drafted tokens that each tree accepts after each draft ``[drafts, trees]``.
        draft_at: draft to be used at each place of each text, -1 for none ``[texts, places]``.
        place_at: where that draft is ``[texts, places]``.
        lengths: tokens of each text.
    """
    texts, trees = len(lengths), accepted.shape[1]
    place = np.zeros((texts, trees), np.int64)
    counts = np.zeros((3, texts, trees), np.int64)
    last = lengths - 1
    text, tree = np.nonzero(place < last[:, None])
    while len(text):
        here = place[text, tree]
        draft, start = draft_at[text, here], place_at[text, here]
        is_on = (draft >= 0) & (start < last[text])
        text, tree, here, draft, start = text[is_on], tree[is_on], here[is_on], draft[is_on], start[is_on]
        reach = start + accepted[draft, tree] + 1
        end = np.minimum(reach, last[text])
        counts[0, text, tree] += end - start
        counts[1, text, tree] += 1
        counts[2, text, tree] += start > here
        place[text, tree] = end
        is_left = end < last[text]
        text, tree = text[is_left], tree[is_left]
    return counts
