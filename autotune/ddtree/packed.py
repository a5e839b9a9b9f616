"""The same layers as in training, laid out for decoding: fewer operations and fewer bytes a step.

Norm weights, the attention scale and (in float32 on the CPU) the root of the width are folded into the matrices that
follow; matrices are stored transposed; the channels of queries and keys are reordered so that a rotation is one complex
product; what the first layer computes from an embedding alone is a table. Results differ from training's only by rounding.
"""

from __future__ import annotations

import dataclasses
import math

import torch
import torch.nn.functional as F
from torch import Tensor

from autotune.ddtree.model import Layer, ModelConfig, rotary_tables

_EPSILON = 1e-6


class Norm:
    """Root mean square normalisation without weights.

    The fast form (float32 on the CPU, where the library's own is made of many operations) leaves out the factor
    ``sqrt(width)``, which :attr:`factor` tells whoever folds it elsewhere.
    """

    def __init__(self, width: int, device: torch.device, dtype: torch.dtype) -> None:
        self._width = width
        self._fast = device.type == "cpu" and dtype == torch.float32
        self._floor = torch.tensor(math.sqrt(width * _EPSILON), device=device, dtype=dtype)
        self.factor = math.sqrt(width) if self._fast else 1.0

    def __call__(self, x: Tensor) -> Tensor:
        """Normalise the last axis, up to :attr:`factor`."""
        if self._fast:
            return x / torch.hypot(torch.linalg.vector_norm(x, dim=-1, keepdim=True), self._floor)
        return F.rms_norm(x, (self._width,), None, _EPSILON)


def rotation_table(config: ModelConfig, positions: int, device: torch.device) -> Tensor:
    """Complex unit numbers ``[positions, head_width / 2]`` by which paired channels are multiplied."""
    half = config.head_width // 2
    cosine, sine = rotary_tables(dataclasses.replace(config, max_positions=positions), device, torch.float32)
    return torch.complex(cosine[:, :half].contiguous(), sine[:, half:].contiguous())


def rotate_pairs(x: Tensor, rotation: Tensor) -> None:
    """Rotate ``[n, heads, head_width]`` in place by ``[n, head_width / 2]``; channels ``2j`` and ``2j + 1`` are a pair."""
    pairs = x.view(*x.shape[:-1], -1, 2)
    if x.dtype == torch.float32:
        torch.view_as_complex(pairs).mul_(rotation[:, None])
    else:
        wide = pairs if x.dtype == torch.float64 else pairs.float()
        pairs.copy_(torch.view_as_real(torch.view_as_complex(wide) * rotation[:, None]))


class PackedLayer:
    """One transformer layer on flat tokens ``[n, width]``; attention is the caller's.

    Args:
        layer: trained weights.
        norm: how this engine normalises.
        device: where the packed weights live.
        dtype: their element type.
        context_norm: weights of a norm before :meth:`project_context` (the drafter's).
    """

    def __init__(
        self, layer: Layer, norm: Norm, device: torch.device, dtype: torch.dtype, context_norm: Tensor | None = None
    ) -> None:
        self.heads, self.head_width, self.norm = layer.heads, layer.head_width, norm
        width = layer.heads * layer.head_width
        qkv = layer.qkv.weight.detach().float().cpu().clone()
        qkv[:width] /= math.sqrt(layer.head_width)
        half = layer.head_width // 2
        pair_order = torch.stack([torch.arange(half), torch.arange(half) + half], -1).flatten()
        order = (torch.arange(2 * layer.heads)[:, None] * layer.head_width + pair_order).flatten()
        qkv[: 2 * width] = qkv[order]

        def pack(matrix: Tensor, norm_weight: Tensor | None = None) -> Tensor:
            matrix = matrix.detach().float().cpu()
            if norm_weight is not None:
                matrix = matrix * norm_weight.detach().float().cpu() * norm.factor
            return matrix.t().contiguous().to(device=device, dtype=dtype)

        self._qkv = pack(qkv, layer.attention_norm)
        self._out = pack(layer.out.weight)
        self._gate_up = pack(layer.gate_up.weight, layer.mlp_norm)
        self._down = pack(layer.down.weight)
        self._hidden = self._down.shape[0]
        self._context = None if context_norm is None else pack(qkv[width:], context_norm)

    def project(self, x: Tensor) -> Tensor:
        """Queries, keys and values ``[n, 3 * heads, head_width]`` of the residual stream, scaled but not rotated."""
        return torch.mm(self.norm(x), self._qkv).view(-1, 3 * self.heads, self.head_width)

    def project_context(self, fused: Tensor) -> Tensor:
        """Keys and values ``[n, 2 * heads, head_width]`` of normalised fused features, not rotated."""
        if self._context is None:
            raise ValueError("only a drafter's layers project context features")
        return torch.mm(fused, self._context).view(-1, 2 * self.heads, self.head_width)

    def finish(self, x: Tensor, attended: Tensor) -> Tensor:
        """Add the output of the attention ``[n, width]`` and the feed-forward to the residual stream."""
        x = torch.addmm(x, attended, self._out)
        gate_up = torch.mm(self.norm(x), self._gate_up)
        inner = F.silu(gate_up[:, : self._hidden]).mul_(gate_up[:, self._hidden :])
        return torch.addmm(x, inner, self._down)


def attend(qkv: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None) -> Tensor:
    """Attention of the queries in ``qkv`` over cached keys and values.

    Args:
        qkv: ``[B * S, 3 * heads, head_width]``, scaled and rotated.
        keys: ``[B, heads, T, head_width]``.
        values: the same shape.
        bias: added to the scores, broadcasts to ``[B, heads, S, T]``; ``None`` sees everything.

    Returns:
        ``[B * S, heads * head_width]``.
    """
    batch, heads, _, head_width = keys.shape
    queries = qkv.view(batch, -1, 3 * heads, head_width)[:, :, :heads].transpose(1, 2)
    attended = F.scaled_dot_product_attention(queries, keys, values, attn_mask=bias, scale=1.0)
    return attended.transpose(1, 2).reshape(-1, heads * head_width)
