"""The engine keeps its promises to whoever submits requests: limits, ends, aborts, counts, drafts."""

from __future__ import annotations

import dataclasses
import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

from autotune.ddtree.acceptance import lossy_path
from autotune.ddtree.drafting import Drafting
from autotune.ddtree.engine import Engine, RequestRejected
from autotune.ddtree.model import Drafter, Target, rotary_tables
from autotune.ddtree.request import EngineOptions, GenerationRequest
from autotune.ddtree.sampling import inverse_distribution, probabilities, uniform
from autotune.ddtree.verification import Verifier
from tests.ddtree.small_models import END_TOKEN, drain, generate, make_models, random_prompts, texts

TREE = EngineOptions(budget=8, topk=3, block=8, max_running_requests=3, context_length=96)
PLAIN = dataclasses.replace(TREE, budget=None)
BOTH = pytest.mark.parametrize("options", [PLAIN, TREE], ids=["plain", "tree"])


def make_engine(options: EngineOptions, seed: int = 3) -> Engine:
    target, drafter = make_models(seed)
    return Engine(target, None if options.budget is None else drafter, options, END_TOKEN)


def make_request(name: str = "a", tokens: int = 10, **fields: Any) -> GenerationRequest:
    return GenerationRequest(name, (3, 1, 4, 1, 5), tokens, **fields)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"prompt_ids": ()}, "empty"),
        ({"prompt_ids": (1, 12)}, "outside 0 to 11"),
        ({"prompt_ids": (-1,)}, "outside 0 to 11"),
        ({"max_new_tokens": 0}, "max_new_tokens"),
        ({"max_new_tokens": 92}, "97 positions, the context has 96"),
        ({"min_new_tokens": 11}, "min_new_tokens"),
        ({"temperature": -0.1}, "temperature"),
        ({"top_p": 0.0}, "top_p"),
        ({"top_p": 1.1}, "top_p"),
        ({"top_k": 0}, "top_k"),
    ],
)
def test_an_impossible_request_is_rejected_with_its_reason(fields: dict[str, Any], reason: str) -> None:
    engine = make_engine(TREE)

    with pytest.raises(RequestRejected, match=reason):
        engine.submit(dataclasses.replace(make_request(), **fields))

    assert engine.is_idle()


def test_an_id_in_flight_is_rejected_and_free_again_afterwards() -> None:
    engine = make_engine(TREE)
    engine.submit(make_request())

    with pytest.raises(RequestRejected, match="already in flight"):
        engine.submit(make_request())
    drain(engine)
    engine.submit(make_request())

    assert engine.has_work()


@BOTH
def test_a_request_may_fill_the_context_to_the_last_position(options: EngineOptions) -> None:
    engine = make_engine(options)
    engine.submit(make_request(tokens=91, ignore_eos=True))

    assert len(texts(drain(engine))["a"]) == 91


@BOTH
@pytest.mark.parametrize("tokens", [1, 2, 3, 7, 20])
def test_the_token_limit_is_exact(options: EngineOptions, tokens: int) -> None:
    engine = make_engine(options)
    engine.submit(make_request(tokens=tokens, ignore_eos=True))

    deltas = drain(engine)

    assert tokens == len(texts(deltas)["a"]) == deltas[-1].completion_tokens
    assert [delta.finish_reason for delta in deltas if delta.finish_reason is not None] == ["length"]


def make_ending_engine(options: EngineOptions) -> tuple[Engine, int, int]:
    """An engine whose greedy answer holds its end token for the first time at the returned place."""
    for seed in range(40):
        target, drafter = make_models(seed)
        answer = generate((target, drafter), PLAIN, [make_request(tokens=30, ignore_eos=True)])["a"]
        places = {token: answer.index(token) for token in answer}
        token, at = max(places.items(), key=lambda place: place[1])
        if at >= 4:
            return Engine(target, None if options.budget is None else drafter, options, token), token, at
    raise LookupError("every small model repeats itself at once")


@BOTH
def test_the_end_token_ends_the_answer_is_counted_and_not_shown(options: EngineOptions) -> None:
    engine, token, at = make_ending_engine(options)
    engine.submit(make_request(tokens=30))

    deltas = drain(engine)

    assert deltas[-1].finish_reason == "stop"
    assert at == len(texts(deltas)["a"])
    assert at + 1 == deltas[-1].completion_tokens
    assert token not in texts(deltas)["a"]


