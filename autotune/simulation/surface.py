"""What would a server of this machine do with a configuration? The truth behind a simulated night, without any noise."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum

from autotune.search_space import SearchSpace
from autotune.settings import StudySettings
from autotune.trial import Cell, Configuration


@dataclass(frozen=True, slots=True)
class CellTruth:
    """One cell of one configuration as it would be measured without noise, for ever.

    Attributes:
        step_time_s: one step of every stream: draft, tree, verification.
        accept_length: tokens a step and stream; ``None`` with plain decoding, where every step is one token.
        prefill_s: from request to first token, all streams arriving at once.
    """

    step_time_s: float
    accept_length: float | None
    prefill_s: float

    def tokens_per_s(self, concurrency: int) -> float:
        """Return the decode speed over all streams."""
        return concurrency * (self.accept_length or 1.0) / self.step_time_s


class Obstacle(Enum):
    """Why a configuration does not serve."""

    OUT_OF_MEMORY = "out of memory"
    REFUSED = "refused by the server"


class Surface(ABC):
    """The truth about every configuration of one search space on one imaginary machine.

    Attributes:
        name: short, as it is named on a command line.
        summary: one sentence: what is special about it.
        settings: a study of it: search space, cells, baseline, seed; the samplers see nothing else of a surface.
        space: the search space of ``settings``.
        pass_at_1: the true pass rate of every configuration: lossless acceptance leaves it flat.
    """

    name: str
    summary: str
    settings: StudySettings
    space: SearchSpace
    pass_at_1: float = 0.8

    @abstractmethod
    def truth(self, configuration: Configuration, cell: Cell) -> CellTruth:
        """Return what a cell would show; the configuration is canonical and meets no obstacle."""

    @abstractmethod
    def find_obstacle(self, configuration: Configuration) -> Obstacle | None:
        """Return why a configuration does not serve; ``None`` when it does."""

    def accepts_at_least(self, configuration: Configuration, cell: Cell) -> tuple[float, ...]:  # noqa: ARG002  # as below
        """Return the probabilities that a step accepts at least 1, 2, 3 ... drafted tokens; empty when nobody says."""
        return ()

    def free_memory_gb(self, configuration: Configuration) -> float | None:  # noqa: ARG002  # where memory is imagined
        """Return what is left free once a configuration is loaded, in GB; ``None`` when the server does not say."""
        return None

    @abstractmethod
    def boot_s(self, configuration: Configuration) -> float:
        """Return how long it takes from start to the first generation, in seconds, obstacle or not."""
