from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from autotune.benchmark.prompt_set import PromptSet
from autotune.benchmark.workload import Prompt, describe_lengths, draw_nonce
from autotune.trial import Cell
from tests.benchmark.test_testimony import record

ALL_KINDS = {"code": 1.0, "chat": 1.0, "reasoning": 1.0, "long": 1.0}


class Tokenizer:
    """Counts as byte-pair tokenizers do: words, digits in groups of three, each other character; long words in pieces."""

    def __init__(self, template_tokens: int = 11, longest: int = 6) -> None:
        self.asked = 0
        self.template_tokens = template_tokens
        self.longest = longest

    def tokens(self, prompt: Prompt) -> int:
        whole = 0
        for _role, text in prompt.messages:
            for piece in re.findall(r" ?[A-Za-z]+|\d{1,3}|\n+|[^A-Za-z\d]", text):
                whole += -(-len(piece) // self.longest) if piece.strip().isalpha() else 1
            whole += 4
        return whole + self.template_tokens

    async def count(self, prompts: Sequence[Prompt]) -> list[int | None]:
        self.asked += len(prompts)
        return [self.tokens(prompt) for prompt in prompts]


def prepare(
    tokenizer: Tokenizer,
    cell: Cell,
    *,
    path: Path | None = None,
    nonce: str | None = None,
    repeat: int = 0,
    count: int = 8,
) -> tuple[Prompt, ...]:
    prompts = PromptSet(tokenizer.count, seed=1, output_tokens=128, characters_per_token=3.6, path=path, model="m")
    return asyncio.run(prompts.prepare(cell, repeat, count, ALL_KINDS, nonce))


@pytest.mark.parametrize("context", [256, 1024, 4096, 32768])
@pytest.mark.parametrize("nonce", [None, draw_nonce()], ids=["bare", "nonce"])
def test_every_prompt_has_exactly_as_many_tokens_as_the_context_says(context: int, nonce: str | None):
    tokenizer = Tokenizer()
    prompts = prepare(tokenizer, Cell(context, 8), nonce=nonce)

    assert {tokenizer.tokens(prompt) for prompt in prompts} == {context}
    assert {prompt.kind.value for prompt in prompts} == set(ALL_KINDS)
    assert tokenizer.asked <= 13 + 5 * len(prompts)


def test_little_of_a_prompt_is_filling():
    tokenizer = Tokenizer()
    for prompt in prepare(tokenizer, Cell(4096, 8)):
        tags = prompt.messages[0][1].partition("\n")[0]

        assert len(tags.split()) - 2 <= 0.04 * 4096


def test_what_was_found_is_used_by_later_trials(tmp_path: Path):
    first, second = Tokenizer(), Tokenizer()
    path = tmp_path / "prompts.jsonl"

    assert prepare(first, Cell(512, 8), path=path) == prepare(second, Cell(512, 8), path=path)
    assert first.asked > 0
    assert second.asked == 0


def test_a_file_that_was_cut_off_or_belongs_to_other_settings_is_asked_anew(tmp_path: Path):
    path = tmp_path / "prompts.jsonl"
    expected = prepare(Tokenizer(), Cell(512, 8), path=path)
    lines = path.read_bytes()
    path.write_bytes(lines.replace(lines[16:32], b"0" * 16) + b'{"fingerpr')
    tokenizer = Tokenizer()

    assert prepare(tokenizer, Cell(512, 8), path=path) == expected
    assert tokenizer.asked > 0


def test_repeats_share_no_prompt():
    """case 24."""
    tokenizer = Tokenizer()
    texts = [
        json.dumps(prompt.messages) for repeat in (0, 1) for prompt in prepare(tokenizer, Cell(512, 8), repeat=repeat)
    ]

    assert len(set(texts)) == len(texts)


def test_another_nonce_changes_the_beginning_and_no_length():
    """case 24."""
    tokenizer, path_free = Tokenizer(), Cell(512, 8)
    nonces = (draw_nonce(), draw_nonce())
    one, other = (prepare(tokenizer, path_free, nonce=nonce) for nonce in nonces)

    assert {tokenizer.tokens(prompt) for prompt in (*one, *other)} == {512}
    assert [prompt.prompt_id for prompt in one] == [prompt.prompt_id for prompt in other]
    assert all(a.messages[0][1].startswith(f"Tags: {nonces[0]}") for a in one)


def test_a_request_longer_than_its_context_sets_the_length_of_all():
    tokenizer = Tokenizer()
    prompts = prepare(tokenizer, Cell(8, 8))
    lengths = {tokenizer.tokens(prompt) for prompt in prompts}

    assert len(lengths) == 1
    assert lengths.pop() > 8


def test_a_server_that_does_not_count_prompts_is_not_asked_again():
    asked: list[int] = []

    async def count(prompts: Sequence[Prompt]) -> list[int | None]:
        asked.append(len(prompts))
        return [9] * len(prompts)

    prompts = PromptSet(count, seed=1, output_tokens=128, characters_per_token=4.0)
    built = asyncio.run(prompts.prepare(Cell(512, 8), 0, 8, ALL_KINDS))
    asyncio.run(prompts.prepare(Cell(512, 8), 1, 8, ALL_KINDS))

    assert asked == [13]
    assert all(abs(prompt.characters / 4.0 - 512) < 0.1 * 512 for prompt in built)


def test_a_server_that_sometimes_fails_still_gets_prompts():
    tokenizer = Tokenizer()
    calls = 0

    async def count(prompts: Sequence[Prompt]) -> list[int | None]:
        nonlocal calls
        calls += 1
        counts = await tokenizer.count(prompts)
        return [None if calls > 1 and index == 0 else tokens for index, tokens in enumerate(counts)]

    prompts = PromptSet(count, seed=1, output_tokens=128, characters_per_token=3.6)
    built = asyncio.run(prompts.prepare(Cell(512, 8), 0, 4, ALL_KINDS))

    assert [tokenizer.tokens(prompt) for prompt in built[1:]] == [512] * 3


def test_unequal_lengths_are_said():
    assert describe_lengths([], 9) == ()
    assert describe_lengths([record()], 9) == ()
    assert describe_lengths([record()], 8) == ("prompts have 9 tokens, the context is 8",)
