"""Which draft tree is best under a budget? The best-first tree of DDTree (arXiv 2604.12989), built two ways.

The drafter gives a distribution for each of the next positions; a node is a path of ranks, its score the sum of the
log-probabilities along it. The tree holds the ``budget`` best nodes. Ties go to the shorter path, then to the smaller
ranks, so both builders give the same tree in the same order. There is no mode of its own for small budgets: a budget of
at most ``block - 1`` also gives the best-first tree, and ``topk = 1`` gives the chain for every budget.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class DraftTree:
    """One tree, best node first; slot 0 is the root (the last committed token), node ``i`` of the lists is slot ``i + 1``.

    Attributes:
        parents: slot of each node's parent, always an earlier slot.
        depths: 0 for the position right after the root.
        ranks: rank of the node's token at its position, 0 is the likeliest.
    """

    parents: tuple[int, ...]
    depths: tuple[int, ...]
    ranks: tuple[int, ...]


def effective_width(budget: int, block: int, topk: int, *, clip_width: bool) -> int:
    """Tokens kept per position: ``topk``, or less where the clip of SGLang's pull request is asked for.

    >>> effective_width(16, 16, 6, clip_width=True), effective_width(16, 16, 6, clip_width=False)
    (2, 6)
    """
    return min(max(budget // (block - 1) + 1, 2), topk) if clip_width else topk


def reachable_depth(budget: int, block: int) -> int:
    """Positions that a tree can reach: a path of n tokens needs n nodes."""
    return min(budget, block - 1)


def count_nodes(budget: int, positions: int, width: int) -> int:
    """Nodes of the tree: the budget, or all paths where there are fewer.

    >>> count_nodes(16, 15, 4), count_nodes(16, 3, 1), count_nodes(16, 2, 2)
    (16, 3, 6)
    """
    total, level = 0, 1
    for _ in range(positions):
        level = min(budget, level * width)
        total += level
    return min(total, budget)


def best_first_tree(log_probabilities: Sequence[Sequence[float]], budget: int) -> DraftTree:
    """Build one tree with a heap, as the paper writes it.

    Args:
        log_probabilities: per position the log-probabilities by rank, descending.
        budget: most nodes.

    >>> best_first_tree([[-0.1, -2.4], [-0.5, -1.0]], 3)
    DraftTree(parents=(0, 1, 1), depths=(0, 1, 1), ranks=(0, 0, 1))
    """
    positions, width = len(log_probabilities), len(log_probabilities[0])
    first = log_probabilities[0][0]
    frontier: list[tuple[float, int, tuple[int, ...], int, float]] = [(-first, 0, (0,), 0, 0.0)]
    parents: list[int] = []
    depths: list[int] = []
    ranks: list[int] = []
    while frontier and len(parents) < budget:
        negative, depth, path, parent, above = heapq.heappop(frontier)
        rank = path[-1]
        parents.append(parent)
        depths.append(depth)
        ranks.append(rank)
        if rank + 1 < width:
            sibling = above - log_probabilities[depth][rank + 1]
            heapq.heappush(frontier, (sibling, depth, (*path[:-1], rank + 1), parent, above))
        if depth + 1 < positions:
            child = negative - log_probabilities[depth + 1][0]
            heapq.heappush(frontier, (child, depth + 1, (*path, 0), len(parents), negative))
    return DraftTree(tuple(parents), tuple(depths), tuple(ranks))


def level_wise_trees(log_probabilities: Tensor, budget: int) -> tuple[Tensor, Tensor, Tensor]:
    """Build the same trees for a batch without leaving the device.

    Each level keeps its best candidates in the order of their paths; of all levels the best ``budget`` nodes remain. A
    node among the best has its ancestors among the best too, so ``budget`` less the depth are enough on each level.

    Args:
        log_probabilities: ``[B, positions, width]``, descending in the last axis.
        budget: most nodes.

    Returns:
        Parents, depths and ranks as in :class:`DraftTree`, each ``[B, N]``.
    """
    batch, positions, width = log_probabilities.shape
    device = log_probabilities.device
    exact = log_probabilities.double()
    scores = torch.zeros(batch, 1, dtype=torch.float64, device=device)
    slots = torch.full((batch, 1), -1, device=device)
    base = 0
    levels: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
    for depth in range(min(positions, budget)):
        count = scores.shape[1] * width
        scores = (scores[:, :, None] + exact[:, depth, None]).reshape(batch, count)
        ranks = torch.arange(count, device=device).remainder(width).expand(batch, -1)
        above = slots.repeat_interleave(width, 1)
        keep = min(budget - depth, count)
        if keep < count:
            order = scores.sort(dim=-1, descending=True, stable=True).indices[:, :keep].sort(dim=-1).values
            scores, ranks, above = scores.gather(1, order), ranks.gather(1, order), above.gather(1, order)
        slots = torch.arange(base, base + keep, device=device).expand(batch, -1)
        base += keep
        levels.append((scores, above, torch.full_like(above, depth), ranks))
    all_scores, all_above, all_depths, all_ranks = (torch.cat(parts, 1) for parts in zip(*levels, strict=True))
    order = all_scores.sort(dim=-1, descending=True, stable=True).indices[:, :budget]
    nodes = order.shape[1]
    final_slot = torch.zeros_like(all_above).scatter_(
        1, order, torch.arange(1, nodes + 1, device=device).expand(batch, -1)
    )
    above = all_above.gather(1, order)
    parents = torch.where(above < 0, 0, final_slot.gather(1, above.clamp(min=0)))
    return parents, all_depths.gather(1, order), all_ranks.gather(1, order)


def ancestor_rows(parents: Sequence[int]) -> bytes:
    """Row-major matrix of one tree, a byte per entry: entry (i, j) is 1 where slot j is slot i or one of its ancestors.

    >>> list(ancestor_rows((0, 1)))
    [1, 0, 0, 1, 1, 0, 1, 1, 1]
    """
    root = bytearray(len(parents) + 1)
    root[0] = 1
    rows = [root]
    for slot, parent in enumerate(parents, 1):
        row = rows[parent][:]
        row[slot] = 1
        rows.append(row)
    return b"".join(rows)


def ancestor_matrices(parents: Tensor, positions: int) -> Tensor:
    """The same for a batch on the device: parents ``[B, N]`` to booleans ``[B, N + 1, N + 1]``."""
    batch, nodes = parents.shape
    matrix = torch.zeros(batch, nodes + 1, nodes + 1, device=parents.device)
    matrix[:, 1:].scatter_(2, parents[:, :, None], 1.0)
    matrix.diagonal(dim1=1, dim2=2).fill_(1.0)
    for _ in range(max(1, math.ceil(math.log2(positions + 1)))):
        matrix = torch.bmm(matrix, matrix).clamp_(max=1.0)
    return matrix > 0
