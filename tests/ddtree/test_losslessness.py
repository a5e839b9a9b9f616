"""Speculation changes the speed of an answer, never its text.

The quick slice runs in the suite. The long campaign, also on the trained weights, prints how many cases it compared and
every difference that float64 explained::

    python -m tests.ddtree.test_losslessness --seeds 40 --weights
    python -m tests.ddtree.test_losslessness --seeds 12 --weights --device cuda
"""

from __future__ import annotations

import argparse
import dataclasses
import random
from collections.abc import Sequence

import pytest
import torch

from autotune.ddtree.model import Drafter, Target, rotary_tables
from autotune.ddtree.request import EngineOptions, GenerationRequest
from autotune.ddtree.weights import default_weights_directory, load_drafter, load_target
from tests.ddtree.small_models import generate, greedy_by_full_passes, make_models, random_prompts

LARGEST_EXPLAINED_GAP = 1e-4
Models = tuple[Target, Drafter]


def random_options(source: random.Random, context_length: int) -> EngineOptions:
    """Any tree: budgets from 1 to 64, chains, small windows, few and many rows."""
    return EngineOptions(
        budget=source.choice((1, 2, 3, 4, 7, 8, 12, 16, 24, 32, 64)),
        topk=source.choice((1, 2, 3, 4, 6, 8)),
        block=source.choice((2, 3, 4, 8, 16)),
        window=source.choice((None, None, 1, 5, 16, 33, 512)),
        clip_width=source.random() < 0.2,
        max_running_requests=source.choice((1, 2, 3, 5, 8)),
        context_length=context_length,
    )


def random_requests(source: random.Random, prompts: Sequence[tuple[int, ...]], longest: int) -> list[GenerationRequest]:
    """Greedy requests of different lengths."""
    return [
        GenerationRequest(str(number), prompt, source.randint(1, longest), ignore_eos=source.random() < 0.7)
        for number, prompt in enumerate(prompts)
    ]


def top_two_gap(target: Target, sequence: Sequence[int]) -> float:
    """How much the likeliest token after this sequence leads, in float64."""
    exact = Target(target.config).double()
    exact.load_state_dict(target.state_dict())
    cosine, sine = rotary_tables(target.config, "cpu", torch.float64)
    with torch.no_grad():
        hidden, _ = exact(torch.tensor([list(sequence)]), (cosine[: len(sequence)], sine[: len(sequence)]))
        best = exact.head(hidden[0, -1]).topk(2).values
    return float(best[0] - best[1])


def unexplained_differences(
    models: Models,
    options: EngineOptions,
    requests: Sequence[GenerationRequest],
    arrivals: dict[str, int],
    plain: dict[str, list[int]],
) -> list[str]:
    """Requests whose text differs from plain decoding and whose difference is no rounding of a tie.

    A difference is explained when the same case in float64 shows none and the two likeliest tokens at the first
    difference are closer than 1e-4; it is printed either way.
    """
    speculative = generate(models, options, requests, arrivals)
    unexplained = []
    for request in requests:
        name = request.request_id
        if plain[name] == speculative[name]:
            continue
        exact_plain = generate(models, dataclasses.replace(options, budget=None, dtype="float64"), [request])
        exact = generate(models, dataclasses.replace(options, dtype="float64"), requests, arrivals)
        pairs = zip(plain[name], speculative[name], strict=False)
        common = next((at for at, (left, right) in enumerate(pairs) if left != right), None)
        gap = None if common is None else top_two_gap(models[0], [*request.prompt_ids, *plain[name][:common]])
        explained = exact_plain[name] == exact[name] and gap is not None and gap < LARGEST_EXPLAINED_GAP
        print(f"{'tie' if explained else 'DIFFERENCE'}: {options} {name} at {common}, top-two gap {gap}")
        if not explained:
            unexplained.append(name)
    return unexplained


def compare(
    models: Models,
    seed: int,
    prompts: Sequence[tuple[int, ...]],
    trees: int,
    longest: int,
    context_length: int,
    device: str = "cpu",
) -> int:
    """Compare ``trees`` random trees with plain decoding; returns the number of sequences compared."""
    source = random.Random(seed)  # noqa: S311 - reproducible cases
    requests = random_requests(source, prompts, longest)
    plain = generate(models, EngineOptions(context_length=context_length, device=device), requests)
    for _ in range(trees):
        options = dataclasses.replace(random_options(source, context_length), device=device)
        arrivals = {request.request_id: source.choice((0, 0, 1, 4, 9)) for request in requests}

        assert unexplained_differences(models, options, requests, arrivals, plain) == []
    return trees * len(requests)


