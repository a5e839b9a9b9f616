"""The optimiser and the schedule that target and drafter share."""

from __future__ import annotations

import torch
from torch import nn


class Optimiser:
    """AdamW with weight decay on matrices, gradient clipping, warm-up and a linear decay to 2 %."""

    def __init__(self, module: nn.Module, *, peak: float, steps: int, warm_up: int) -> None:
        matrices = [parameter for parameter in module.parameters() if parameter.dim() == 2]
        others = [parameter for parameter in module.parameters() if parameter.dim() != 2]
        groups = [{"params": matrices, "weight_decay": 0.05}, {"params": others, "weight_decay": 0.0}]
        self._parameters = [*matrices, *others]
        self._adam = torch.optim.AdamW(groups, lr=peak, betas=(0.9, 0.95), fused=matrices[0].is_cuda)
        self._peak, self._steps, self._warm_up = peak, steps, min(warm_up, max(1, steps // 4))
        self._step = 0

    def learn(self, loss: torch.Tensor) -> None:
        """Take one step down the gradient of ``loss``."""
        rate = self._peak * min(1.0, (self._step + 1) / self._warm_up) * (1.0 - 0.98 * self._step / self._steps)
        for group in self._adam.param_groups:
            group["lr"] = rate
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self._parameters, 1.0)
        self._adam.step()
        self._adam.zero_grad(set_to_none=True)
        self._step += 1
