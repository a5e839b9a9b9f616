"""Which prompts does a cell send?

The same for every trial, unique per repeat: a prompt is a function of (mix, cell, repeat, index, seed) and of its length
in characters. How long it has to be for an exact number of tokens is :mod:`autotune.benchmark.prompt_set`'s business.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from autotune.benchmark.chat_prompt import build_chat
from autotune.benchmark.code_prompt import build_code, load_functions
from autotune.benchmark.document_prompt import build_document
from autotune.benchmark.prompt_kind import Builder, PromptKind, schedule
from autotune.benchmark.reasoning_prompt import build_reasoning
from autotune.benchmark.request_record import RequestRecord
from autotune.trial import Cell

CHARACTERS_PER_TOKEN = 3.6
"""Used until a server has counted the tokens of a prompt."""

WARMUP = -1
"""The repeat number of warm-up prompts."""

ONLY_CODE: Mapping[str, float] = {"code": 1.0}
"""The mix of a study that states none."""

_BUILDERS: Mapping[PromptKind, Builder] = {
    PromptKind.CODE: build_code,
    PromptKind.CHAT: build_chat,
    PromptKind.REASONING: build_reasoning,
    PromptKind.LONG: build_document,
}
_LEADS_PER_REPEAT = 64
_MARKS = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heron")
_SYSTEM_RANDOM = secrets.SystemRandom()


@dataclass(frozen=True, slots=True)
class Prompt:
    """One chat that ends with a request.

    Attributes:
        prompt_id: cell, repeat and index; the same prompt has the same name in every trial.
        messages: pairs of role and text, oldest first.
        seed: of the sampling.
        kind: what it is about.
    """

    prompt_id: str
    messages: tuple[tuple[str, str], ...]
    seed: int
    kind: PromptKind = PromptKind.CODE

    @property
    def characters(self) -> int:
        """Length of all texts together."""
        return sum(len(text) for _role, text in self.messages)

    def tagged(self, words: Sequence[str]) -> Prompt:
        """The same prompt with a line of words in front.

        Words stand apart by one blank, so tokenizers count each for itself and their order does not matter.
        """
        (role, text), *rest = self.messages
        return replace(self, messages=((role, f"Tags: {' '.join(words)}\n{text}"), *rest))


def draw_nonce() -> str:
    """Draw words that make a prompt new to a prefix cache; every draw has as many tokens as any other.

    There are 40320 orders of the same eight words: a tokenizer that splits at blanks counts them all alike.
    """
    return " ".join(_SYSTEM_RANDOM.sample(_MARKS, len(_MARKS)))


def kinds_of(mix: Mapping[str, float], count: int) -> tuple[PromptKind, ...]:
    """Kinds of the prompts of one repeat, in order."""
    return tuple(islice(schedule(mix), count))


def build_prompt(
    cell: Cell, repeat: int, index: int, *, kind: PromptKind, seed: int, characters: int, answer_characters: int
) -> Prompt:
    """Build one prompt.

    Args:
        cell: part of its name and of what it is drawn from.
        repeat: number of the repeat, or :data:`WARMUP`.
        index: its place in the repeat.
        kind: what it is about.
        seed: of the study.
        characters: length of its text, at most, as far as the request leaves that.
        answer_characters: length that the answer should exceed, so that the token limit ends it.
    """
    # A generator per prompt: a cell with more requests begins with the same prompts.
    rng = random.Random(f"{seed}/{cell.name}/{repeat}/{index}")  # noqa: S311 - reproducible prompts, no secret
    messages = _BUILDERS[kind](rng, characters, answer_characters, _lead(seed, cell, repeat, index))
    stage = "warmup" if repeat == WARMUP else f"r{repeat}"
    name = f"{cell.name}-{stage}-p{index:03d}"
    seeds = random.Random(f"{seed}/{cell.name}/{repeat}/{index}/sampling")  # noqa: S311 - the same for every length
    return Prompt(name, tuple(messages), seeds.randrange(2**31), kind)


def build_prompts(
    cell: Cell,
    repeat: int,
    count: int,
    *,
    seed: int,
    output_tokens: int,
    characters_per_token: float = CHARACTERS_PER_TOKEN,
    mix: Mapping[str, float] = ONLY_CODE,
) -> tuple[Prompt, ...]:
    """Build the prompts of one repeat, about as long as the cell's context.

    Args:
        cell: its context is the length aimed at, in tokens.
        repeat: number of the repeat, or :data:`WARMUP`.
        count: how many.
        seed: of the study.
        output_tokens: token limit of the answers.
        characters_per_token: of the server's tokenizer.
        mix: weight of each kind.
    """
    return tuple(
        build_prompt(
            cell,
            repeat,
            index,
            kind=kind,
            seed=seed,
            characters=round(cell.context * characters_per_token),
            answer_characters=round(output_tokens * characters_per_token),
        )
        for index, kind in enumerate(kinds_of(mix, count))
    )


def _lead(seed: int, cell: Cell, repeat: int, index: int) -> int:
    """What a prompt begins with, by number: no two prompts of a cell share a beginning."""
    whole = len(load_functions())
    order = random.Random(f"{seed}/{cell.name}").sample(range(whole), whole)  # noqa: S311 - reproducible
    return order[((repeat + 2) * _LEADS_PER_REPEAT + index) % whole]


def describe_lengths(records: Sequence[RequestRecord], context: int) -> tuple[str, ...]:
    """Say so when prompts have not as many tokens as the context says, by the server's usage."""
    counts = [record.prompt_tokens for record in records if record.prompt_tokens is not None]
    if not counts:
        return ()
    shortest, longest = min(counts), max(counts)
    if shortest != longest:
        return (f"prompts have {shortest} to {longest} tokens, the context is {context}",)
    return () if shortest == context else (f"prompts have {shortest} tokens, the context is {context}",)
