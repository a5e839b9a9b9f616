"""How often the target's greedy answer is right, for families it has seen and for families it has not."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tokenizers import Tokenizer

from autotune.ddtree.corpus.catalogue import held_out_families, trained_families
from autotune.ddtree.corpus.chats import REQUESTS, UNSEEN_REQUESTS, Turn, function_turn, prompt
from autotune.ddtree.corpus.family import Family, results
from autotune.ddtree.model import Target
from autotune.ddtree.training.decoding import cut_at_end, greedy_answers

FENCE = re.compile(r"```(?:python)?\n(.*?)(?:```|\Z)", re.DOTALL)
DEADLINE_S = 10.0


@dataclass(frozen=True, slots=True)
class PassRate:
    """Greedy answers of one group of families.

    Attributes:
        group: which families and which wording.
        passed: answers that return what the family's own body returns on every example.
        asked: prompts.
        failed: names of the families that did not pass.
    """

    group: str
    passed: int
    asked: int
    failed: tuple[str, ...]


def is_right(answer: str, turn: Turn) -> bool:
    """Run the code of an answer in a process of its own on the family's examples."""
    task = turn.tasks[0]
    found = FENCE.search(answer)
    if found is None:
        return False
    family = task.family
    check = (
        f"{found.group(1)}\n\n"
        f"if repr(tuple({task.name}(*arguments) for arguments in {family.examples!r})) != repr({results(family)!r}):\n"
        "    raise SystemExit(1)\n"
    )
    try:
        done = subprocess.run([sys.executable, "-I", "-c", check], check=False, capture_output=True, timeout=DEADLINE_S)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def draw_turns(rng: random.Random, families: Sequence[Family], requests: Sequence[str], count: int) -> list[Turn]:
    """``count`` questions about different families, or about every family as often as needed."""
    rounds, rest = divmod(count, len(families))
    chosen = [*list(families) * rounds, *rng.sample(list(families), rest)]
    return [function_turn(rng, family, requests) for family in chosen]


def pass_rate(target: Target, tokenizer: Tokenizer, group: str, turns: Sequence[Turn]) -> PassRate:
    """Answer single-function questions greedily and run the answers."""
    encoded = sorted(
        ((tokenizer.encode(prompt(turn.request)).ids, turn) for turn in turns), key=lambda pair: len(pair[0])
    )
    answers: list[tuple[str, Turn]] = []
    for first in range(0, len(encoded), 64):
        batch = encoded[first : first + 64]
        for tokens, (_, turn) in zip(greedy_answers(target, [ids for ids, _ in batch], 320), batch, strict=True):
            answers.append((tokenizer.decode(cut_at_end(tokens)), turn))
    with ThreadPoolExecutor() as pool:
        right = list(pool.map(lambda pair: is_right(*pair), answers))
    failed = tuple(turn.tasks[0].family.name for (_, turn), ok in zip(answers, right, strict=True) if not ok)
    return PassRate(group, sum(right), len(right), failed)


def measure_pass_rates(target: Target, tokenizer: Tokenizer, questions: int = 100, seed: int = 1) -> list[PassRate]:
    """Pass rates of trained and held-out families, asked in trained and in unseen words, ``questions`` each."""
    rng = random.Random(seed)  # noqa: S311 - reproducible questions, no secret
    groups = (
        ("trained families, trained wording", trained_families(), REQUESTS),
        ("trained families, unseen wording", trained_families(), UNSEEN_REQUESTS),
        ("held-out families, unseen wording", held_out_families(), UNSEEN_REQUESTS),
    )
    return [
        pass_rate(target, tokenizer, group, draw_turns(rng, families, requests, questions))
        for group, families, requests in groups
    ]
