"""How well does a histogram of accepted lengths tell the accept length with a smaller block? On recorded drafts, by hand.

::

    python -m tests.benchmarks.histogram_bias

A step that accepted k of the drafted tokens would have accepted min(k, b - 1) with a block of b, if its tree had had the same
nodes and it had begun at the same place. Neither is so: the smaller block spends its budget on width, and its steps begin
elsewhere. Both are counted exactly here: drafts after every token of known texts, walked with each block.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from autotune.replay.acceptance import count_accepted, rank_text
from autotune.replay.chain_walk import DraftedText
from tests.benchmarks.replay_accuracy import load_texts

STEM: Final = Path("studies/tables/h200_large_drafts")
TREES: Final = ((4, 1), (8, 1), (15, 1), (8, 4), (16, 4), (32, 4), (64, 8))
LARGE: Final = 16
BLOCKS: Final = (8, 4)


def count_steps(texts: list[DraftedText], budget: int, topk: int, block: int) -> NDArray[np.int64]:
    """Return how many drafted tokens each step of a run over all texts accepts."""
    steps: list[int] = []
    for text in texts:
        ranks = rank_text(text.tokens, text.places, text.text)
        accepted = count_accepted(text.logprobs, ranks, topks=[topk], largest_budget=budget, positions=block - 1)
        place = 0
        while place < len(text.text) - 1:
            steps.append(int(accepted[place, 0, -1]))
            place += steps[-1] + 1
    return np.array(steps)


def main() -> None:
    """Print the errors of every tree."""
    texts = load_texts(STEM, None)
    print("| tree | block | accept length | from the histogram at block 16 | off by |\n| --- | --- | --- | --- | --- |")
    errors = []
    for budget, topk in TREES:
        large = count_steps(texts, budget, topk, LARGE)
        for block in BLOCKS:
            real = 1 + float(count_steps(texts, budget, topk, block).mean())
            told = 1 + float(np.minimum(large, block - 1).mean())
            errors.append(math.log(told / real))
            print(f"| {budget}/{topk} | {block} | {real:.3f} | {told:.3f} | {math.expm1(errors[-1]):+.1%} |")
    print(f"\nmean of the log {np.mean(errors):+.3f}, standard deviation {np.std(errors, ddof=1):.3f}")


if __name__ == "__main__":
    main()
