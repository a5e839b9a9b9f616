"""Which draft tree does a configuration ask for, whatever its search space calls its parameters? Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from autotune.search_space import SearchSpace
from autotune.trial import Configuration

_BUDGET: Final = "speculative_ddtree_budget"
_TOPK: Final = "topk"
_BLOCK: Final = "speculative_num_draft_tokens"
_WINDOW: Final = "speculative_draft_window_size"


@dataclass(frozen=True, slots=True)
class TreeShape:
    """What decides the accept length of a configuration.

    Attributes:
        budget: nodes.
        topk: ranks kept per position.
        block: the committed token and the positions drafted after it.
        window: context positions that the drafter sees; ``None`` is all.
    """

    budget: int
    topk: int
    block: int
    window: int | None


def find_shape(space: SearchSpace, configuration: Configuration) -> TreeShape | None:
    """Return the tree of a canonical configuration by what the server reports of it; ``None`` when it has none."""
    reported = space.reported(configuration)
    budget, topk, block = (reported.get(name) for name in (_BUDGET, _TOPK, _BLOCK))
    window = reported.get(_WINDOW)
    # A flag is a bool in Python, too.
    if not (type(budget) is int and type(topk) is int and type(block) is int):
        return None
    return TreeShape(budget, topk, block, window if type(window) is int else None)


def choose_logger(space: SearchSpace, *, only_full_trees: bool = False) -> Configuration | None:
    """Return the configuration whose log of drafts tells most about the others; ``None`` when no tree is among them.

    Its drafter sees the most context (a smaller window can be told from it, a larger one cannot) and keeps the most ranks;
    of those its budget is the smallest, because a small tree starts steps in more places.

    Args:
        space: what is searched.
        only_full_trees: for a server whose chains of drafts cannot be logged: the budget is at least the block.
    """
    shapes = [(shape, item) for item in space.configurations if (shape := find_shape(space, item)) is not None]
    if only_full_trees:
        shapes = [(shape, item) for shape, item in shapes if shape.budget >= shape.block]
    if not shapes:
        return None

    def merit(candidate: tuple[TreeShape, Configuration]) -> tuple[float, int, int, int]:
        shape, _ = candidate
        window = float("inf") if shape.window is None else float(shape.window)
        return window, shape.block, shape.topk, -shape.budget

    return max(shapes, key=merit)[1]


def find_windows(space: SearchSpace) -> tuple[int, ...]:
    """Return the windows of the search space that are not all of the context, ascending."""
    shapes = (find_shape(space, item) for item in space.configurations)
    return tuple(sorted({shape.window for shape in shapes if shape is not None and shape.window is not None}))
