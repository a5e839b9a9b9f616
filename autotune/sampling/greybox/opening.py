"""Which configurations are worth a boot before any model is? One of each arm, then trees of two sizes. Pure."""

from __future__ import annotations

from typing import Final

import numpy as np

from autotune.sampling.base import History
from autotune.sampling.greybox.encoding import Encoding, Flags, Rows

_TREE_SHARES: Final = (0.5, 0.85)
"""Where the two trees lie between the smallest and the largest budget of their arm, by its logarithm."""

_FEWEST_BOOTS: Final = 3


def find_opening(history: History, measured: Rows, candidates: Rows, encoding: Encoding) -> int | None:
    """Return the row to boot before the model decides; ``None`` when the model has enough to go by.

    Where nothing else is asked, everything is as in the baseline, which is known to work.

    Args:
        history: gives the baseline's configuration.
        measured: rows that were booted, whatever became of them.
        candidates: rows that may be proposed; at least one.
        encoding: the configurations.
    """
    home = _home(history, encoding)
    for arm in range(len(encoding.arm_names)):
        if not np.any(encoding.arm[measured] == arm):
            inside = candidates[encoding.arm[candidates] == arm]
            if len(inside):
                return _nearest(inside, home, encoding)
    if encoding.budget is not None:
        return _find_tree(measured, candidates, home, encoding)
    if len(measured) < _FEWEST_BOOTS and len(measured):
        return _farthest(measured, candidates, encoding)
    return None if len(measured) else _nearest(candidates, home, encoding)


def _find_tree(measured: Rows, candidates: Rows, home: int, encoding: Encoding) -> int | None:
    """Return a tree whose budget is unlike those of the trees that were measured; ``None`` with two such trees.

    A line through step times and a curve of accept lengths need two budgets an octave apart.
    """
    assert encoding.budget is not None  # noqa: S101  # the caller asked
    is_tree = _trees(encoding)
    sizes = np.log2(encoding.budget, where=encoding.budget > 0, out=np.zeros(len(encoding)))
    known = sorted(set(sizes[measured[is_tree[measured]]].tolist()))
    inside = candidates[is_tree[candidates]]
    if not len(inside) or (known and known[-1] - known[0] >= 1):
        return None
    low, high = float(sizes[is_tree].min()), float(sizes[is_tree].max())
    if high - low < 1 and known:
        return None
    wanted = [low + share * (high - low) for share in _TREE_SHARES]
    if known:
        wanted.sort(key=lambda size: -min(abs(size - other) for other in known))
    budget = min(set(sizes[inside].tolist()), key=lambda size: abs(size - wanted[0]))
    return _nearest(inside[np.isclose(sizes[inside], budget)], home, encoding)


def _trees(encoding: Encoding) -> Flags:
    """Return the largest arm that speculates: the one whose shape is searched."""
    speculating = ~encoding.is_plain
    if not speculating.any():
        return speculating
    counts = np.bincount(encoding.arm[speculating], minlength=len(encoding.arm_names))
    return np.asarray(speculating & (encoding.arm == int(np.argmax(counts))), dtype=np.bool_)


def _home(history: History, encoding: Encoding) -> int:
    row = encoding.row(encoding.space.resolve(history.settings.baseline))
    return 0 if row is None else row


def _nearest(rows: Rows, home: int, encoding: Encoding) -> int:
    distances = np.sum((encoding.x[rows] - encoding.x[home]) ** 2, axis=1)
    return int(rows[int(np.argmin(distances))])


def _farthest(measured: Rows, candidates: Rows, encoding: Encoding) -> int:
    """Return the candidate whose nearest measured neighbour is farthest away."""
    distances = [np.sum((encoding.x[candidates] - encoding.x[row]) ** 2, axis=1) for row in measured]
    return int(candidates[int(np.argmax(np.min(distances, axis=0)))])
