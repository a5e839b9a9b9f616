"""Training of the drafter: blocks of mixed size, drafted at random positions of the target's own answers."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from autotune.ddtree.model import Drafter, Target, rotary_tables
from autotune.ddtree.tokenizer import PAD
from autotune.ddtree.training.answers import Answered
from autotune.ddtree.training.optimisation import Optimiser
from autotune.ddtree.training.recipe import Recipe

Log = Callable[[str], None]

BLOCKS = (4, 8, 8, 16, 16, 16)
WINDOWS = (16, 32, 64, 128, 256, 512, 4096, 4096)


@dataclass(frozen=True, slots=True)
class DrafterTraining:
    """What came out.

    Attributes:
        drafter: float32 weights that are exactly representable in bfloat16, as they are stored.
        losses: weighted nats a drafted token, one a step.
    """

    drafter: Drafter
    losses: list[float]


@dataclass(frozen=True, slots=True)
class Batch:
    """Answers of similar length, padded on the right.

    Attributes:
        ids: ``[B, T]``.
        answer: which positions are part of an answer and not its last token ``[B, T]``.
        lengths: tokens of each row ``[B]``.
    """

    ids: Tensor
    answer: Tensor
    lengths: Tensor


def make_batches(answered: Sequence[Answered], tokens: int, device: str) -> list[Batch]:
    """Group answers of similar length into batches of about ``tokens`` tokens."""
    batches = []
    group: list[Answered] = []
    for item in sorted((item for item in answered if len(item.answer) > 2), key=lambda item: len(item.tokens)):
        if group and (len(group) + 1) * len(item.tokens) > tokens:
            batches.append(_pad(group, device))
            group = []
        group.append(item)
    if group:
        batches.append(_pad(group, device))
    return batches


def _pad(group: Sequence[Answered], device: str) -> Batch:
    longest = max(len(item.tokens) for item in group)
    ids = torch.full((len(group), longest), PAD)
    answer = torch.zeros(len(group), longest)
    for row, item in enumerate(group):
        ids[row, : len(item.tokens)] = torch.tensor(item.tokens)
        answer[row, len(item.prompt) : len(item.tokens) - 1] = 1.0
    lengths = torch.tensor([len(item.tokens) for item in group])
    return Batch(ids.to(device), answer.to(device), lengths.to(device))


def drafter_loss(
    target: Target,
    drafter: Drafter,
    batch: Batch,
    anchors: Tensor,
    block: int,
    window: int,
    rotary: tuple[Tensor, Tensor],
) -> Tensor:
    """Cross-entropy of the drafted tokens, near positions weighted more because later ones need them accepted first."""
    length = batch.ids.shape[1]
    with torch.autocast(batch.ids.device.type, dtype=torch.bfloat16, enabled=batch.ids.is_cuda):
        with torch.no_grad():
            _, features = target(batch.ids, (rotary[0][:length], rotary[1][:length]))
            embeddings = target.embedding(batch.ids.gather(1, anchors)).to(features.dtype)
        logits = target.head(drafter(features, embeddings, anchors, block, window, rotary))
    ahead = anchors[:, :, None] + torch.arange(1, block, device=anchors.device)
    inside = ahead < batch.lengths[:, None, None]
    rows = torch.arange(len(anchors), device=anchors.device)[:, None, None]
    labels = batch.ids[rows, ahead.clamp(max=length - 1)]
    entropy = F.cross_entropy(logits.float().flatten(0, 2), labels.flatten(), reduction="none").view_as(labels)
    reach = 4.0 if block <= 8 else 7.0
    weight = torch.exp(-torch.arange(block - 1, device=anchors.device) / reach) * inside
    return (entropy * weight).sum() / weight.sum().clamp(min=1.0)


def train_drafter(
    recipe: Recipe, target: Target, answered: Sequence[Answered], layers: int, device: str, log: Log
) -> DrafterTraining:
    """Train a drafter of ``layers`` layers, started from the target's top layers."""
    torch.manual_seed(recipe.seed)
    rng = random.Random(recipe.seed)  # noqa: S311 - reproducible order, no secret
    drafter = Drafter(dataclasses.replace(recipe.model, drafter_layers=layers)).to(device)
    for layer, source in zip(drafter.layers, target.layers[-layers:], strict=True):
        layer.load_state_dict(source.state_dict())
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    rotary = rotary_tables(recipe.model, device, dtype)
    batches = make_batches(answered, recipe.drafter_tokens, device)
    optimiser = Optimiser(drafter, peak=recipe.drafter_learning_rate, steps=recipe.drafter_steps, warm_up=100)
    losses = []
    for step in range(recipe.drafter_steps):
        batch = rng.choice(batches)
        block, window = rng.choice(BLOCKS), rng.choice(WINDOWS)
        anchors = torch.multinomial(
            batch.answer + 1e-9 * (batch.answer.sum(1, keepdim=True) == 0), recipe.anchors, replacement=True
        )
        loss = drafter_loss(target, drafter, batch, anchors, block, window, rotary)
        optimiser.learn(loss)
        losses.append(loss.detach())
        if step % 250 == 249:
            log(f"drafter ({layers} layers) step {step + 1} loss {torch.stack(losses[-100:]).mean().item():.4f}")
    with torch.no_grad():
        for parameter in drafter.parameters():
            parameter.copy_(parameter.bfloat16().float())
    return DrafterTraining(drafter.eval().requires_grad_(requires_grad=False), [loss.item() for loss in losses])
