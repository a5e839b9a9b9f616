"""The worker of a DDTree server as the draft hook sees it, for the stand-in server: a module of a package ``sglang``.

Runs on a test host with the system's Python and nothing else, so it has as much of a tensor as passes by the hook.
"""

from __future__ import annotations

import math
from typing import Any

BLOCK = 16
VOCABULARY = 24
TRUE_DEPTHS = 5
"""So many drafted tokens are the ones that the text goes on with; the next is the second best, the rest are wrong."""


class Tensor:
    """Nested lists of numbers."""

    def __init__(self, data: Any) -> None:
        self.data = data

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of all dimensions."""
        found, data = [], self.data
        while isinstance(data, list):
            found.append(len(data))
            data = data[0]
        return tuple(found)

    def tolist(self) -> Any:
        """Return the lists."""
        return self.data

    def float(self) -> Tensor:
        """Return itself: its numbers are floats already."""
        return self

    def reshape(self, _size: int) -> Tensor:
        """Return itself: only flat ones are reshaped."""
        return self

    def topk(self, count: int, dim: int) -> tuple[Tensor, Tensor]:
        """Return the largest values of the last dimension and where they are."""
        assert dim == -1
        ranked = [
            [sorted(range(len(row)), key=row.__getitem__, reverse=True)[:count] for row in rows] for rows in self.data
        ]
        values = [
            [[row[i] for i in order] for row, order in zip(rows, orders, strict=True)]
            for rows, orders in zip(self.data, ranked, strict=True)
        ]
        return Tensor(values), Tensor(ranked)

    def logsumexp(self, dim: int, *, keepdim: bool) -> Tensor:
        """Return the log of the sum of exponentials of the last dimension."""
        assert (dim, keepdim) == (-1, True)
        return Tensor([[[math.log(sum(map(math.exp, row)))] for row in rows] for rows in self.data])

    def __sub__(self, other: Tensor) -> Tensor:
        pairs = [list(zip(mine, theirs, strict=True)) for mine, theirs in zip(self.data, other.data, strict=True)]
        return Tensor([[[value - one for value in row] for row, (one,) in rows] for rows in pairs])

    def clamp(self, low: Any, high: Any) -> Tensor:
        """Return it with all numbers between two."""
        return Tensor([[[min(max(value, low), high) for value in row] for row in rows] for rows in self.data])


class Request:
    """A request as a server of the pull request holds it."""

    def __init__(self, rid: str, prompt_tokens: int) -> None:
        self.rid = rid
        self.origin_input_ids = [0] * prompt_tokens
        self.output_ids = [token_at(0)]
        self.is_over = False

    def finished(self) -> bool:
        """Whether it has ended."""
        return self.is_over


class Fields:
    """Whatever is named."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)


def token_at(place: int) -> int:
    """Return the token that every text has at a place."""
    return (place * 7 + place // VOCABULARY) % VOCABULARY


def build_ddtree_tree(draft_logits: Tensor, tree_budget: int) -> tuple[Tensor, int]:
    """Build no tree: what is given comes back."""
    return draft_logits, tree_budget


class DDTreeWorker:
    """Drafts for one request at a time."""

    def __init__(self, tp_rank: int, tree_budget: int) -> None:
        self.tp_rank = tp_rank
        self._budget = tree_budget

    def take_step(self, request: Request) -> None:
        """Draft behind the text of a request."""
        text = request.output_ids
        batch = Fields(reqs=[request], seq_lens=Tensor([len(request.origin_input_ids) + len(text) - 1]))
        self._prepare_for_speculative_decoding(batch, Fields(verified_id=Tensor([text[-1]])))

    def _prepare_for_speculative_decoding(self, batch: Any, draft_input: Any) -> None:
        assert draft_input.verified_id.shape == (1,)
        if self._budget >= BLOCK:
            place = len(batch.reqs[0].output_ids)
            rows = [self._draft(place, depth) for depth in range(BLOCK - 1)]
            build_ddtree_tree(draft_logits=Tensor([rows]), tree_budget=self._budget)

    @staticmethod
    def _draft(place: int, depth: int) -> list[float]:
        scores = [0.001 * token for token in range(VOCABULARY)]
        right = token_at(place + depth)
        scores[right] = 5.0 if depth < TRUE_DEPTHS else 3.0 if depth == TRUE_DEPTHS else -5.0
        scores[(right + 1) % VOCABULARY] = 3.5 if depth >= TRUE_DEPTHS else 0.0
        return scores
