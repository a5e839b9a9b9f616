"""A surface with few configurations, so that nights on it are quick, and with both obstacles."""

from __future__ import annotations

import random
from collections.abc import Sequence

from autotune.sampling.base import History
from autotune.search_space import SearchSpace, search_space_of
from autotune.simulation.imagined_study import StudyOutline, outline_study
from autotune.simulation.parametric import GOOD_DRAFTER, ROOMY, prefill_s
from autotune.simulation.surface import CellTruth, Obstacle, Surface
from autotune.trial import Cell, Configuration


class SmallSurface(Surface):
    """Budgets 0 to 64 in steps of two, topk 1 to 4; above 48 memory runs out, 2 with topk 4 is refused."""

    def __init__(self) -> None:
        self.name = "small"
        self.summary = "for tests"
        self.settings = outline_study(StudyOutline("small", (1024,), (1, 2, 3, 4), (None,), (16,), budget_step=2))
        self.space = search_space_of(self.settings)

    def truth(self, configuration: Configuration, cell: Cell) -> CellTruth:
        budget, topk = configuration["budget"], configuration["topk"]
        assert isinstance(budget, int)
        assert isinstance(topk, int)
        accept_length = GOOD_DRAFTER.accept_length(budget, topk, 16) if budget else None
        return CellTruth(ROOMY.step_s(configuration, cell), accept_length, prefill_s(cell))

    def find_obstacle(self, configuration: Configuration) -> Obstacle | None:
        budget, topk = configuration["budget"], configuration["topk"]
        assert isinstance(budget, int)
        if budget > 48:
            return Obstacle.OUT_OF_MEMORY
        return Obstacle.REFUSED if (budget, topk) == (2, 4) else None

    def boot_s(self, configuration: Configuration) -> float:  # noqa: ARG002  # all alike
        return 600.0


class ListSampler:
    """Proposes what it was given, in this order, and then whatever comes first."""

    def __init__(self, *texts: str) -> None:
        self.texts = list(texts)

    def propose(
        self,
        history: History,  # noqa: ARG002  # a list does not learn
        space: SearchSpace,
        pending: Sequence[Configuration],  # noqa: ARG002  # same
        rng: random.Random,
    ) -> Configuration:
        return space.parse(self.texts.pop(0)) if self.texts else rng.choice(space.configurations)