def test_plain_decoding_equals_full_passes_without_a_cache() -> None:
    models = make_models(1)
    prompts = random_prompts(1, 5, 12)
    requests = [GenerationRequest(str(number), prompt, 24, ignore_eos=True) for number, prompt in enumerate(prompts)]

    result = generate(models, EngineOptions(context_length=128, max_running_requests=3), requests)

    assert [greedy_by_full_passes(models[0], prompt, 24) for prompt in prompts] == [
        result[r.request_id] for r in requests
    ]


@pytest.mark.parametrize("seed", range(8))
def test_greedy_text_of_any_tree_equals_plain_decoding(seed: int) -> None:
    models = make_models(seed, vocabulary=(9, 12, 40)[seed % 3], drafter_layers=1 + seed % 2)
    count = 1 + seed % 8

    compared = compare(models, seed, random_prompts(seed, count, (9, 12, 40)[seed % 3]), 6, 40, 128)

    assert 6 * count == compared


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("top_p", "top_k"), [(1.0, -1), (0.8, -1), (1.0, 3), (0.9, 4)])
def test_sampled_text_is_the_same_for_every_tree_and_batch(seed: int, top_p: float, top_k: int) -> None:
    models = make_models(seed)
    source = random.Random(seed)  # noqa: S311 - reproducible cases
    requests = [
        GenerationRequest(
            str(number),
            prompt,
            30,
            temperature=source.choice((0.0, 3.0, 8.0)),
            seed=number,
            top_p=top_p,
            top_k=top_k,
        )
        for number, prompt in enumerate(random_prompts(seed, 5, 12))
    ]

    plain = generate(models, EngineOptions(context_length=128, max_running_requests=1), requests)

    for _ in range(3):
        assert plain == generate(models, random_options(source, 128), requests)


@pytest.mark.parametrize("budget", [None, 8])
def test_a_batch_equals_each_request_alone(budget: int | None) -> None:
    models = make_models(11)
    requests = [GenerationRequest(str(n), prompt, 30) for n, prompt in enumerate(random_prompts(5, 8, 12))]
    options = EngineOptions(context_length=128, budget=budget, topk=3, block=8, window=16)

    together = generate(models, options, requests)

    for request in requests:
        assert {request.request_id: together[request.request_id]} == generate(models, options, [request])


def test_bfloat16_trees_run_and_mostly_agree() -> None:
    models = make_models(2)
    requests = [
        GenerationRequest(str(n), prompt, 20, ignore_eos=True) for n, prompt in enumerate(random_prompts(2, 8, 12))
    ]
    options = EngineOptions(dtype="bfloat16", context_length=128)

    plain = generate(models, options, requests)
    tree = generate(models, dataclasses.replace(options, budget=8, topk=3, block=8), requests)

    assert {20} == {len(text) for text in tree.values()}
    assert sum(plain[name] == tree[name] for name in plain) >= 6


def weight_prompts(seed: int, count: int, vocabulary: int) -> list[tuple[int, ...]]:
    """Random tokens are far from what the model was trained on, so its choices are often close: a hard case."""
    return random_prompts(seed, count, vocabulary, longest=120)


def trained_models() -> Models:
    """The weights that come with the package."""
    directory = default_weights_directory()
    return load_target(directory).eval(), load_drafter(directory).eval()


def test_greedy_text_of_the_trained_model_equals_plain_decoding() -> None:
    models = trained_models()

    assert compare(models, 1, weight_prompts(1, 3, models[0].config.vocabulary), 3, 40, 256) == 9


def main() -> None:
    """Run the long campaign."""
    parser = argparse.ArgumentParser(description="Compare random trees with plain decoding.")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--trees", type=int, default=6)
    parser.add_argument("--weights", action="store_true", help="also the trained weights")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    arguments = parser.parse_args()
    device = arguments.device
    if device == "cuda":
        torch.backends.cuda.enable_cudnn_sdp(enabled=False)
    small = trained = 0
    for seed in range(arguments.seeds):
        vocabulary = (9, 12, 40)[seed % 3]
        models = make_models(seed, vocabulary=vocabulary, drafter_layers=1 + seed % 2)
        prompts = random_prompts(seed, 1 + seed % 8, vocabulary)
        small += compare(models, seed, prompts, arguments.trees, 40, 128, device)
        if arguments.weights:
            real = trained_models()
            prompts = weight_prompts(seed, 1 + seed % 8, real[0].config.vocabulary)
            trained += compare(real, seed, prompts, arguments.trees, 100, 256, device)
    print(f"{small} sequences of small models and {trained} of the trained one equal plain decoding on {device}")


if __name__ == "__main__":
    main()
