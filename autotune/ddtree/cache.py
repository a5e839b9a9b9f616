"""Where do the keys and values of the running requests live? One tensor for all layers, written in place."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

_GROWTH = 128


class KeyValueCache:
    """Keys and values ``[layers, 2, rows, heads, slots, head_width]`` that grow when more is needed.

    A row belongs to one running request; the running requests occupy the first rows. Fresh memory is zero, because a
    masked NaN would still poison an attention sum.

    Args:
        layers: layers that share the tensor.
        heads: attention heads.
        head_width: channels of a head.
        max_rows: rows never exceed this.
        max_slots: slots of a row never exceed this.
        device: where the tensor lives.
        dtype: its element type.
    """

    def __init__(
        self,
        layers: int,
        heads: int,
        head_width: int,
        max_rows: int,
        max_slots: int,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        self.heads, self.head_width = heads, head_width
        self.max_rows, self.max_slots = max_rows, max_slots
        self._values = torch.zeros(layers, 2, 0, heads, 0, head_width, device=device, dtype=dtype)
        self._flat: list[Tensor] = []

    @property
    def rows(self) -> int:
        """Rows allocated."""
        return self._values.shape[2]

    @property
    def slots(self) -> int:
        """Slots allocated in each row."""
        return self._values.shape[4]

    def reserve(self, rows: int, slots: int) -> None:
        """Make room for at least this many rows and slots; what is stored stays."""
        if rows <= self.rows and slots <= self.slots:
            return
        old = self._values
        if rows > self.rows:
            rows = min(self.max_rows, max(rows, 2 * self.rows))
        if slots > self.slots:
            slots = min(self.max_slots, max(slots + _GROWTH, self.slots * 3 // 2))
        rows, slots = max(rows, self.rows), max(slots, self.slots)
        self._values = torch.zeros(
            *old.shape[:2], rows, self.heads, slots, self.head_width, device=old.device, dtype=old.dtype
        )
        self._values[:, :, : old.shape[2], :, : old.shape[4]] = old
        self._flat = [layer.view(-1, self.head_width) for layer in self._values]

    def keys_and_values(self, layer: int, rows: int, slots: int) -> tuple[Tensor, Tensor]:
        """Views ``[rows, heads, slots, head_width]`` of the first rows and slots of one layer."""
        both = self._values[layer, :, :rows, :, :slots]
        return both[0], both[1]

    def index(self, rows: Tensor, slots: Tensor) -> Tensor:
        """Where to :meth:`write` tokens ``[n]`` of these rows and slots: ``[n, 2 * heads]``, the same for every layer."""
        heads = torch.arange(2 * self.heads, device=rows.device)
        heads = (heads // self.heads * self.rows * self.heads + heads % self.heads) * self.slots
        return (rows * self.heads * self.slots + slots)[:, None] + heads

    def write(self, layer: int, index: Tensor, keys_then_values: Tensor) -> None:
        """Store ``[n, 2 * heads, head_width]`` where :meth:`index` says."""
        self._flat[layer][index] = keys_then_values

    def copy_slots(self, rows: Sequence[int], sources: Sequence[int], destinations: Sequence[int]) -> None:
        """Copy tokens to other slots of their rows in all layers, as if all copies happened at once."""
        if not rows:
            return
        device = self._values.device
        row, source, destination = torch.tensor([list(rows), list(sources), list(destinations)], device=device)
        self._values[:, :, row, :, destination] = self._values[:, :, row, :, source]

    def copy_row(self, source: int, destination: int, slots: int) -> None:
        """Copy the first slots of one row to another row."""
        self._values[:, :, destination, :, :slots] = self._values[:, :, source, :, :slots]
