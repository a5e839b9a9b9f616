"""Surfaces that follow a law: what a tree costs on a machine of stated speed, and what it gains by a stated drafter. Pure.

A step drafts, builds the tree and verifies it. Verification takes as long as reading the weights and caches or as computing
its tokens, whichever is longer, rounded off between the two. A window acts only on contexts that are longer than it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from autotune.search_space import search_space_of
from autotune.simulation.drafter import Drafter, Place
from autotune.simulation.imagined_study import StudyOutline, outline_study
from autotune.simulation.surface import CellTruth, Obstacle, Surface
from autotune.trial import Cell, Configuration

WINDOWS: Final = (512, 1024, 2048, 4096, None)
BLOCKS: Final = (4, 8, 16)
CONTEXTS: Final = (1024, 8192)

_BOOT_S: Final = 600.0
_BOOT_NODE_S: Final = 1.0
"""Capturing the graphs of a larger tree takes longer."""

_PREFILL_S: Final = 0.03
_PREFILL_TOKEN_S: Final = 1 / 12_000
_ROUNDING: Final = 4
"""Exponent of the norm that rounds off where computing begins to take longer than reading; 1 would be their sum."""

_DRAFT_CONTEXT: Final = 4096
"""Context positions that make drafting twice as long as without any."""


@dataclass(frozen=True, slots=True)
class Memory:
    """What a server takes beside weights and cache; all in GB.

    Attributes:
        free_gb_at_most: there is, before any tree.
        node_gb: graphs of one node of a tree, for all requests that may run.
        node_token_gb: the same for each token that is kept per position.
        block_gb: graphs of the drafter, for each token that it drafts.
        window_gb: the drafter's cache, for each 1024 positions that it sees.
        needed_gb: must be left when all is captured.
    """

    free_gb_at_most: float
    node_gb: float
    node_token_gb: float = 0.0
    block_gb: float = 0.0
    window_gb: float = 0.0
    needed_gb: float = 0.5

    def free_gb(self, configuration: Configuration) -> float:
        """Return what is left free."""
        nodes = _number(configuration, "budget") + 1
        if nodes == 1:
            return self.free_gb_at_most
        window = max(CONTEXTS) if configuration["window"] is None else _number(configuration, "window")
        taken = nodes * (self.node_gb + self.node_token_gb * _number(configuration, "topk"))
        taken += self.block_gb * _number(configuration, "block") + self.window_gb * window / 1024
        return self.free_gb_at_most - taken


@dataclass(frozen=True, slots=True)
class Machine:
    """A server on its machine. Times are those of one step, in seconds.

    Attributes:
        weights_s: reading the weights.
        token_s: computing one token.
        tile: tokens that are computed together; a tile begun is a tile paid.
        cache_s: reading 1024 positions of the cache of one sequence.
        draft_s: drafting, whatever is drafted.
        draft_sequence_s: drafting a block of 8 for one sequence that sees no context.
        node_s: building one node of one sequence's tree.
        tree_factor: on verifying a tree, where that needs a slower attention than a chain.
        plain_factor: on a step without speculation, which can be prepared while the one before runs.
        memory: what is left free for trees; ``None`` has no end, and its server does not say.
    """

    weights_s: float
    token_s: float
    tile: int = 1
    cache_s: float = 20e-6
    draft_s: float = 1.2e-3
    draft_sequence_s: float = 25e-6
    node_s: float = 3e-6
    tree_factor: float = 1.0
    plain_factor: float = 0.95
    memory: Memory | None = None

    def step_s(self, configuration: Configuration, cell: Cell) -> float:
        """Return the time of one step of all streams."""
        budget, concurrency = _number(configuration, "budget"), cell.concurrency
        tokens = self.tile * math.ceil(concurrency * (budget + 1) / self.tile)
        reading = self.weights_s + self.cache_s * concurrency * cell.context / 1024
        verifying = (reading**_ROUNDING + (self.token_s * tokens) ** _ROUNDING) ** (1 / _ROUNDING)
        if budget == 0:
            return float(self.plain_factor * verifying)
        if configuration["topk"] != 1:
            verifying *= self.tree_factor
        seen = min(_window(configuration, cell), cell.context) / _DRAFT_CONTEXT
        block = math.sqrt(_number(configuration, "block") / 8)
        drafting = self.draft_s + concurrency * self.draft_sequence_s * block * (1 + seen)
        return float(drafting + concurrency * self.node_s * budget + verifying)

    def holds(self, configuration: Configuration) -> bool:
        """Whether there is memory for the graphs of a configuration."""
        return self.memory is None or self.memory.free_gb(configuration) >= self.memory.needed_gb


@dataclass(frozen=True, slots=True)
class Sight:
    """What a drafter makes of the context that it sees.

    Attributes:
        loss: share of its quality that it loses for each halving of the context by a window.
        longest: context up to which it was trained; beyond it, the same share is lost for each doubling. ``None``: any.
    """

    loss: float
    longest: int | None = None

    def quality(self, configuration: Configuration, cell: Cell) -> float:
        """Return the factor on how likely it is right."""
        seen = min(_window(configuration, cell), cell.context)
        lost = self.loss * math.log2(cell.context / seen)
        if self.longest is not None and seen > self.longest:
            lost += 2 * self.loss * math.log2(seen / self.longest)
        return max(0.1, 1 - lost)


GOOD_DRAFTER: Final = Drafter((Place(0.3, 0.9, 0.95), Place(0.4, 0.68, 0.9), Place(0.3, 0.35, 0.8)))
"""Accept lengths of 2.7 for a short chain to 4 for a large tree, as drafters of large models have."""


class ParametricSurface(Surface):
    """A machine with a drafter.

    Args:
        name: of the surface.
        summary: what is special about it.
        machine: how long steps take.
        drafter: how often drafts are right.
        sight: what a window does to that.
    """

    def __init__(self, name: str, summary: str, machine: Machine, drafter: Drafter, sight: Sight) -> None:
        self.name = name
        self.summary = summary
        self.settings = outline_study(
            StudyOutline(name, CONTEXTS, tuple(range(1, 9)), WINDOWS, BLOCKS, is_best_first=True)
        )
        self.space = search_space_of(self.settings)
        self._machine = machine
        self._drafter = drafter
        self._sight = sight

    def truth(self, configuration: Configuration, cell: Cell) -> CellTruth:
        """Return what a cell would show."""
        return CellTruth(
            self._machine.step_s(configuration, cell), self._accept_length(configuration, cell), prefill_s(cell)
        )

    def _accept_length(self, configuration: Configuration, cell: Cell) -> float | None:
        budget = _number(configuration, "budget")
        if budget == 0:
            return None
        return self._drafter.accept_length(
            budget,
            _number(configuration, "topk"),
            _number(configuration, "block"),
            self._sight.quality(configuration, cell),
        )

    def accepts_at_least(self, configuration: Configuration, cell: Cell) -> tuple[float, ...]:
        """Return how likely a step accepts at least so many drafted tokens."""
        budget = _number(configuration, "budget")
        if budget == 0:
            return ()
        return self._drafter.accepts_at_least(
            budget,
            _number(configuration, "topk"),
            _number(configuration, "block"),
            self._sight.quality(configuration, cell),
        )

    def find_obstacle(self, configuration: Configuration) -> Obstacle | None:
        """Return why a configuration does not serve."""
        return None if self._machine.holds(configuration) else Obstacle.OUT_OF_MEMORY

    def free_memory_gb(self, configuration: Configuration) -> float | None:
        """Return what is left free."""
        return None if self._machine.memory is None else self._machine.memory.free_gb(configuration)

    def boot_s(self, configuration: Configuration) -> float:
        """Return how long loading and capturing take."""
        return boot_s(configuration)


class LevelSurface(ParametricSurface):
    """Every configuration is as fast as plain decoding, but for one family that is faster by the same share everywhere.

    Args:
        name: of the surface.
        summary: what is special about it.
        gain: of the family: budget 22 to 34 and at least three tokens kept per position; the baseline is not in it.
    """

    def __init__(self, name: str, summary: str, gain: float = 0.0) -> None:
        super().__init__(name, summary, ROOMY, GOOD_DRAFTER, Sight(loss=0.03))
        self._gain = gain

    def truth(self, configuration: Configuration, cell: Cell) -> CellTruth:
        """Return steps that take longer by just what they gain in tokens."""
        plain_s = self._machine.step_s({**configuration, "budget": 0}, cell)
        accept_length = self._accept_length(configuration, cell)
        factor = 1 + self._gain if self.is_in_family(configuration) else 1.0
        return CellTruth(plain_s * (accept_length or 1.0) / factor, accept_length, prefill_s(cell))

    @staticmethod
    def is_in_family(configuration: Configuration) -> bool:
        """Whether a configuration belongs to the family that may be faster."""
        return 22 <= _number(configuration, "budget") <= 34 and _number(configuration, "topk") >= 3


ROOMY: Final = Machine(weights_s=12e-3, token_s=14e-6)
"""Reading the weights takes as long as computing 860 tokens."""

TIGHT: Final = Machine(weights_s=6e-3, token_s=90e-6)
"""Reading the weights takes as long as computing 67 tokens."""

STAIRS: Final = Machine(weights_s=8e-3, token_s=25e-6, tile=128, tree_factor=1.08)

CLIFF: Final = Machine(weights_s=12e-3, token_s=14e-6, memory=Memory(12.5, node_gb=0.16, node_token_gb=0.016))
"""As roomy; the largest trees with many tokens per position do not fit."""

BRIM: Final = Machine(
    weights_s=12e-3, token_s=14e-6, memory=Memory(7.5, node_gb=0.14, block_gb=0.08, window_gb=0.35, needed_gb=0.8)
)
"""As roomy; half the trees fit, which ones is decided by budget, block and window."""


def prefill_s(cell: Cell) -> float:
    """Return the time from request to first token, all streams arriving at once; no tree changes it."""
    return _PREFILL_S + cell.concurrency * cell.context * _PREFILL_TOKEN_S


def boot_s(configuration: Configuration) -> float:
    """Return the time that a large model takes to load, and its graphs to be captured."""
    return _BOOT_S + _BOOT_NODE_S * _number(configuration, "budget")


def _number(configuration: Configuration, name: str) -> int:
    value = configuration[name]
    if not isinstance(value, int):
        raise TypeError(f"{name} is {value!r}, no number")
    return value


def _window(configuration: Configuration, cell: Cell) -> int:
    """Return how many positions of the context the drafter may see."""
    return cell.context if configuration["window"] is None else _number(configuration, "window")
