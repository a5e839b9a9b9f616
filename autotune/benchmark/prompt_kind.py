"""Which kinds of prompts are there, and in which order does a mix of them go out?"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Protocol

Messages = list[tuple[str, str]]
"""Pairs of role and text, oldest first; the last one is the request that is answered."""


class PromptKind(Enum):
    """What a prompt is about. Kinds differ in how well drafts are accepted, so a figure belongs to its mix."""

    CODE = "code"
    """Small Python modules, with earlier modules of the same chat as context."""
    CHAT = "chat"
    """Everyday questions and advice over several turns."""
    REASONING = "reasoning"
    """Word problems to be solved step by step, with solved ones as context."""
    LONG = "long"
    """A long document, then a request about it."""


class Builder(Protocol):
    """Writes one prompt of a kind."""

    def __call__(self, rng: random.Random, characters: int, answer_characters: int, lead: int) -> Messages:
        """Write a chat of at most so many characters, as far as its request leaves that.

        Args:
            rng: everything that is chosen is chosen by it.
            characters: of all messages together.
            answer_characters: length that the answer should exceed.
            lead: differs for each prompt of a cell, so that no two begin alike.
        """
        ...


def schedule(mix: Mapping[str, float]) -> Iterator[PromptKind]:
    """Yield kinds for ever so that each beginning of the sequence has its shares, as nearly as whole prompts allow.

    >>> from itertools import islice
    >>> [kind.value for kind in islice(schedule({"code": 2, "chat": 1}), 6)]
    ['code', 'chat', 'code', 'code', 'chat', 'code']
    """
    kinds = [kind for kind in PromptKind if mix.get(kind.value)]
    whole = sum(mix[kind.value] for kind in kinds)
    sent = dict.fromkeys(kinds, 0)
    total = 0
    while True:
        total += 1
        kind = max(kinds, key=lambda item: mix[item.value] / whole * total - sent[item])
        sent[kind] += 1
        yield kind