@BOTH
def test_no_end_token_comes_before_the_least_number_of_tokens(options: EngineOptions) -> None:
    engine, token, at = make_ending_engine(options)
    engine.submit(make_request(tokens=30, min_new_tokens=at + 2))
    engine.submit(make_request("b", tokens=30))

    answers = texts(drain(engine))

    assert len(answers["a"]) >= at + 1
    assert token not in answers["a"][: at + 2]
    assert at == len(answers["b"])


def test_the_least_number_of_tokens_means_the_same_for_trees_as_for_plain_decoding() -> None:
    answers = []
    for options in (PLAIN, dataclasses.replace(TREE, budget=32, topk=6)):
        engine, _, at = make_ending_engine(options)
        engine.submit(make_request(tokens=40, min_new_tokens=at + 6))
        answers.append(texts(drain(engine)))

    assert answers[0] == answers[1]


@BOTH
def test_requests_beyond_the_limit_wait_for_a_row(options: EngineOptions) -> None:
    engine = make_engine(options)
    for number in range(5):
        engine.submit(make_request(str(number), tokens=20, ignore_eos=True))
    engine.step()

    stats = engine.stats()

    assert (stats.running, stats.queued) == (3, 2)
    assert {"0", "1", "2", "3", "4"} == set(texts(drain(engine)))


@BOTH
def test_an_abort_frees_the_row_and_is_reported_once(options: EngineOptions) -> None:
    engine = make_engine(options)
    for number in range(4):
        engine.submit(make_request(str(number), tokens=40, ignore_eos=True))
    engine.step()
    engine.abort("1")
    engine.abort("3")
    engine.abort("unknown")

    assert engine.stats().running == 2
    deltas = drain(engine)

    assert [delta.request_id for delta in deltas if delta.finish_reason == "abort"] == ["1", "3"]
    assert sorted(delta.request_id for delta in deltas if delta.finish_reason == "length") == ["0", "2"]
    assert engine.is_idle()


@BOTH
def test_an_abort_does_not_change_the_others(options: EngineOptions) -> None:
    models = make_models(4)
    prompts = random_prompts(4, 3, 12)
    requests = [GenerationRequest(str(n), prompt, 30, ignore_eos=True) for n, prompt in enumerate(prompts)]
    alone = generate(models, options, requests[1:])
    engine = Engine(models[0], None if options.budget is None else models[1], options, END_TOKEN)
    for request in requests:
        engine.submit(request)
    deltas = engine.step() + engine.step()
    engine.abort("0")

    together = texts(deltas + drain(engine))

    assert alone == {name: together[name] for name in alone}


@BOTH
def test_the_counters_agree_with_what_was_reported(options: EngineOptions) -> None:
    engine = make_engine(options)
    for number in range(5):
        engine.submit(make_request(str(number), tokens=11 + number, ignore_eos=True))

    last = {delta.request_id: delta for delta in drain(engine)}

    stats = engine.stats()
    assert stats.prompt_tokens == 25
    assert sum(delta.completion_tokens - 1 for delta in last.values()) == stats.generated_tokens
    assert sum(delta.verify_steps for delta in last.values()) == stats.verify_calls
    for delta in last.values():
        accepted = sum(count * steps for count, steps in enumerate(delta.accepted_histogram))
        if options.budget is None:
            assert delta.accepted_histogram == ()
            assert delta.verify_steps == delta.completion_tokens - 1
        else:
            assert delta.verify_steps == sum(delta.accepted_histogram)
            # The bonus token of the last step is cut off by the limit now and then.
            assert accepted <= delta.completion_tokens - 1 <= accepted + delta.verify_steps
    engine.reset_counters()
    assert (engine.stats().verify_calls, engine.stats().generated_tokens, engine.stats().prompt_tokens) == (0, 0, 0)


def test_the_tests_really_accept_drafted_tokens() -> None:
    engine = make_engine(dataclasses.replace(TREE, budget=32, topk=6))
    for number, prompt in enumerate(random_prompts(3, 6, 12)):
        engine.submit(GenerationRequest(str(number), prompt, 40, ignore_eos=True))
    drain(engine)

    assert engine.stats().accepted_tokens > 0.3 * engine.stats().verify_calls


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"budget": 0}, "budget"),
        ({"topk": 0}, "topk"),
        ({"topk": 13}, "vocabulary"),
        ({"block": 1}, "block"),
        ({"window": 0}, "window"),
        ({"max_running_requests": 0}, "max_running_requests"),
        ({"context_length": 513}, "exceeds the model's 512"),
        ({"dtype": "float16"}, "dtype"),
        ({"budget": None}, "drafter"),
    ],
)
def test_impossible_options_are_refused(changes: dict[str, Any], message: str) -> None:
    target, drafter = make_models(0)

    with pytest.raises(ValueError, match=message):
        Engine(target, drafter, dataclasses.replace(TREE, **changes), END_TOKEN)


