"""Prompts of the kind *chat*: somebody plans something and asks for advice, over several turns."""

from __future__ import annotations

import random

from autotune.benchmark.prompt_kind import Messages
from autotune.benchmark.sentences import PEOPLE, PLACES, THINGS, write_sentence, write_text

_QUESTIONS = (
    "{person} asks what to do about the {thing} at {place}. What would you suggest?",
    "How should {person} deal with the {thing} when {place} is closed?",
    "Which questions should I ask {person} before we decide on the {thing} for {place}?",
    "Is it worth keeping the {thing}, or should {person} look for another one near {place}?",
    "Could you explain to {person} why the {thing} matters more than {place}?",
)
_REQUESTS = (
    "Now write a detailed plan for {person}: how to deal with the {thing}, the {thing2} and {place}, week by week.",
    "Please write a long letter to {person} about the {thing} at {place}, and say what should happen with the {thing2}.",
    "Compare the {thing} and the {thing2} for {person} in every respect that matters at {place}, then recommend one.",
    "Write a guide for newcomers at {place}: what they must know about the {thing} and the {thing2}, with examples.",
)
_SHORTEST_TURN, _LONGEST_ANSWER = 320, 1400


def build_chat(rng: random.Random, characters: int, answer_characters: int, lead: int) -> Messages:  # noqa: ARG001
    """Write a chat of this kind; see :class:`autotune.benchmark.prompt_kind.Builder`."""
    request = _fill(rng, _REQUESTS)
    opening = f"Case {lead + 1}. "
    left = characters - len(request) - len(opening)
    turns: Messages = []
    while left >= _SHORTEST_TURN:
        question = _fill(rng, _QUESTIONS)
        answer = write_text(rng, min(left - len(question), rng.randint(300, _LONGEST_ANSWER)))
        turns += [("user", question), ("assistant", answer or write_sentence(rng))]
        left -= len(question) + len(answer)
    background = write_text(rng, left - 1)
    request = f"{background} {request}" if background else request
    chat = [*turns, ("user", request)]
    return [("user", opening + chat[0][1]), *chat[1:]]


def _fill(rng: random.Random, templates: tuple[str, ...]) -> str:
    thing, thing2 = rng.sample(THINGS, 2)
    return rng.choice(templates).format(person=rng.choice(PEOPLE), place=rng.choice(PLACES), thing=thing, thing2=thing2)
