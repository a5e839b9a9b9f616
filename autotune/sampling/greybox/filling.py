"""What is the mean over all cells where only some were measured, and how far off is it? Others that were measured whole tell."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from autotune.objectives import weight
from autotune.settings import StudySettings
from autotune.trial import Cell

_MISSING_CELLS: Final = 0.05
"""Deviation that a missing share of the cells is believed to bring to a mean of logs, times that share."""

_BELIEF: Final = 2
"""Boots that this belief is worth beside those that were measured whole."""


@dataclass(frozen=True, slots=True)
class Filling:
    """Fills in missing cells: they are as far from the known ones as on average in boots that know both.

    Attributes:
        whole: logs by cell of each boot that knows all cells that are ever asked for; those of repeats too.
        settings: the study, for the weights of the cells.
    """

    whole: Sequence[Mapping[Cell, float]]
    settings: StudySettings

    def fill(self, known: Mapping[Cell, float], wanted: Iterable[Cell]) -> tuple[float, float]:
        """Return the weighted mean of the logs over the wanted cells, and the deviation of its error.

        The deviation is how far off this would have been in the whole boots, beside a belief. Without whole boots the mean
        is that of the known cells.

        Args:
            known: logs by cell, some of the wanted ones, one at least.
            wanted: cells.
        """
        cells = [cell for cell in wanted if not self.whole or cell in self.whole[0]]
        common = [cell for cell in known if cell in cells]
        if not self.whole or not common:
            return self._mean(known, list(known)), 0.0
        missing = 1 - sum(map(self._weight, common)) / sum(map(self._weight, cells))
        if len(common) == len(cells):
            return self._mean(known, cells), 0.0
        ahead = [self._mean(boot, cells) - self._mean(boot, common) for boot in self.whole]
        mean = math.fsum(ahead) / len(ahead)
        squares = math.fsum((each - mean) ** 2 for each in ahead) + _BELIEF * (_MISSING_CELLS * missing) ** 2
        return self._mean(known, common) + mean, math.sqrt(squares / (len(ahead) - 1 + _BELIEF))

    def _mean(self, logs: Mapping[Cell, float], cells: Sequence[Cell]) -> float:
        total = math.fsum(map(self._weight, cells))
        return math.fsum(self._weight(cell) * logs[cell] for cell in cells) / total

    def _weight(self, cell: Cell) -> float:
        return weight(cell, self.settings)
