"""How many tokens a step would commit: the drafter's trees walked along answers that are already known."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from autotune.ddtree.model import Drafter, Target, rotary_tables
from autotune.ddtree.training.answers import Answered
from autotune.ddtree.training.drafter import Batch, make_batches


@dataclass(frozen=True, slots=True)
class Setting:
    """How the tree is drawn: nodes, tokens kept per position, positions, context positions seen (``None``: all)."""

    budget: int
    topk: int
    block: int
    window: int | None = None


def accepted(log_probabilities: Sequence[Sequence[float]], ranks: Sequence[int], budget: int) -> int:
    """How many tokens of the true path are in the best tree of ``budget`` nodes.

    Args:
        log_probabilities: of the kept tokens at each position, best first.
        ranks: of the true token at each position; anything beyond the kept tokens ends the path.
        budget: nodes.
    """
    topk = len(log_probabilities[0])
    # An entry is (minus the path's log-probability, depth, rank, is it a true path so far).
    frontier = [(-log_probabilities[0][0], 1, 0, True)]
    deepest = 0
    for _ in range(budget):
        if not frontier:
            break
        cost, depth, rank, parent_true = heapq.heappop(frontier)
        row = log_probabilities[depth - 1]
        is_true = parent_true and ranks[depth - 1] == rank
        if is_true:
            deepest = depth
        if rank + 1 < topk:
            heapq.heappush(frontier, (cost + row[rank] - row[rank + 1], depth, rank + 1, parent_true))
        if depth < len(log_probabilities):
            heapq.heappush(frontier, (cost - log_probabilities[depth][0], depth + 1, 0, is_true))
    return deepest


@torch.inference_mode()
def _walk(target: Target, drafter: Drafter, batch: Batch, starts: list[int], setting: Setting) -> tuple[int, int]:
    """Return tokens committed and steps taken over all rows of a batch."""
    device = batch.ids.device
    cosine, sine = rotary_tables(target.config, device, torch.float32)
    length = batch.ids.shape[1]
    _, features = target(batch.ids, (cosine[:length], sine[:length]))
    ends = batch.lengths.tolist()
    places = list(starts)
    tokens = steps = 0
    rows = list(range(len(places)))
    while rows := [row for row in rows if places[row] + 1 < ends[row]]:
        index = torch.tensor(rows, device=device)
        anchors = torch.tensor([[places[row]] for row in rows], device=device)
        embeddings = target.embedding(batch.ids[index].gather(1, anchors))
        window = setting.window or length
        hidden = drafter(features[index], embeddings, anchors, setting.block, window, (cosine, sine))[:, 0]
        best, kept = target.head(hidden).log_softmax(-1).topk(setting.topk, -1)
        for row, probabilities, candidates in zip(rows, best.tolist(), kept.tolist(), strict=True):
            truth = batch.ids[row, places[row] + 1 : min(places[row] + setting.block, ends[row])].tolist()
            ranks = [
                drafted.index(token) if token in drafted else -1
                for token, drafted in zip(truth, candidates, strict=False)
            ]
            ranks += [-1] * (setting.block - 1 - len(ranks))
            step = accepted(probabilities, ranks, setting.budget) + 1
            places[row] += step
            tokens += step
            steps += 1
    return tokens, steps


def accept_length(target: Target, drafter: Drafter, answered: Sequence[Answered], setting: Setting) -> float:
    """Mean tokens committed a step, bonus token included, over greedy answers of ``target``."""
    tokens = steps = 0
    ordered = sorted((item for item in answered if len(item.answer) > 2), key=lambda item: len(item.tokens))
    first = 0
    for batch in make_batches(ordered, 65536, str(target.embedding.weight.device)):
        group = ordered[first : first + len(batch.ids)]
        first += len(batch.ids)
        more_tokens, more_steps = _walk(target, drafter, batch, [len(item.prompt) for item in group], setting)
        tokens, steps = tokens + more_tokens, steps + more_steps
    return tokens / steps