@pytest.mark.parametrize("window", [None, 1, 4, 9, 64])
@pytest.mark.parametrize("block", [2, 8])
def test_the_engine_drafts_what_the_drafter_was_trained_to_say(window: int | None, block: int) -> None:
    target, drafter = make_models(6)
    sequences = random_prompts(6, 4, 12)
    sequences = [(*sequence, 7, 2, 5) for sequence in sequences]
    with torch.inference_mode():
        verifier = Verifier(
            target, tapped=True, nodes=0, max_rows=4, context_length=96, device=torch.device("cpu"), dtype=torch.float32
        )
        drafting = Drafting(
            drafter, verifier, positions=block - 1, topk=12, window=window, max_rows=4, context_length=96
        )
        contexts = [sequence[:-1] for sequence in sequences]
        lengths = [len(context) for context in contexts]
        _, features = verifier.prefill(contexts, range(4))
        assert features is not None
        drafting.remember_prompts(features, lengths, range(4))
        anchors = torch.tensor([sequence[-1] for sequence in sequences])

        scores, tokens = drafting.draft(anchors, lengths, normalised=True)

        for row, sequence in enumerate(sequences):
            expected = drafts_of_training(target, drafter, sequence, block, window)
            actual = torch.zeros_like(expected).scatter_(1, tokens[row], scores[row])
            torch.testing.assert_close(actual, expected, atol=2e-3, rtol=1e-4)


def drafts_of_training(
    target: Target, drafter: Drafter, sequence: tuple[int, ...], block: int, window: int | None
) -> torch.Tensor:
    """Log-probabilities ``[block - 1, vocabulary]`` after the last token, by the pass that training uses."""
    tables = rotary_tables(target.config, "cpu", torch.float32)
    length = len(sequence)
    ids = torch.tensor([sequence])
    _, features = target(ids, (tables[0][:length], tables[1][:length]))
    anchors = torch.tensor([[length - 1]])
    embedded = target.embedding(ids[:, -1:])
    hidden = drafter(features, embedded, anchors, block, length if window is None else window, tables)
    return target.head(hidden[0, 0]).log_softmax(-1)


def test_the_drafter_sees_accepted_tokens_as_if_they_had_been_prompt(tmp_path: Path) -> None:
    logs = []
    models = make_models(8)
    request = make_request(tokens=30, ignore_eos=True)
    answer = generate(models, PLAIN, [request])["a"]
    options = dataclasses.replace(TREE, budget=32, topk=6, window=11)
    for name, prompt, tokens in (("one", request.prompt_ids, 30), ("two", (*request.prompt_ids, *answer[:20]), 10)):
        log = tmp_path / name
        engine = Engine(*models, dataclasses.replace(options, draft_log=str(log)), END_TOKEN)
        engine.submit(GenerationRequest("a", prompt, tokens, ignore_eos=True))
        drain(engine)
        engine.close()
        lines = map(json.loads, log.read_text().splitlines())
        logs.append({line["position"]: line for line in lines if "tokens" in line})

    shared = sorted(set(logs[0]) & set(logs[1]))

    assert shared
    for position in shared:
        assert logs[0][position]["tokens"] == logs[1][position]["tokens"]


def test_the_draft_log_holds_every_position_and_rank_of_each_step(tmp_path: Path) -> None:
    log = tmp_path / "drafts.jsonl"
    target, drafter = make_models(5)
    engine = Engine(target, drafter, dataclasses.replace(TREE, budget=2, draft_log=str(log)), END_TOKEN)
    engine.submit(make_request(tokens=12, ignore_eos=True))
    drain(engine)
    engine.close()

    *lines, last = [json.loads(line) for line in log.read_text().splitlines()]

    assert engine.stats().verify_calls == len(lines)
    assert {"a"} == {line["rid"] for line in [*lines, last]}
    assert "tokens" not in last
    assert lines[0]["position"] == 6
    assert sorted({line["position"] for line in lines}) == [line["position"] for line in lines]
    for line in lines:
        assert [3] * 7 == [len(values) for values in line["tokens"]] == [len(values) for values in line["logprobs"]]
        assert all(sorted(values, reverse=True) == values and values[0] <= 0 for values in line["logprobs"])


