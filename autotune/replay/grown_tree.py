"""How far along the text does a tree reach that grows with a bonus for depth and without unlikely branches? Pure.

The rule of SGLang's open pull request 29907, which is not the paper's: a heap of paths is emptied best score first, where a
score is the sum of log-probabilities and a bonus for each level below the first. A path that was taken brings its next
sibling and its first child. A path whose score is more than ``ln(budget) + margin`` below that of the very first one is
dropped with all behind it, unless it is the chain of best tokens. A tree keeps at most ``max(budget // depth + 1, 2)``
tokens for each position, and one that is no larger than its depth is that chain.

With a bonus a child may come before its parent's rivals, so that paths cannot be counted as they are for best-first trees:
the heaps of all drafts are emptied side by side.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from autotune.errors import MeasurementError

DEPTH_BONUS_TREE: Final = "depth-bonus-tree"
"""Property of a server (``server.proofs``) that builds its trees so."""

_USUAL_BONUS: Final = 0.2
_BONUS_VARIABLE: Final = "SGLANG_DDTREE_DEPTH_BONUS"
_DRAFTS_AT_ONCE: Final = 4096


@dataclass(frozen=True, slots=True)
class GrownTrees:
    """What decides which paths are in a tree of this rule, beside budget and topk.

    Attributes:
        bonus: added to the score of a path for each level below the first.
        margin: how much less likely than ``1 / budget`` of the first path a branch may be, as a logarithm.
    """

    bonus: float = _USUAL_BONUS
    margin: float = 1.0


def find_rule(proofs: Collection[str], environment: Mapping[str, str]) -> GrownTrees | None:
    """Return the rule of a server's trees; ``None`` stands for best-first trees.

    Args:
        proofs: properties that the server is known to have.
        environment: variables that it was started with.

    Raises:
        MeasurementError: its bonus cannot be read.
    """
    if DEPTH_BONUS_TREE not in proofs:
        return None
    text = environment.get(_BONUS_VARIABLE)
    try:
        bonus = _USUAL_BONUS if text is None else float(text)
    except ValueError:
        bonus = math.nan
    if not math.isfinite(bonus):
        raise MeasurementError(
            f"{_BONUS_VARIABLE} of the server is {text!r}, so its trees cannot be rebuilt",
            hint="set it to a number, or take it away",
        )
    return GrownTrees(bonus)


def count_grown(
    logprobs: NDArray[np.floating],
    ranks: NDArray[np.integer],
    rule: GrownTrees,
    *,
    topks: Sequence[int],
    largest_budget: int,
    positions: int,
) -> NDArray[np.uint8]:
    """Count the drafted tokens that each tree accepts after each draft, as :func:`autotune.replay.acceptance.count_accepted`.

    Equal scores are taken as they come; the server takes the smaller ranks first.

    Raises:
        ValueError: a topk is larger than the ranks that are known.
    """
    drafts, depths, known = logprobs.shape
    if max(topks) > known or min(topks) < 1:
        raise ValueError(f"trees of topk {min(topks)} to {max(topks)} cannot be told from {known} ranks")
    depth = min(positions, depths)
    runs = np.cumprod(ranks[:, :depth] == 0, axis=1).sum(1)
    found = np.zeros((drafts, len(topks), largest_budget), np.uint8)
    for budget in range(1, largest_budget + 1):
        widths = [min(topk, max(budget // positions + 1, 2)) for topk in topks]
        for width in set(widths):
            columns = [column for column, each in enumerate(widths) if each == width]
            if budget <= positions or width == 1:
                reached = np.minimum(runs, budget)
            else:
                parts = [
                    _grow(
                        logprobs[start : start + _DRAFTS_AT_ONCE, :depth, :width].astype(np.float64), part, rule, budget
                    )
                    for start in range(0, drafts, _DRAFTS_AT_ONCE)
                    for part in [ranks[start : start + _DRAFTS_AT_ONCE, :depth]]
                ]
                reached = np.concatenate(parts) if parts else runs
            found[:, columns, budget - 1] = reached[:, None]
    return found


def _grow(
    logprobs: NDArray[np.float64], ranks: NDArray[np.integer], rule: GrownTrees, budget: int
) -> NDArray[np.int64]:
    """Grow a tree for each draft; returns how many tokens of the text are in it ``[drafts]``.

    Each slot of a heap holds the next sibling that one taken node may bring; slot 0 that of the root.
    """
    drafts, depth, width = logprobs.shape
    floor = logprobs[:, 0, 0] - math.log(budget) - rule.margin
    score = np.full((drafts, budget + 1), -np.inf)
    score[:, 0] = logprobs[:, 0, 0]
    level, rank = np.zeros((2, drafts, budget + 1), np.int64)
    is_spine, is_text = np.zeros((2, drafts, budget + 1), bool)
    is_spine[:, 0] = is_text[:, 0] = True  # of what lies above the node
    nodes, reached = np.zeros((2, drafts), np.int64)
    beyond = np.concatenate([np.where(ranks < width, ranks, -1), np.full((drafts, 1), -1)], axis=1)
    at = np.arange(drafts)  # whose text may still be reached further
    for slots in itertools.count(1):
        at = at[(nodes[at] < budget) & (beyond[at, reached[at]] >= 0)]
        slot = score[:, :slots][at].argmax(1)
        value = score[at, slot]
        is_there = np.isfinite(value)
        at, slot, value = at[is_there], slot[is_there], value[is_there]
        if not len(at):
            break
        here, own = level[at, slot], rank[at, slot]
        on_spine = is_spine[at, slot] & (own == 0)
        is_taken = on_spine | (value >= floor[at])
        score[at[~is_taken], slot[~is_taken]] = -np.inf
        taken, slot, value, here, own, on_spine = (each[is_taken] for each in (at, slot, value, here, own, on_spine))
        nodes[taken] += 1
        on_text = is_text[taken, slot] & (own == beyond[taken, here])
        reached[taken[on_text]] = here[on_text] + 1
        following = np.minimum(own + 1, width - 1)
        sibling = value - logprobs[taken, here, own] + logprobs[taken, here, following]
        score[taken, slot] = np.where(own + 1 < width, sibling, -np.inf)
        rank[taken, slot] = following
        below = np.minimum(here + 1, depth - 1)
        child = value + logprobs[taken, below, 0] + rule.bonus
        new = nodes[taken]
        score[taken, new] = np.where(here + 1 < depth, child, -np.inf)
        level[taken, new] = below
        rank[taken, new] = 0
        is_spine[taken, new], is_text[taken, new] = on_spine, on_text
    return reached
