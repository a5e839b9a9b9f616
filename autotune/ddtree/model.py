"""The target (a decoder-only transformer) and the drafter (a DFlash-style block-diffusion head on its features).

RMSNorm, rotary positions, SwiGLU, tied embeddings. The drafter follows DFlash (arXiv 2602.06036): keys and values of the
context come from fused hidden features of several target layers, queries are ``[committed token, MASK, MASK, ...]``,
attention inside the block is not causal, embedding and output head are the target's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Sizes of a target and its drafter.

    Attributes:
        vocabulary: number of tokens.
        width: hidden size.
        layers: target layers.
        heads: attention heads; each has ``width // heads`` channels.
        hidden: inner size of the gated feed-forward.
        rope_theta: base of the rotary frequencies.
        max_positions: longest sequence.
        tapped_layers: target layers whose outputs feed the drafter.
        drafter_layers: drafter layers.
        max_block: largest block the drafter was trained for.
    """

    vocabulary: int = 2048
    width: int = 256
    layers: int = 6
    heads: int = 4
    hidden: int = 688
    rope_theta: float = 10000.0
    max_positions: int = 4096
    tapped_layers: tuple[int, ...] = (1, 3, 5)
    drafter_layers: int = 1
    max_block: int = 16

    @property
    def head_width(self) -> int:
        """Channels of one attention head."""
        return self.width // self.heads


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    """Normalise the last axis by its root mean square."""
    return F.rms_norm(x, (x.shape[-1],), weight, 1e-6)


