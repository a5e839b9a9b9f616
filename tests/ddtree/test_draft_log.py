"""The draft log says what was committed, and a replay of it says what trees really accept."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autotune.ddtree.engine import Engine
from autotune.ddtree.model import Drafter, Target
from autotune.ddtree.request import EngineOptions, GenerationRequest
from autotune.replay.chain_walk import walk
from autotune.replay.draft_log import read_answers
from tests.ddtree.small_models import END_TOKEN, drain, generate, make_models, random_prompts, texts

TREE = EngineOptions(budget=8, topk=4, block=8, max_running_requests=3, context_length=128)
SAMPLINGS: tuple[dict[str, Any], ...] = ({}, {"temperature": 1.3, "top_p": 0.95})


def make_requests(count: int, tokens: int, **fields: Any) -> list[GenerationRequest]:
    prompts = random_prompts(5, count, 12)
    return [
        GenerationRequest(str(number), prompt, tokens, seed=number, **fields) for number, prompt in enumerate(prompts)
    ]


def run(
    models: tuple[Target, Drafter], options: EngineOptions, requests: Sequence[GenerationRequest]
) -> tuple[Engine, dict[str, list[int]]]:
    engine = Engine(*models, options, END_TOKEN)
    for request in requests:
        engine.submit(request)
    answers = texts(drain(engine))
    engine.close()
    return engine, answers


def read_lines(path: Path) -> list[Mapping[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=["greedy", "sampled"])
@pytest.mark.parametrize("every_token", [False, True])
def test_every_committed_token_is_logged(tmp_path: Path, every_token: bool, sampling: Mapping[str, Any]) -> None:
    log = tmp_path / "drafts.jsonl"
    models = make_models(6)
    requests = make_requests(5, 25, **sampling)
    options = dataclasses.replace(TREE, draft_log=str(log), draft_log_every_token=every_token)

    _, answers = run(models, options, requests)

    committed: dict[str, list[int]] = {request.request_id: [] for request in requests}
    drafts = dict.fromkeys(committed, 0)
    for line in read_lines(log):
        committed[line["rid"]] += line["committed"]
        drafts[line["rid"]] += "tokens" in line
    assert generate(models, dataclasses.replace(TREE, budget=None), requests) == answers
    for name, answer in answers.items():
        assert committed[name] in (answer, [*answer, END_TOKEN])
        if every_token:
            assert drafts[name] == len(committed[name]) - 1


def test_what_a_given_up_request_has_committed_is_not_told_to_the_next_of_its_name(tmp_path: Path) -> None:
    log = tmp_path / "drafts.jsonl"
    engine = Engine(*make_models(6), dataclasses.replace(TREE, draft_log=str(log)), END_TOKEN)
    request = GenerationRequest("a", (3, 1, 4), 25, ignore_eos=True)
    engine.submit(request)
    engine.step()
    engine.abort("a")
    engine.submit(request)
    answer = texts(drain(engine))["a"]
    engine.close()

    lines = read_lines(log)
    second = [number for number, line in enumerate(lines) if line.get("position") == 4][1]

    assert [token for line in lines[second:] for token in line["committed"]] == answer[-25:]


def test_drafts_for_other_windows_are_those_of_a_server_with_that_window(tmp_path: Path) -> None:
    models = make_models(7)
    request = GenerationRequest("a", tuple(range(1, 11)), 30, ignore_eos=True)
    logs: list[dict[tuple[int | None, int], Mapping[str, Any]]] = []
    for window, beside in ((None, (9, 16)), (24, (9, 16)), (9, ()), (16, ())):
        log = tmp_path / f"{window}"
        options = dataclasses.replace(
            TREE, window=window, draft_log=str(log), draft_log_every_token=True, draft_log_windows=beside
        )
        run(models, options, [request])
        lines = [line for line in read_lines(log) if "tokens" in line]
        logs.append({(line.get("window"), line["position"]): line for line in lines})

    everything, ring, small, large = logs
    for window, own in ((9, small), (16, large)):
        for of_all in (everything, ring):
            beside_lines = {position: line for (seen, position), line in of_all.items() if seen == window}
            assert sorted(beside_lines) == [position for _, position in own if position > window + 1]
            for position, line in beside_lines.items():
                assert own[None, position]["tokens"] == line["tokens"]
                assert np.allclose(own[None, position]["logprobs"], line["logprobs"], atol=1e-4)


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=["greedy", "sampled"])
@pytest.mark.parametrize("window", [None, 9])
def test_the_replay_of_one_profile_is_what_every_tree_really_does(
    tmp_path: Path, window: int | None, sampling: Mapping[str, Any]
) -> None:
    """A tree smaller than the block has drafts of its own: fewer positions are drafted for it."""
    log = tmp_path / "drafts.jsonl"
    models = make_models(8)
    requests = make_requests(4, 40, **sampling)
    profile = dataclasses.replace(TREE, draft_log=str(log), draft_log_every_token=True, draft_log_windows=(9,))
    run(models, profile, requests)
    with log.open("rb") as lines:
        answers = read_answers(lines, str(log))
    drafted = [text for answer in answers if (text := answer.with_window(window)) is not None]

    walks = walk(drafted, topks=[1, 4], largest_budget=24, positions=7)

    for column, topk in enumerate((1, 4)):
        for budget in (7, 24):
            engine, _ = run(models, dataclasses.replace(TREE, budget=budget, topk=topk, window=window), requests)
            real = engine.stats()
            predicted = (walks.tokens[:, column, budget - 1].sum(), walks.steps[:, column, budget - 1].sum())
            assert predicted == (real.generated_tokens, real.verify_calls)


def test_a_log_of_a_small_tree_answers_with_gaps(tmp_path: Path) -> None:
    log = tmp_path / "drafts.jsonl"
    models = make_models(8)
    requests = make_requests(6, 50, ignore_eos=True)
    engine, _ = run(models, dataclasses.replace(TREE, budget=2, draft_log=str(log)), requests)
    with log.open("rb") as lines:
        answers = read_answers(lines, str(log))
    drafted = [text for answer in answers if (text := answer.with_window(None)) is not None]

    walks = walk(drafted, topks=[4], largest_budget=24, positions=7)

    assert walks.tokens[:, 0, 1].sum() == engine.stats().generated_tokens
    assert walks.steps[:, 0, 1].sum() == engine.stats().verify_calls
    assert not walks.redirected[:, 0, 1].any()
    assert walks.redirected[:, 0, 23].any()
