"""Training of the target: next-token loss over packed chats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from autotune.ddtree.model import Target, rotary_tables
from autotune.ddtree.training.data import TrainingData
from autotune.ddtree.training.optimisation import Optimiser
from autotune.ddtree.training.recipe import Recipe

Log = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class TargetTraining:
    """What came out.

    Attributes:
        target: float32 weights that are exactly representable in bfloat16, as they are stored.
        losses: nats a token, one a step.
        validation_loss: nats a token on chats that were not trained on.
    """

    target: Target
    losses: list[float]
    validation_loss: float


def _loss(target: Target, batch: Tensor, rotary: tuple[Tensor, Tensor]) -> Tensor:
    with torch.autocast(batch.device.type, dtype=torch.bfloat16, enabled=batch.is_cuda):
        hidden, _ = target(batch[:, :-1], rotary)
        logits = target.head(hidden)
    return F.cross_entropy(logits.float().flatten(0, 1), batch[:, 1:].reshape(-1))


def train_target(recipe: Recipe, data: TrainingData, device: str, log: Log) -> TargetTraining:
    """Train from random weights for ``recipe.steps`` steps."""
    torch.manual_seed(recipe.seed)
    target = Target(recipe.model).to(device)
    cosine, sine = rotary_tables(recipe.model, device, torch.bfloat16 if device == "cuda" else torch.float32)
    rotary = (cosine[: recipe.sequence], sine[: recipe.sequence])
    tokens = torch.from_numpy(data.tokens.astype(np.int32)).to(device)
    starts = torch.from_numpy(data.starts).to(device)
    offsets = torch.arange(recipe.sequence + 1, device=device)
    optimiser = Optimiser(target, peak=recipe.learning_rate, steps=recipe.steps, warm_up=150)
    losses = []
    for step in range(recipe.steps):
        chosen = starts[torch.randint(len(starts), (recipe.batch,), device=device)]
        loss = _loss(target, tokens[chosen[:, None] + offsets].long(), rotary)
        optimiser.learn(loss)
        losses.append(loss.detach())
        if step % 200 == 199:
            log(f"target step {step + 1} loss {torch.stack(losses[-50:]).mean().item():.4f}")
    with torch.no_grad():
        for parameter in target.parameters():
            parameter.copy_(parameter.bfloat16().float())
        target.eval().requires_grad_(requires_grad=False)
        count = min(len(data.validation) // (recipe.sequence + 1), 4 * recipe.batch)
        validation = torch.from_numpy(data.validation[: count * (recipe.sequence + 1)].astype(np.int64)).to(device)
        parts = [_loss(target, part, rotary) for part in torch.split(validation.view(count, -1), recipe.batch)]
    return TargetTraining(target, [loss.item() for loss in losses], torch.stack(parts).mean().item())