def rotary_tables(config: ModelConfig, device: torch.device | str, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return cosine and signed sine, each ``[max_positions, head_width]``; see :func:`rotate`."""
    steps = torch.arange(0, config.head_width, 2, device=device).float()
    frequencies = 1.0 / (config.rope_theta ** (steps / config.head_width))
    angles = torch.arange(config.max_positions, device=device).float()[:, None] * frequencies[None]
    cosine = torch.cat([angles.cos(), angles.cos()], -1)
    sine = torch.cat([-angles.sin(), angles.sin()], -1)
    return cosine.to(dtype), sine.to(dtype)


def rotate(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Apply rotary positions to ``x`` ``[..., T, head_width]``; the tables must broadcast to ``x``."""
    half = x.shape[-1] // 2
    return x * cosine + torch.cat([x[..., half:], x[..., :half]], -1) * sine


class Layer(nn.Module):
    """One pre-norm transformer layer, split so that the engine can put its own cache between the halves."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.heads, self.head_width = config.heads, config.head_width
        self.attention_norm = nn.Parameter(torch.ones(config.width))
        self.mlp_norm = nn.Parameter(torch.ones(config.width))
        self.qkv = nn.Linear(config.width, 3 * config.width, bias=False)
        self.out = nn.Linear(config.width, config.width, bias=False)
        self.gate_up = nn.Linear(config.width, 2 * config.hidden, bias=False)
        self.down = nn.Linear(config.hidden, config.width, bias=False)

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values of ``x`` ``[B, T, width]``, each ``[B, heads, T, head_width]``, not rotated."""
        batch, length, _ = x.shape
        qkv = self.qkv(rms_norm(x, self.attention_norm))
        q, k, v = qkv.view(batch, length, 3, self.heads, self.head_width).permute(2, 0, 3, 1, 4)
        return q, k, v

    def project_context(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values of fused features ``[B, T, width]`` (drafter only), not rotated."""
        batch, length, width = features.shape
        kv = F.linear(features, self.qkv.weight[width:])
        k, v = kv.view(batch, length, 2, self.heads, self.head_width).permute(2, 0, 3, 1, 4)
        return k, v

    def finish(self, x: Tensor, attended: Tensor) -> Tensor:
        """Add the attention output ``[B, heads, T, head_width]`` and the feed-forward to the residual ``x``."""
        x = x + self.out(attended.transpose(1, 2).reshape(x.shape))
        gate, up = self.gate_up(rms_norm(x, self.mlp_norm)).chunk(2, -1)
        down: Tensor = self.down(F.silu(gate) * up)
        return x + down


def initialise(module: nn.Module, layers: int) -> None:
    """Scale matrices by fan-in; outputs of residual branches are scaled down by depth."""
    for name, parameter in module.named_parameters():
        if parameter.dim() != 2:
            continue
        std = 0.02 if "embedding" in name else 1.0 / math.sqrt(parameter.shape[1])
        if name.endswith(("out.weight", "down.weight")):
            std /= math.sqrt(2 * layers)
        nn.init.normal_(parameter, std=std)


class Target(nn.Module):
    """The language model whose distribution every answer follows."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.width)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.norm = nn.Parameter(torch.ones(config.width))
        initialise(self, config.layers)

    def forward(self, ids: Tensor, rotary: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Run whole sequences without a cache.

        Args:
            ids: tokens ``[B, T]``.
            rotary: tables cut to ``[T, head_width]``.

        Returns:
            Normalised hidden states ``[B, T, width]`` and tapped features ``[B, T, taps * width]``.
        """
        x = self.embedding(ids)
        features = []
        for index, layer in enumerate(self.stack):
            q, k, v = layer.project(x)
            attended = F.scaled_dot_product_attention(rotate(q, *rotary), rotate(k, *rotary), v, is_causal=True)
            x = layer.finish(x, attended)
            if index in self.config.tapped_layers:
                features.append(x)
        return rms_norm(x, self.norm), torch.cat(features, -1)

    @property
    def stack(self) -> list[Layer]:
        """The layers, first to last."""
        return cast("list[Layer]", list(self.layers))

    def head(self, hidden: Tensor) -> Tensor:
        """Logits ``[..., vocabulary]`` of normalised hidden states."""
        return F.linear(hidden, self.embedding.weight)


class Drafter(nn.Module):
    """Proposes distributions for the next ``block - 1`` tokens in one pass, from features of the target."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.fuse_features = nn.Linear(len(config.tapped_layers) * config.width, config.width, bias=False)
        self.feature_norm = nn.Parameter(torch.ones(config.width))
        self.mask_token = nn.Parameter(torch.randn(config.width) * 0.02)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.drafter_layers))
        self.norm = nn.Parameter(torch.ones(config.width))
        initialise(self, config.drafter_layers)

    @property
    def stack(self) -> list[Layer]:
        """The layers, first to last."""
        return cast("list[Layer]", list(self.layers))

    def fuse(self, features: Tensor) -> Tensor:
        """Turn tapped features ``[B, T, taps * width]`` into what keys and values are made of ``[B, T, width]``."""
        return rms_norm(self.fuse_features(features), self.feature_norm)

    def forward(
        self,
        features: Tensor,
        anchor_embeddings: Tensor,
        anchors: Tensor,
        block: int,
        window: int,
        rotary: tuple[Tensor, Tensor],
    ) -> Tensor:
        """Draft at many anchors of whole sequences at once (training).

        Args:
            features: tapped features ``[B, T, taps * width]``.
            anchor_embeddings: embeddings of the anchor tokens ``[B, A, width]``.
            anchors: positions of the anchors ``[B, A]``; an anchor's own feature is not visible, only earlier ones.
            block: the anchor and ``block - 1`` masks.
            window: how many positions before the anchor are visible.
            rotary: full tables ``[max_positions, head_width]``.

        Returns:
            Normalised hidden states ``[B, A, block - 1, width]`` for the positions after each anchor.
        """
        cosine, sine = rotary
        batch, count = anchors.shape
        length = features.shape[1]
        fused = self.fuse(features)
        masks = self.mask_token.to(anchor_embeddings.dtype).expand(batch, count, block - 1, -1)
        x = torch.cat([anchor_embeddings[:, :, None], masks], 2).reshape(batch, count * block, -1)
        positions = (anchors[:, :, None] + torch.arange(block, device=x.device)).reshape(batch, -1)
        own = (cosine[positions][:, None].to(x.dtype), sine[positions][:, None].to(x.dtype))
        past = (cosine[:length].to(x.dtype), sine[:length].to(x.dtype))
        index = torch.arange(length, device=x.device)
        visible = (index < anchors[:, :, None]) & (index >= (anchors - window)[:, :, None])
        visible = visible[:, :, None].expand(batch, count, block, length).reshape(batch, count * block, length)
        block_id = torch.arange(count * block, device=x.device) // block
        together = (block_id[:, None] == block_id[None]).expand(batch, -1, -1)
        mask = torch.cat([visible, together], -1)[:, None]
        for layer in self.stack:
            q, k, v = layer.project(x)
            context_k, context_v = layer.project_context(fused)
            keys = torch.cat([rotate(context_k, *past), rotate(k, *own)], 2)
            values = torch.cat([context_v, v], 2)
            x = layer.finish(x, F.scaled_dot_product_attention(rotate(q, *own), keys, values, attn_mask=mask))
        return rms_norm(x, self.norm).view(batch, count, block, -1)[:, :, 1:]


def count_parameters(module: nn.Module) -> int:
    """Number of trainable numbers."""
    return sum(parameter.numel() for parameter in module.parameters())
