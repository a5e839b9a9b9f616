"""What the drafter learns from: prompts of the corpus with the answers the target itself gives to them."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tokenizers import Tokenizer

from autotune.ddtree.corpus.catalogue import trained_families
from autotune.ddtree.corpus.chats import draw_chat, prompt, render_chat
from autotune.ddtree.model import Target
from autotune.ddtree.training.decoding import cut_at_end, greedy_answers
from autotune.ddtree.training.recipe import Recipe


@dataclass(frozen=True, slots=True)
class Answered:
    """One prompt and the target's greedy continuation.

    Attributes:
        prompt: tokens.
        answer: tokens; one in four goes on past its end token, as a server asked to ignore it would.
    """

    prompt: tuple[int, ...]
    answer: tuple[int, ...]

    @property
    def tokens(self) -> tuple[int, ...]:
        """Prompt and answer."""
        return self.prompt + self.answer


def draw_prompts(rng: random.Random, tokenizer: Tokenizer, count: int, longest: int) -> list[list[int]]:
    """Draw prompts that end where an answer begins, after earlier turns in some, shortest first."""
    families = trained_families()
    prompts: list[list[int]] = []
    while len(prompts) < count:
        *earlier, last = draw_chat(rng, families)
        ids = tokenizer.encode(render_chat(earlier) + prompt(last.request)).ids
        if len(ids) <= longest:
            prompts.append(ids)
    return sorted(prompts, key=len)


def make_answers(recipe: Recipe, target: Target, tokenizer: Tokenizer, seed: str, batches: int) -> list[Answered]:
    """Let the target answer ``batches`` batches of prompts."""
    rng = random.Random(seed)  # noqa: S311 - reproducible prompts, no secret
    size = recipe.generation_batch
    prompts = draw_prompts(rng, tokenizer, batches * size, recipe.prompt)
    answered = []
    for first in range(0, len(prompts), size):
        batch = prompts[first : first + size]
        for ids, answer in zip(batch, greedy_answers(target, batch, recipe.answer), strict=True):
            kept = answer if rng.random() < 0.25 else cut_at_end(answer)
            answered.append(Answered(tuple(ids), tuple(kept)))
    return answered