def test_no_draft_log_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    engine = make_engine(TREE)
    engine.submit(make_request())
    drain(engine)

    assert list(tmp_path.iterdir()) == []


def test_a_lossy_threshold_changes_sampled_requests_only() -> None:
    models = make_models(9)
    options = dataclasses.replace(TREE, budget=16, topk=4, threshold_single=0.02, threshold_acc=0.05)
    greedy = make_request(tokens=40, ignore_eos=True)
    sampled = make_request("s", tokens=40, ignore_eos=True, temperature=20.0, seed=4)

    assert generate(models, PLAIN, [greedy]) == generate(models, options, [greedy])
    assert generate(models, PLAIN, [sampled]) != generate(models, options, [sampled])


def test_lower_thresholds_accept_more() -> None:
    engine = make_engine(dataclasses.replace(TREE, budget=16, topk=4))
    rates = []
    for threshold in (1.0, 0.1):
        engine.set_thresholds(threshold, threshold)
        engine.reset_counters()
        for seed in range(6):
            engine.submit(make_request(str(seed), tokens=60, ignore_eos=True, temperature=20.0, seed=seed))
        drain(engine)
        rates.append(engine.stats().generated_tokens / engine.stats().verify_calls)

    assert rates[1] > rates[0]
    with pytest.raises(ValueError, match="above 0"):
        engine.set_thresholds(0.0, 1.0)


def test_thresholds_of_one_follow_the_distribution_of_the_target() -> None:
    children = (0.3, 0.2)
    counts: Counter[int] = Counter()
    for draw in range(4000):
        path, refused = lossy_path((0, 0), children, lambda depth, draw=draw: uniform(draw, depth), 1.0, 1.0)  # type: ignore[misc]
        counts[path[-1] if len(path) > 1 else 0] += 1
        assert refused == (len(path) == 1)

    assert counts[1] / 4000 == pytest.approx(0.3, abs=0.03)
    assert counts[2] / 4000 == pytest.approx(0.2, abs=0.03)


@pytest.mark.parametrize(("top_p", "top_k"), [(1.0, -1), (0.5, -1), (1.0, 2), (0.7, 3), (0.01, -1)])
def test_top_k_then_top_p_keep_the_likeliest_tokens(top_p: float, top_k: int) -> None:
    logits = torch.tensor([[[0.0, 2.0, 1.0, -1.0, 1.5]]])
    request = make_request(temperature=0.7, top_p=top_p, top_k=top_k)

    weights = probabilities(logits, [request])[0, 0].tolist()

    scaled = [math.exp(value / 0.7) for value in logits.flatten().tolist()]
    order = sorted(range(5), key=lambda token: -scaled[token])[: top_k if top_k > 0 else 5]
    mass = 0.0
    kept: list[int] = []
    for token in order:
        if kept and mass >= top_p * sum(scaled[t] for t in order):
            break
        kept.append(token)
        mass += scaled[token]
    assert sorted(kept) == [token for token, weight in enumerate(weights) if weight > 0]


def test_a_wide_vocabulary_keeps_its_nucleus_beyond_the_likeliest_tokens() -> None:
    logits = torch.zeros(1, 1, 400)
    logits[..., 0] = 0.5

    kept = probabilities(logits, [make_request(temperature=1.0, top_p=0.9)]) > 0

    assert 355 <= int(kept.sum()) <= 365


def test_sampling_follows_the_distribution() -> None:
    weights = torch.tensor([0.5, 0.0, 0.3, 0.2])
    numbers = torch.tensor([uniform(seed, 7) for seed in range(8000)], dtype=torch.float64)

    counts = torch.bincount(inverse_distribution(weights.expand(8000, -1), numbers), minlength=4) / 8000

    torch.testing.assert_close(counts, weights, atol=0.02, rtol=0)
    assert float(numbers.min()) > 0.0
    assert float(numbers.max()) < 1.0


def test_a_seed_gives_the_same_text_and_another_seed_another() -> None:
    models = make_models(3)
    request = make_request(tokens=30, ignore_eos=True, temperature=20.0, seed=5)

    first = generate(models, TREE, [request])

    assert first == generate(models, TREE, [request])
    assert first != generate(models, TREE, [dataclasses.replace(request, seed=6)])
    unseeded = dataclasses.replace(request, seed=None)
    assert first == generate(models, dataclasses.replace(TREE, random_seed=5), [unseeded])
