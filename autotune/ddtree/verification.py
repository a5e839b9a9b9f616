"""What does the target say after each prompt, and after each node of a batch of trees, in one pass?"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from autotune.ddtree.cache import KeyValueCache
from autotune.ddtree.model import Target
from autotune.ddtree.packed import Norm, PackedLayer, attend, rotate_pairs, rotation_table


class Verifier:
    """The target with its cache.

    Args:
        target: trained weights; a packed copy is kept, the module is not.
        tapped: whether the features that a drafter needs are returned.
        nodes: drafted tokens verified per row and step, 0 when decoding plainly.
        max_rows: most rows decoded together.
        context_length: longest sequence.
        device: where to compute.
        dtype: element type of weights and cache.
    """

    def __init__(
        self,
        target: Target,
        *,
        tapped: bool,
        nodes: int,
        max_rows: int,
        context_length: int,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        config = target.config
        self.device, self.dtype, self._nodes = device, dtype, nodes
        self._tapped = frozenset(config.tapped_layers) if tapped else frozenset()
        self.norm = Norm(config.width, device, dtype)
        self._layers = [PackedLayer(layer, self.norm, device, dtype) for layer in target.layers]  # type: ignore[arg-type]
        self.embedding = target.embedding.weight.detach().to(device=device, dtype=dtype)
        self._first_projection = self._layers[0].project(self.embedding)
        head = target.embedding.weight.detach().float() * target.norm.detach().float() * self.norm.factor
        self._head = head.t().contiguous().to(device=device, dtype=dtype)
        self.rotation = rotation_table(config, context_length + nodes + config.max_block + 1, device)
        self.cache = KeyValueCache(
            config.layers, config.heads, config.head_width, max_rows, context_length + nodes + 1, device, dtype
        )
        self._slots = torch.arange(context_length + nodes + 1, device=device)
        self._no_bias = torch.zeros((), device=device, dtype=dtype)
        self._masked = torch.full((), -math.inf, device=device, dtype=dtype)

    def head(self, hidden: Tensor) -> Tensor:
        """Logits of hidden states ``[n, width]`` of the target's last layer, which are normalised here."""
        return torch.mm(self.norm(hidden), self._head)

    def prefill(self, prompts: Sequence[Sequence[int]], rows: Sequence[int]) -> tuple[Tensor, Tensor | None]:
        """Run whole prompts and store their keys and values.

        Args:
            prompts: tokens, padded here to the longest.
            rows: cache row of each prompt.

        Returns:
            Logits ``[B, vocabulary]`` after each prompt, and tapped features ``[B, T, taps * width]`` (or ``None``).
        """
        lengths = [len(prompt) for prompt in prompts]
        batch, longest = len(prompts), max(lengths)
        self.cache.reserve(max(rows) + 1, longest + self._nodes + 1)
        ids = torch.tensor(
            [[*prompt, *([0] * (longest - len(prompt)))] for prompt in prompts], device=self.device
        ).view(-1)
        rotation = self.rotation[:longest].repeat(batch, 1)
        x = self.embedding[ids]
        taps = []
        for number, layer in enumerate(self._layers):
            qkv = layer.project(x)
            rotate_pairs(qkv[:, : 2 * layer.heads], rotation)
            by_kind = qkv.view(batch, longest, 3, layer.heads, layer.head_width).permute(2, 0, 3, 1, 4)
            queries, keys, values = by_kind[0], by_kind[1], by_kind[2]
            for index, (row, length) in enumerate(zip(rows, lengths, strict=True)):
                cached_keys, cached_values = self.cache.keys_and_values(number, row + 1, length)
                cached_keys[row] = keys[index, :, :length]
                cached_values[row] = values[index, :, :length]
            attended = F.scaled_dot_product_attention(queries, keys, values, is_causal=True, scale=1.0)
            x = layer.finish(x, attended.transpose(1, 2).reshape(x.shape))
            if number in self._tapped:
                taps.append(x)
        last = [index * longest + length - 1 for index, length in enumerate(lengths)]
        logits = self.head(x[torch.tensor(last, device=self.device)])
        features = torch.cat(taps, -1).view(batch, longest, -1) if taps else None
        return logits, features

    def verify(
        self, tokens: Tensor, depths: Tensor, ancestors: Tensor | None, lengths: Sequence[int]
    ) -> tuple[Tensor, list[Tensor]]:
        """Run the last committed token and the tree of every row, each node seeing the context and its ancestors.

        Keys and values of slot ``s`` are stored at cache slot ``length + s``; a row's committed tokens end before it.

        Args:
            tokens: ``[B, S]``, slot 0 is the last committed token.
            depths: ``[B, S]`` or ``[S]``, 0 for slot 0.
            ancestors: booleans ``[B, S, S]`` or ``[S, S]``; ``None`` where there is one slot.
            lengths: committed tokens before slot 0, per row.

        Returns:
            Logits ``[B, S, vocabulary]`` and the tapped layers' outputs, each ``[B * S, width]``.
        """
        batch, slots = tokens.shape
        longest = max(lengths) + slots
        self.cache.reserve(batch, longest)
        starts = torch.tensor(lengths, device=self.device)[:, None]
        rotation = self.rotation[(starts + depths).view(-1)]
        rows = torch.arange(batch, device=self.device)[:, None].expand(batch, slots)
        index = self.cache.index(rows.reshape(-1), (starts + self._slots[:slots]).view(-1))
        bias = self._tree_bias(ancestors, starts, slots, longest, all_equal=min(lengths) == longest - slots)
        ids = tokens.reshape(-1)
        x = self.embedding[ids]
        taps = []
        for number, layer in enumerate(self._layers):
            qkv = self._first_projection[ids] if number == 0 else layer.project(x)
            rotate_pairs(qkv[:, : 2 * layer.heads], rotation)
            self.cache.write(number, index, qkv[:, layer.heads :])
            keys, values = self.cache.keys_and_values(number, batch, longest)
            x = layer.finish(x, attend(qkv, keys, values, bias))
            if number in self._tapped:
                taps.append(x)
        return self.head(x).view(batch, slots, -1), taps

    def _tree_bias(
        self, ancestors: Tensor | None, starts: Tensor, slots: int, longest: int, *, all_equal: bool
    ) -> Tensor | None:
        """Scores' bias ``[B, 1, S, T]``: 0 for the context, a node and its ancestors, minus infinity elsewhere."""
        if ancestors is None and all_equal:
            return None
        batch = starts.shape[0]
        visible = self._slots[:longest] < starts if ancestors is not None else self._slots[:longest] <= starts
        bias = torch.where(visible, self._no_bias, self._masked)[:, None]
        if ancestors is not None:
            among = torch.where(ancestors, self._no_bias, self._masked).expand(batch, slots, slots)
            bias = bias.repeat(1, slots, 1)
            bias.scatter_(2, (starts + self._slots[:slots])[:, None].expand(batch, slots, slots), among)
        return bias[:, None]
