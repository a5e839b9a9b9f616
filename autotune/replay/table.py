"""What accept length does a replay predict for every tree, and how far may it be off? Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from autotune.replay.chain_walk import DraftedText, Walks, walk
from autotune.replay.grown_tree import GrownTrees

GAP_BIAS: Final = 0.1
"""By how much a log accept length is off when every step begins where no draft was logged; in proportion else.

Recorded drafts, thinned to what runs of some trees would have logged, give 0.01 to 0.05 for a run at budget 2 and 0.07 to
0.19 for runs at budgets 8 and 15 (``docs/benchmarks.md``); a small tree is the better logger.
"""

FLOOR: Final = 0.01
"""What is never promised: batches of other shapes round differently, and a text then goes another way."""


@dataclass(frozen=True, slots=True)
class AcceptLengthTable:
    """Accept lengths of the trees of one window and one block, over some texts.

    Attributes:
        window: context positions that the drafter saw; ``None`` is all.
        block: the committed token and the positions drafted after it.
        texts: answers that were walked.
        topks: of the columns.
        accept_lengths: tokens a step; a row for each budget from 1 on, a column for each topk.
        deviations: standard deviation of the error of its log, likewise.
    """

    window: int | None
    block: int
    texts: int
    topks: tuple[int, ...]
    accept_lengths: tuple[tuple[float, ...], ...]
    deviations: tuple[tuple[float, ...], ...]

    def find(self, budget: int, topk: int) -> tuple[float, float] | None:
        """Return accept length and deviation of a tree; ``None`` when it is larger than any that was walked."""
        if not 1 <= budget <= len(self.accept_lengths) or topk not in self.topks:
            return None
        column = self.topks.index(topk)
        return self.accept_lengths[budget - 1][column], self.deviations[budget - 1][column]


def predict(
    texts: Sequence[DraftedText],
    *,
    window: int | None,
    block: int,
    topks: Sequence[int],
    largest_budget: int,
    rule: GrownTrees | None = None,
) -> AcceptLengthTable | None:
    """Walk every tree along texts of one context.

    The error has three parts: texts differ (standard error of a ratio of sums over texts), steps begin where no draft was
    logged (:data:`GAP_BIAS` times their share), and :data:`FLOOR`.

    Args:
        texts: answers with drafts of one window.
        window: of these drafts.
        block: of the trees.
        topks: of the trees, ascending.
        largest_budget: of the trees; smaller ones are walked too.
        rule: of the trees; ``None``: best-first.

    Returns:
        ``None`` when no text has a step.
    """
    texts = [text for text in texts if len(text.text) > 1 and len(text.places)]
    if not texts:
        return None
    walks = walk(texts, topks=topks, largest_budget=largest_budget, positions=block - 1, rule=rule)
    steps = walks.steps.sum(0)
    if not steps.all():
        return None
    accept_lengths = walks.tokens.sum(0) / steps
    deviations = np.sqrt(
        _standard_error(walks, accept_lengths) ** 2 + (GAP_BIAS * walks.redirected.sum(0) / steps) ** 2 + FLOOR**2
    )
    return AcceptLengthTable(window, block, len(texts), tuple(topks), _as_rows(accept_lengths), _as_rows(deviations))


def _standard_error(walks: Walks, accept_lengths: NDArray[np.float64]) -> NDArray[np.float64]:
    """Standard error of the log of tokens over steps, texts being the sample (linearised ratio estimator).

    With one text nothing shows how texts differ: 0.
    """
    count = len(walks.steps)
    if count < 2:
        return np.zeros_like(accept_lengths)
    residuals = walks.tokens - accept_lengths * walks.steps
    variance = (residuals**2).sum(0) * count / (count - 1)
    return np.asarray(np.sqrt(variance) / walks.tokens.sum(0))


def _as_rows(values: NDArray[np.float64]) -> tuple[tuple[float, ...], ...]:
    """Turn ``[topks, budgets]`` into rows by budget, with four digits after the point."""
    return tuple(tuple(round(value, 4) for value in row) for row in values.T.tolist())


def pool(tables: Sequence[AcceptLengthTable], weights: Sequence[float]) -> AcceptLengthTable:
    """Pool tables of one window and block over contexts: the weighted geometric mean, as a speed objective is one.

    Raises:
        ValueError: the tables are of different trees.
    """
    first = tables[0]
    shape = (first.window, first.block, first.topks, len(first.accept_lengths))
    if any((each.window, each.block, each.topks, len(each.accept_lengths)) != shape for each in tables):
        raise ValueError("tables of different trees have no mean")
    total = math.fsum(weights)
    shares = np.array([weight / total for weight in weights])
    logs = np.log([table.accept_lengths for table in tables])
    # Contexts share the model and its drafter: their errors are taken to go together.
    deviations = np.tensordot(shares, np.array([table.deviations for table in tables]), 1)
    return AcceptLengthTable(
        first.window,
        first.block,
        sum(table.texts for table in tables),
        first.topks,
        _as_rows(np.exp(np.tensordot(shares, logs, 1)).T),
        _as_rows(deviations.T),
    )
