from __future__ import annotations

import ast
import json
import random
import re
import statistics
from itertools import pairwise
from operator import add, floordiv, mul, sub

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.benchmark.code_prompt import load_functions
from autotune.benchmark.prompt_kind import PromptKind
from autotune.benchmark.reasoning_prompt import write_problem
from autotune.benchmark.workload import WARMUP, Prompt, build_prompts, draw_nonce, kinds_of
from autotune.settings import PROMPT_KINDS
from autotune.trial import Cell


def build(cell: Cell, repeat: int = 0, count: int = 8, seed: int = 1, output_tokens: int = 128) -> tuple[Prompt, ...]:
    return build_prompts(cell, repeat, count, seed=seed, output_tokens=output_tokens, characters_per_token=4.0)


def test_prompts_are_a_function_of_cell_repeat_and_seed():
    cell = Cell(512, 32)

    assert build(cell) == build(cell)
    assert build(cell, seed=2) != build(cell)
    assert build(cell, count=4) == build(cell, count=8)[:4]


def test_no_two_prompts_of_a_boot_are_the_same():
    """case 24."""
    prompts = [
        prompt
        for cell in (Cell(512, 1), Cell(512, 32), Cell(60, 32))
        for repeat in (WARMUP, 0, 1, 2)
        for prompt in build(cell, repeat, 32)
    ]

    assert len({prompt.prompt_id for prompt in prompts}) == len(prompts)
    assert len({prompt.messages for prompt in prompts}) == len(prompts)


def test_prompts_hardly_share_a_beginning():
    """case 24."""
    texts = sorted(json.dumps(prompt.messages) for repeat in (0, 1) for prompt in build(Cell(512, 32), repeat, 32))
    shared = [
        next((i for i, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), 0) for one, two in pairwise(texts)
    ]

    assert max(shared) < 140  # the opening sentence and the brackets of the JSON, not a function's line more


@pytest.mark.parametrize("context", [128, 256, 512, 1024, 4096, 16384])
def test_lengths_are_close_to_the_context_and_to_each_other(context: int):
    lengths = [prompt.characters / 4.0 for prompt in build(Cell(context, 32), count=32)]

    assert max(lengths) <= context * 1.05
    assert statistics.mean(lengths) >= context * 0.9
    assert statistics.stdev(lengths) <= max(0.08 * context, 16)


def test_a_tiny_context_still_asks_for_something():
    for prompt in build(Cell(1, 1)):
        assert "1. `" in prompt.messages[-1][1]


@pytest.mark.parametrize("context", [256, 512, 4096])
def test_answers_are_longer_than_the_limit(context: int):
    codes = {function.signature: function.code for function in load_functions()}
    for prompt in build(Cell(context, 32), count=32):
        asked = [line.split("`")[1] for line in prompt.messages[-1][1].splitlines() if "`" in line]

        assert 5 <= len(asked) <= 8
        assert sum(len(codes[signature]) for signature in asked) > 0


def test_a_chat_alternates_and_ends_with_the_request():
    for prompt in build(Cell(2048, 8)):
        roles = [role for role, _text in prompt.messages]

        assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]
        assert len(roles) >= 3


def test_no_function_is_asked_for_twice_in_a_prompt():
    for prompt in build(Cell(4096, 8)):
        asked = [
            line.split("`")[1]
            for role, text in prompt.messages
            if role == "user"
            for line in text.splitlines()
            if "`" in line
        ]

        assert len(asked) == len(set(asked))


def test_tags_come_first_and_change_nothing_else():
    """case 24."""
    for plain in build(Cell(512, 1)):
        tagged = plain.tagged(["amber", "birch"])

        assert tagged.messages[0][1] == f"Tags: amber birch\n{plain.messages[0][1]}"
        assert tagged.messages[1:] == plain.messages[1:]
        assert (tagged.prompt_id, tagged.seed) == (plain.prompt_id, plain.seed)


def test_nonces_differ_only_in_the_order_of_their_words():
    """case 24."""
    nonces = {draw_nonce() for _ in range(20)}

    assert len(nonces) > 15
    assert len({frozenset(nonce.split(" ")) for nonce in nonces}) == 1


@pytest.mark.parametrize("kind", list(PromptKind))
@pytest.mark.parametrize("context", [256, 4096, 32768])
def test_every_kind_reaches_its_length(kind: PromptKind, context: int):
    prompts = build_prompts(
        Cell(context, 4), 0, 4, seed=1, output_tokens=512, characters_per_token=4.0, mix={kind.value: 1.0}
    )

    for prompt in prompts:
        assert prompt.kind is kind
        assert 0.75 * context <= prompt.characters / 4.0 <= 1.05 * context
        assert prompt.messages[-1][0] == "user"
        assert [role for role, _text in prompt.messages] == ["user", "assistant"] * (len(prompt.messages) // 2) + [
            "user"
        ]


@pytest.mark.parametrize("kind", list(PromptKind))
def test_no_kind_repeats_itself_or_a_beginning(kind: PromptKind):
    """case 24."""
    prompts = [
        prompt
        for repeat in (WARMUP, 0, 1)
        for prompt in build_prompts(Cell(2048, 32), repeat, 32, seed=1, output_tokens=64, mix={kind.value: 1.0})
    ]
    beginnings = {prompt.messages[0][1][:100] for prompt in prompts}

    assert len(beginnings) == len(prompts)


def test_a_mix_has_its_shares_from_the_beginning():
    kinds = kinds_of({"code": 2.0, "chat": 1.0, "long": 1.0}, 8)

    assert [kinds.count(kind) for kind in PromptKind] == [4, 2, 0, 2]
    assert {PromptKind.CODE, PromptKind.CHAT, PromptKind.LONG} == set(kinds[:4])


def test_the_kinds_of_a_study_file_are_those_that_exist():
    assert tuple(kind.value for kind in PromptKind) == PROMPT_KINDS


@given(st.integers(0, 2**32))
def test_a_solved_problem_is_solved_rightly(seed: int):
    """Every calculation that a solution shows is true."""
    _problem, solution = write_problem(random.Random(seed))  # noqa: S311 - a reproducible problem

    # Two numbers, an operator and a result: neither the end of a longer sum, nor one with an unknown in it.
    for one, operator, two, result in re.findall(r"(?<![x+/n-] )(?<!\d)(\d+) ([x+/-]) (\d+) = (\d+)", solution):
        value = {"x": mul, "+": add, "-": sub, "/": floordiv}[operator](int(one), int(two))

        assert value == int(result), solution


def test_every_prompt_has_a_seed_of_its_own():
    """case 27."""
    seeds = [prompt.seed for repeat in range(2) for prompt in build(Cell(512, 32), repeat, 32)]

    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_every_function_of_the_data_file_is_code_with_its_signature():
    functions = load_functions()
    for function in functions:
        tree = ast.parse(function.code)
        (definition,) = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
        arguments = ", ".join(argument.arg for argument in definition.args.args)

        assert function.signature == f"{definition.name}({arguments})"
        assert function.description
        assert "`" not in function.description

    assert len({function.signature.split("(")[0] for function in functions}) == len(functions) > 300
