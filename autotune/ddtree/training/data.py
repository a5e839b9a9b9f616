"""The corpus as tokens: one long array cut into sequences that begin where chats begin."""

from __future__ import annotations

import functools
import multiprocessing
import os
import random
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from autotune.ddtree.corpus.chats import corpus_part, corpus_sha256
from autotune.ddtree.tokenizer import train_tokenizer
from autotune.ddtree.training.recipe import Recipe


@dataclass(frozen=True, slots=True)
class TrainingData:
    """What the target learns from.

    Attributes:
        tokenizer: learned from the first parts of the corpus.
        tokens: all chats in random order.
        starts: where each chat begins in ``tokens``.
        validation: the same for one part of the corpus that is not trained on.
        sha256: of the corpus.
    """

    tokenizer: Tokenizer
    tokens: npt.NDArray[np.uint16]
    starts: npt.NDArray[np.int64]
    validation: npt.NDArray[np.uint16]
    sha256: str


def make_corpus(recipe: Recipe) -> list[list[str]]:
    """Make all parts of the corpus, on all cores; the result does not depend on how many there are."""
    make = functools.partial(corpus_part, recipe.seed, chats=recipe.chats_per_part)
    workers = min(os.cpu_count() or 1, recipe.parts)
    if workers == 1 or recipe.parts <= 2:
        return [make(part) for part in range(recipe.parts)]
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        return pool.map(make, range(recipe.parts), chunksize=1)


def _join(encoded: list[list[int]]) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.int64]]:
    lengths = np.array([len(ids) for ids in encoded], dtype=np.int64)
    tokens = np.concatenate([np.array(ids, dtype=np.uint16) for ids in encoded])
    return tokens, np.cumsum(lengths) - lengths


def prepare(recipe: Recipe) -> TrainingData:
    """Make the corpus, learn the tokenizer and encode everything."""
    parts = make_corpus(recipe)
    tokenizer = train_tokenizer(
        (chat for part in parts[: recipe.tokenizer_parts] for chat in part), recipe.model.vocabulary
    )
    chats = [chat for part in parts for chat in part]
    random.Random(recipe.seed).shuffle(chats)  # noqa: S311 - order, not a secret
    tokens, starts = _join([encoding.ids for encoding in tokenizer.encode_batch(chats)])
    unseen = corpus_part(recipe.seed, recipe.parts, recipe.chats_per_part)
    validation, _ = _join([encoding.ids for encoding in tokenizer.encode_batch(unseen)])
    usable = starts[starts < len(tokens) - recipe.sequence - 1]
    return TrainingData(tokenizer, tokens, usable, validation, corpus_sha256(parts))
