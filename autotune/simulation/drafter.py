"""How many tokens a step does a tree of drafts gain, by the law that best-first trees follow? Pure.

A tree takes the paths of drafted tokens that are likeliest to be right, whole paths first (best-first: Liran Ringel and others,
arXiv 2604.12989). When the likelihoods are true, a step gains the sum of the likelihoods of all paths in the tree, and the
token after them. So the accept length rises with the budget, ever more slowly, and never exceeds the block.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from functools import cache
from typing import Final

LARGEST_BUDGET: Final = 64

_TAIL: Final = 0.85
"""Factor from one rank to the next, beside the likelihood that the first one is wrong."""

_SUREST: Final = 0.98


@dataclass(frozen=True, slots=True)
class Place:
    """One kind of place in a text.

    Attributes:
        share: of all steps that begin there.
        likelihood: that the drafter's first choice of the first token is right.
        decay: factor on it from one drafted position to the next.
    """

    share: float
    likelihood: float
    decay: float


@dataclass(frozen=True, slots=True)
class Drafter:
    """A drafter by the places it meets; their shares add up to 1."""

    places: tuple[Place, ...]

    def accept_length(self, budget: int, topk: int, block: int, quality: float = 1.0) -> float:
        """Return the tokens a step, the one after the accepted path included; 1 without a tree.

        Args:
            budget: nodes of the tree, at most :data:`LARGEST_BUDGET`.
            topk: tokens kept per position.
            block: tokens drafted per step, the committed one included.
            quality: factor on every likelihood, for a drafter that sees less, or more than it can use.
        """
        return _accept_lengths(self, topk, block, quality)[budget]

    def accepts_at_least(self, budget: int, topk: int, block: int, quality: float = 1.0) -> tuple[float, ...]:
        """Return the probabilities that a step accepts at least 1, 2 ... up to all drafted tokens; arguments as above.

        Of the paths of one length at most one is right, so their likelihoods add up.
        """
        reached = [0.0] * (block - 1)
        for place, paths in zip(self.places, _paths(self, topk, block, quality), strict=True):
            for length, likelihood in paths[:budget]:
                reached[length - 1] += place.share * likelihood
        return tuple(reached)


@cache
def _accept_lengths(drafter: Drafter, topk: int, block: int, quality: float) -> tuple[float, ...]:
    """Return the accept length for every budget from 0."""
    gains = [[likelihood for _, likelihood in paths] for paths in _paths(drafter, topk, block, quality)]
    lengths = [1.0]
    for node in range(LARGEST_BUDGET):
        gain = math.fsum(
            place.share * gained[node]
            for place, gained in zip(drafter.places, gains, strict=True)
            if node < len(gained)
        )
        lengths.append(lengths[-1] + gain)
    return tuple(lengths)


@cache
def _paths(drafter: Drafter, topk: int, block: int, quality: float) -> tuple[tuple[tuple[int, float], ...], ...]:
    """Return the paths of every place."""
    return tuple(tuple(_find_paths(place, topk, block - 1, quality)) for place in drafter.places)


def _find_paths(place: Place, topk: int, depth: int, quality: float) -> list[tuple[int, float]]:
    """Return the lengths and likelihoods of the paths that a tree takes in, likeliest first.

    At each position the token of rank r is right with likelihood p (0.85 (1 - p))^r, which falls with the rank and adds up
    to less than 1 over all ranks.
    """
    tokens: list[list[float]] = []
    for position in range(depth):
        first = min(_SUREST, place.likelihood * quality * place.decay**position)
        tokens.append([first * (_TAIL * (1 - first)) ** rank for rank in range(topk)])
    found: list[tuple[int, float]] = []
    waiting = [(-tokens[0][0], 0, 0, 1.0)] if tokens else []
    while waiting and len(found) < LARGEST_BUDGET:
        negative, position, rank, before = heapq.heappop(waiting)
        found.append((position + 1, -negative))
        if rank + 1 < topk:
            heapq.heappush(waiting, (-before * tokens[position][rank + 1], position, rank + 1, before))
        if position + 1 < depth:
            heapq.heappush(waiting, (negative * tokens[position + 1][0], position + 1, 0, -negative))
    return found
