"""What does the drafter expect at the next positions of every row? One pass over ``[committed token, MASK, ...]``."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from autotune.ddtree.cache import KeyValueCache
from autotune.ddtree.model import Drafter
from autotune.ddtree.packed import PackedLayer, attend, rotate_pairs
from autotune.ddtree.verification import Verifier


class Drafting:
    """The drafter with its cache of context keys and values.

    A row's first slots hold the block of the running pass; behind them lies a ring of the last ``window`` context
    positions, so a small window reads and stores less. The order inside a ring does not matter: keys carry their position.

    Args:
        drafter: trained weights; a packed copy is kept, the module is not.
        verifier: whose embedding, head and rotations are shared.
        positions: positions drafted per pass.
        topk: tokens kept per position.
        window: context positions that are visible; ``None`` is all.
        max_rows: most rows decoded together.
        context_length: longest sequence.
    """

    def __init__(
        self,
        drafter: Drafter,
        verifier: Verifier,
        *,
        positions: int,
        topk: int,
        window: int | None,
        max_rows: int,
        context_length: int,
    ) -> None:
        config = drafter.config
        device, dtype = verifier.device, verifier.dtype
        self._verifier, self._norm = verifier, verifier.norm
        self.positions, self._topk = positions, topk
        self._window = context_length if window is None else min(window, context_length)
        self._layers = [
            PackedLayer(layer, self._norm, device, dtype, context_norm=drafter.feature_norm)  # type: ignore[arg-type]
            for layer in drafter.layers
        ]
        self._fuse = drafter.fuse_features.weight.detach().t().contiguous().to(device=device, dtype=dtype)
        # The verifier's head has the target's final norm folded in; the drafter brings its own.
        final = drafter.norm.detach().float() * self._norm.factor
        head = verifier.embedding.float() * final.to(device)
        self._head = head.t().contiguous().to(dtype)
        self._mask = drafter.mask_token.detach().to(device=device, dtype=dtype)
        self._mask_projection = self._layers[0].project(self._mask[None])
        self.cache = KeyValueCache(
            config.drafter_layers,
            config.heads,
            config.head_width,
            max_rows,
            positions + 1 + self._window,
            device,
            dtype,
        )
        self._slots = torch.arange(positions + 1 + self._window, device=device)
        self._no_bias = torch.zeros((), device=device, dtype=dtype)
        self._masked = torch.full((), -math.inf, device=device, dtype=dtype)

    def remember_prompts(self, features: Tensor, lengths: Sequence[int], rows: Sequence[int]) -> None:
        """Store the context of whole prompts: features ``[B, T, taps * width]``, the first ``length`` of each row valid."""
        kept: list[Tensor] = []
        all_rows: list[int] = []
        all_positions: list[int] = []
        for index, (row, length) in enumerate(zip(rows, lengths, strict=True)):
            first = max(0, length - self._window)
            kept.append(features[index, first:length])
            all_rows += [row] * (length - first)
            all_positions += range(first, length)
        self.remember(torch.cat(kept), all_rows, all_positions)

    def remember(self, features: Tensor, rows: Sequence[int], positions: Sequence[int]) -> None:
        """Store the context of committed tokens.

        Args:
            features: ``[n, taps * width]``.
            rows: row of each token.
            positions: position of each token; no more than ``window`` of a row, else they would overwrite each other.
        """
        block = self.positions + 1
        filled = min(self._window, max(positions) + 1)
        self.cache.reserve(max(rows) + 1, block + filled)
        row, position = torch.tensor([list(rows), list(positions)], device=features.device)
        index = self.cache.index(row, block + position % self._window)
        rotation = self._verifier.rotation[position]
        fused = self._norm(torch.mm(features, self._fuse))
        for number, layer in enumerate(self._layers):
            keys_then_values = layer.project_context(fused)
            rotate_pairs(keys_then_values[:, : layer.heads], rotation)
            self.cache.write(number, index, keys_then_values)

    @property
    def window(self) -> int:
        """Context positions kept per row."""
        return self._window

    def draft(
        self, anchors: Tensor, lengths: Sequence[int], *, normalised: bool, window: int | None = None
    ) -> tuple[Tensor, Tensor]:
        """Propose tokens for the positions after each row's last committed token.

        Args:
            anchors: last committed token of each row ``[B]``.
            lengths: its position, per row.
            normalised: whether log-probabilities are needed; a chain needs only the order of the tokens.
            window: see no more context positions than this, although more are kept.

        Returns:
            Scores (log-probabilities when normalised) and tokens, each ``[B, positions, topk]``, best first.
        """
        batch, block = len(lengths), self.positions + 1
        filled = [min(self._window, length) for length in lengths]
        longest = block + max(filled)
        self.cache.reserve(batch, longest)
        device = anchors.device
        starts = torch.tensor(lengths, device=device)[:, None]
        rotation = self._verifier.rotation[(starts + self._slots[:block]).view(-1)]
        bias = None
        if min(filled) < max(filled) or (window is not None and window < max(filled)):
            slots = self._slots[:longest]
            is_seen = slots < torch.tensor(filled, device=device)[:, None] + block
            if window is not None:
                age = (starts - 1 - (slots - block)) % self._window  # 0 is the newest position of the ring
                is_seen &= (slots < block) | (age < window)
            bias = torch.where(is_seen, self._no_bias, self._masked)[:, None, None]
        x = self._mask.expand(batch, block, -1).clone()
        x[:, 0] = self._verifier.embedding[anchors]
        x = x.view(batch * block, -1)
        for number, layer in enumerate(self._layers):
            if number == 0:
                qkv = self._mask_projection.repeat(batch * block, 1, 1)
                qkv[::block] = layer.project(x[::block])
            else:
                qkv = layer.project(x)
            rotate_pairs(qkv[:, : 2 * layer.heads], rotation)
            both = qkv.view(batch, block, 3, layer.heads, layer.head_width).permute(2, 0, 3, 1, 4)
            keys, values = self.cache.keys_and_values(number, batch, longest)
            keys[:, :, :block] = both[1]
            values[:, :, :block] = both[2]
            seen = None if bias is None else bias.expand(batch, 1, block, longest)
            x = layer.finish(x, attend(qkv, keys, values, seen))
        hidden = x.view(batch, block, -1)[:, 1:].reshape(batch * self.positions, -1)
        logits = torch.mm(self._norm(hidden), self._head).view(batch, self.positions, -1).float()
        if self._topk == 1:
            scores, tokens = logits.max(-1, keepdim=True)
        else:
            scores, tokens = logits.topk(self._topk, -1)
        if normalised:
            scores = scores - logits.logsumexp(-1, keepdim=True)
        return scores, tokens
