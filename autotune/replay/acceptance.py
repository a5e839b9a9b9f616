"""How far along the text that was really produced does each draft tree reach? Counted for all trees at once; pure.

The tree of budget *N* holds the *N* best paths of ranks, by the sum of their log-probabilities; ties go to the shorter path,
then to the smaller ranks (DDTree, arXiv 2604.12989). So a tree holds the first *m* tokens of the text exactly when fewer
than *N* other paths come before theirs. Those paths are enumerated level by level, for all drafts together and no further
down than the text itself lies, instead of building one tree for each budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

_DRAFTS_AT_ONCE: Final = 1024
"""Drafts whose paths are enumerated together: bounds the memory."""


def rank_text(tokens: NDArray[np.integer], places: NDArray[np.integer], text: NDArray[np.integer]) -> NDArray[np.int16]:
    """Return the rank that each token of the text has in each draft.

    Args:
        tokens: drafted tokens by depth and rank ``[drafts, depths, ranks]``.
        places: index of the token of the text that each draft follows ``[drafts]``.
        text: tokens.

    Returns:
        ``[drafts, depths]``; -1 where the token is not among the ranks, or the text has ended.
    """
    depths = tokens.shape[1]
    at = places[:, None] + 1 + np.arange(depths)
    is_known = at < len(text)
    truth = text[np.minimum(at, len(text) - 1)]
    is_hit = (tokens == truth[:, :, None]) & is_known[:, :, None]
    return np.where(is_hit.any(2), is_hit.argmax(2), -1).astype(np.int16)


def count_accepted(
    logprobs: NDArray[np.floating],
    ranks: NDArray[np.integer],
    *,
    topks: Sequence[int],
    largest_budget: int,
    positions: int,
) -> NDArray[np.uint8]:
    """Count the drafted tokens that each tree accepts after each draft.

    Args:
        logprobs: log-probabilities by depth and rank, best rank first ``[drafts, depths, ranks]``.
        ranks: rank of the text's own token at each depth, -1 for none ``[drafts, depths]``.
        topks: ranks that a tree may use, at most as many as there are.
        largest_budget: nodes of the largest tree.
        positions: deepest level of a tree: the block less the committed token.

    Returns:
        ``[drafts, len(topks), largest_budget]``; entry ``[i, j, n - 1]`` is for budget ``n``.

    Raises:
        ValueError: a topk is larger than the ranks that are known.
    """
    drafts, depths, known = logprobs.shape
    if max(topks) > known or min(topks) < 1:
        raise ValueError(f"trees of topk {min(topks)} to {max(topks)} cannot be told from {known} ranks")
    positions = min(positions, depths)
    found = np.zeros((drafts, len(topks), largest_budget), np.uint8)
    for start in range(0, drafts, _DRAFTS_AT_ONCE):
        part = slice(start, start + _DRAFTS_AT_ONCE)
        exact = logprobs[part, :positions].astype(np.float64)
        for column, topk in enumerate(topks):
            found[part, column] = _count_for_width(exact[:, :, :topk], ranks[part, :positions], largest_budget)
    return found


def _count_for_width(
    logprobs: NDArray[np.float64], ranks: NDArray[np.integer], largest_budget: int
) -> NDArray[np.uint8]:
    """Count for one topk, which is the size of the last axis; returns ``[drafts, largest_budget]``."""
    drafts, positions, width = logprobs.shape
    is_there = (ranks >= 0) & (ranks < width)
    lengths = np.cumprod(is_there, axis=1).sum(1)  # tokens of the text that are paths at all
    own = np.take_along_axis(logprobs, np.where(is_there, ranks, 0)[:, :, None], 2)[:, :, 0]
    scores = np.cumsum(own, axis=1)
    before = _count_before(logprobs, ranks, scores, lengths, largest_budget)
    is_in = (np.arange(positions) < lengths[:, None]) & (before < largest_budget)
    found = np.zeros((drafts, largest_budget), np.uint8)
    draft, depth = np.nonzero(is_in)
    np.add.at(found, (draft, before[draft, depth]), 1)
    return np.cumsum(found, axis=1, dtype=np.uint8)


def _count_before(
    logprobs: NDArray[np.float64],
    ranks: NDArray[np.integer],
    scores: NDArray[np.float64],
    lengths: NDArray[np.integer],
    enough: int,
) -> NDArray[np.int64]:
    """Count the paths that come before each beginning of the text; correct below ``enough``, else at least that.

    Args:
        logprobs: ``[drafts, positions, width]``.
        ranks: of the text ``[drafts, positions]``.
        scores: of the text's beginnings ``[drafts, positions]``, never rising.
        lengths: beginnings that exist, per draft.
        enough: counts from here on need not be exact.
    """
    drafts, positions, _ = logprobs.shape
    depth_of = np.arange(1, positions + 1)
    first_after = np.zeros((drafts, positions + 1), np.int64)  # paths by the first beginning that they come before
    before = np.zeros((drafts, positions), np.int64)
    lengths = lengths.copy()
    draft = np.nonzero(lengths)[0]
    score = np.zeros(len(draft))
    is_text = np.ones(len(draft), bool)
    for depth in range(positions):
        floor = scores[draft, lengths[draft] - 1]
        children = score[:, None] + logprobs[draft, depth]
        parent, rank = np.nonzero(children >= floor[:, None])
        if not len(parent):
            break
        draft, score, is_text = (
            draft[parent],
            children[parent, rank],
            is_text[parent] & (ranks[draft[parent], depth] == rank),
        )
        # Nodes of a level stand in the order of their paths, so the place decides between equal scores.
        place = np.arange(len(draft))
        text_place = np.full(drafts, -1)
        text_place[draft[is_text]] = place[is_text]
        theirs = scores[draft]
        is_tied_before = (depth_of > depth + 1) | ((depth_of == depth + 1) & (place < text_place[draft])[:, None])
        comes_before = (score[:, None] > theirs) | ((score[:, None] == theirs) & is_tied_before)
        comes_before &= depth_of <= lengths[draft][:, None]
        np.add.at(first_after, (draft, lengths[draft] - comes_before.sum(1)), 1)
        before = np.cumsum(first_after[:, :-1], axis=1)
        # What is out of every tree is out for good: what lies behind it need not be enumerated.
        lengths = ((before < enough) & (depth_of <= lengths[:, None])).sum(1)
        is_open = lengths[draft] > 0
        is_open[is_open] = score[is_open] >= scores[draft[is_open], lengths[draft[is_open]] - 1]
        draft, score, is_text = draft[is_open], score[is_open], is_text[is_open]
    return before
