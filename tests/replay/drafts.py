"""Texts with drafts, made up by hand or by chance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autotune.replay.chain_walk import DraftedText

MISS = 99
"""A token that no text has."""


def drafted(text: Sequence[int], hits: Sequence[int], depths: int = 3, ranks: int = 1) -> DraftedText:
    """Return a text whose draft after token *i* agrees with it for ``hits[i]`` tokens, at rank 0; -1 is no draft."""
    places = [place for place, hit in enumerate(hits) if hit >= 0]
    tokens = np.full((len(places), depths, ranks), MISS)
    for row, place in enumerate(places):
        for depth in range(min(hits[place], depths, len(text) - place - 1)):
            tokens[row, depth, 0] = text[place + 1 + depth]
    logprobs = np.tile(np.log(0.5 ** np.arange(1, ranks + 1)), (len(places), depths, 1))
    return DraftedText(np.array(text), np.array(places), tokens, logprobs)


def random_texts(seed: int, count: int, *, length: int = 40, depths: int = 7, ranks: int = 4) -> list[DraftedText]:
    """Return texts with a draft after every token, of which a rank is right in most places."""
    rng = np.random.default_rng(seed)
    texts = []
    for _ in range(count):
        text = rng.integers(0, 50, length)
        tokens = rng.integers(50, 90, (length, depths, ranks))
        right = rng.choice(ranks + 1, (length, depths), p=[0.6, *[0.2 / (ranks - 1)] * (ranks - 1), 0.2])
        for place, depth in np.ndindex(length, depths):
            if right[place, depth] < ranks and place + 1 + depth < length:
                tokens[place, depth, right[place, depth]] = text[place + 1 + depth]
        shares = rng.dirichlet([0.4] * (ranks + 2), (length, depths))
        logprobs = np.log(np.maximum(-np.sort(-shares, axis=2)[:, :, :ranks], 1e-9))
        texts.append(DraftedText(text, np.arange(length), tokens, logprobs))
    return texts
