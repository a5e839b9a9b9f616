"""Small untrained models whose next token is clear, and how tests run requests on them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import torch

from autotune.ddtree.engine import Engine
from autotune.ddtree.model import Drafter, ModelConfig, Target, rotary_tables
from autotune.ddtree.request import EngineOptions, GenerationRequest, TokenDelta

END_TOKEN = 0

# The tensors are tiny: a second thread would only wait for its turn on a busy machine.
torch.set_num_threads(1)


def make_models(seed: int, *, vocabulary: int = 12, drafter_layers: int = 2) -> tuple[Target, Drafter]:
    """Untrained models whose choices are clear, depend on the whole context and vary, and whose drafts hit often.

    A large embedding makes gaps between logits clear; larger outputs of the layers keep a token from repeating itself
    (input and output embedding are one); a small vocabulary makes drafts hit.
    """
    torch.manual_seed(seed)
    config = ModelConfig(
        vocabulary=vocabulary,
        width=32,
        layers=3,
        heads=2,
        hidden=48,
        max_positions=512,
        tapped_layers=(0, 2),
        drafter_layers=drafter_layers,
        max_block=16,
    )
    target, drafter = Target(config), Drafter(config)
    with torch.no_grad():
        target.embedding.weight.mul_(30.0)
        for module in (target, drafter):
            for name, parameter in module.named_parameters():
                if name.endswith(("out.weight", "down.weight")):
                    parameter.mul_(8.0)
                elif name.endswith("norm"):
                    parameter.copy_(torch.rand_like(parameter) + 0.5)
    return target.eval(), drafter.eval()


def random_prompts(seed: int, count: int, vocabulary: int, longest: int = 40) -> list[tuple[int, ...]]:
    """Prompts of very different lengths."""
    source = random.Random(seed)  # noqa: S311 - reproducible cases
    lengths = [source.choice((1, 2, source.randint(3, longest), longest)) for _ in range(count)]
    return [tuple(source.randrange(1, vocabulary) for _ in range(length)) for length in lengths]


def greedy_by_full_passes(target: Target, prompt: Sequence[int], count: int) -> list[int]:
    """Continue a prompt without any cache: the whole sequence again for every token."""
    config = target.config
    tables = rotary_tables(config, "cpu", torch.float32)
    sequence = list(prompt)
    with torch.no_grad():
        for _ in range(count):
            length = len(sequence)
            hidden, _ = target(torch.tensor([sequence]), (tables[0][:length], tables[1][:length]))
            sequence.append(int(target.head(hidden[0, -1]).argmax()))
    return sequence[len(prompt) :]


def drain(engine: Engine) -> list[TokenDelta]:
    """Step until nothing is left to do."""
    deltas: list[TokenDelta] = []
    while engine.has_work():
        deltas += engine.step()
    return deltas


def texts(deltas: Sequence[TokenDelta]) -> dict[str, list[int]]:
    """All tokens by request."""
    result: dict[str, list[int]] = {}
    for delta in deltas:
        result.setdefault(delta.request_id, []).extend(delta.token_ids)
    return result


def generate(
    models: tuple[Target, Drafter],
    options: EngineOptions,
    requests: Sequence[GenerationRequest],
    arrivals: Mapping[str, int] | None = None,
) -> dict[str, list[int]]:
    """Run requests to their end on a new engine; ``arrivals`` says before which step each one is submitted."""
    target, drafter = models
    engine = Engine(target, None if options.budget is None else drafter, options, END_TOKEN)
    waiting = sorted(requests, key=lambda request: (arrivals or {}).get(request.request_id, 0))
    deltas: list[TokenDelta] = []
    step = 0
    while waiting or engine.has_work():
        while waiting and (arrivals or {}).get(waiting[0].request_id, 0) <= step:
            engine.submit(waiting.pop(0))
        deltas += engine.step()
        step += 1
    return texts(deltas)
