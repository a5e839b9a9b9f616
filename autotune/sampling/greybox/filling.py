"""What would a boot show over all cells where only some were measured, and how surely? Boots that were measured whole tell.

A step at a long context takes longer by about as many seconds as on other trees, which is less of a long step than of a short
one; and a window that hides a context costs accepted tokens there. So the accept length is filled in for itself, and at each
concurrency the step time; where a server tells no accept lengths, the speed. Each gap is a line in the known log and the
configuration.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from autotune.objectives import CONCURRENCIES, expected_cells, weight
from autotune.sampling.greybox.encoding import Encoding, Vector
from autotune.sampling.greybox.gap import Gap, fit_gap
from autotune.settings import StudySettings
from autotune.trial import Cell, CellMeasurement

_NOISE: Final = 0.03
"""Deviation that a missing share of the cells is believed to bring to a mean of logs beside what is explained, times the share."""

_SLOPE: Final = 0.3
"""Deviation of what the known log does to the missing one; it is between 0 and -1 where contexts cost seconds."""

_EFFECT: Final = 0.05
"""Deviation of what a parameter does to the missing log, from one end of its range to the other."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What one boot showed, in logs by cell.

    Attributes:
        speeds: of tokens/s.
        lengths: of accept lengths, 0 with plain decoding; only where they are known.
        is_plain: plain decoding.
        traits: the configuration from 0 to 1, plain decoding last; shape (k,).
    """

    speeds: Mapping[Cell, float]
    lengths: Mapping[Cell, float]
    is_plain: bool
    traits: Vector

    @staticmethod
    def of(cells: Mapping[Cell, CellMeasurement], row: int, encoding: Encoding) -> Shown:
        """Return what cells of the configuration of a row showed."""
        is_plain = bool(encoding.is_plain[row])
        lengths = {cell: math.log(item.accept_length.value) for cell, item in cells.items() if item.accept_length}
        return Shown(
            {cell: math.log(item.decode_tokens_per_s.value) for cell, item in cells.items()},
            dict.fromkeys(cells, 0.0) if is_plain else lengths,
            is_plain,
            np.append(encoding.x[row], float(is_plain)),
        )


class Filling:
    """Fills in what was not measured.

    Args:
        whole: boots that may have measured all; those that lack a cell in question are left out.
        settings: the study.
    """

    def __init__(self, whole: Sequence[Shown], settings: StudySettings) -> None:
        self._whole: Final = tuple(whole)
        self._accept: Final = accept_cells(settings)
        self._wanted: Final = {
            concurrency: tuple(cell for cell in expected_cells(settings) if cell.concurrency == concurrency)
            for concurrency in CONCURRENCIES
        }
        self._weights: Final = {cell: weight(cell, settings) for cell in expected_cells(settings)}
        self._gaps: Final[dict[tuple[object, ...], Gap | None]] = {}

    def accept_length(self, shown: Shown) -> tuple[float | None, float]:
        """Return the log accept length over the contexts of the busiest cells, with the deviation of what was filled in.

        It does not depend on concurrency, so cells of both are pooled.
        """
        known = tuple(cell for cell in self._accept if cell in shown.lengths)
        if shown.is_plain or not known:
            return None, 0.0
        base = self._mean(shown.lengths, known)
        if len(known) == len(self._accept):
            return base, 0.0
        if ("accept", known) not in self._gaps:
            others = [each for each in self._whole if not each.is_plain and _has(each.lengths, self._accept)]
            hints = [self._mean(each.lengths, known) for each in others]
            gaps = [self._mean(each.lengths, self._accept) - hint for each, hint in zip(others, hints, strict=True)]
            self._gaps["accept", known] = self._fit(others, hints, gaps, known, self._accept)
        gap, deviation = _expect(self._gaps["accept", known], base, shown)
        return base + gap, deviation

    def speed(self, shown: Shown, concurrency: int) -> tuple[float | None, float]:
        """Return the log speed at one concurrency, with the deviation of what was filled in beside the accept length."""
        wanted = self._wanted[concurrency]
        known = tuple(cell for cell in wanted if cell in shown.speeds)
        if not known:
            return None, 0.0
        base = self._mean(shown.speeds, known)
        if len(known) == len(wanted):
            return base, 0.0
        is_apart = _has(shown.lengths, known)
        length = self._mean(shown.lengths, known) if is_apart else 0.0
        key = ("step" if is_apart else "speed", known)
        if key not in self._gaps:
            self._gaps[key] = self._fit_step(known, wanted, is_apart=is_apart)
        gap, deviation = _expect(self._gaps[key], length - base, shown)
        if not is_apart or self._gaps[key] is None:
            return base - gap, deviation
        accept = 0.0 if shown.is_plain else self.accept_length(shown)[0]
        return (base if accept is None else accept - (length - base) - gap), deviation

    def _fit_step(self, known: Sequence[Cell], wanted: Sequence[Cell], *, is_apart: bool) -> Gap | None:
        """Fit how much longer a step takes over all cells, or how much slower they are, in logs."""
        others = [
            each
            for each in self._whole
            if _has(each.speeds, wanted) and (not is_apart or _has(each.lengths, (*known, *self._accept)))
        ]
        hints = [
            (self._mean(each.lengths, known) if is_apart else 0.0) - self._mean(each.speeds, known) for each in others
        ]
        steps = [
            (self._mean(each.lengths, self._accept) if is_apart else 0.0) - self._mean(each.speeds, wanted)
            for each in others
        ]
        gaps = [step - hint for step, hint in zip(steps, hints, strict=True)]
        return self._fit(others, hints, gaps, known, wanted)

    def _fit(
        self,
        others: Sequence[Shown],
        hints: Sequence[float],
        gaps: Sequence[float],
        known: Sequence[Cell],
        wanted: Sequence[Cell],
    ) -> Gap | None:
        """Fit the gap between the known cells and all; ``None`` where nobody knows both."""
        if not others:
            return None
        missing = 1 - sum(map(self._weights.__getitem__, known)) / sum(map(self._weights.__getitem__, wanted))
        features = np.array([[hint, *each.traits] for hint, each in zip(hints, others, strict=True)])
        spreads = np.full(features.shape[1], _EFFECT * missing)
        spreads[0] = _SLOPE * missing
        return fit_gap(np.array(gaps), features, spreads, _NOISE * missing)

    def _mean(self, logs: Mapping[Cell, float], cells: Sequence[Cell]) -> float:
        total = math.fsum(self._weights[cell] for cell in cells)
        return math.fsum(self._weights[cell] * logs[cell] for cell in cells) / total


def accept_cells(settings: StudySettings) -> tuple[Cell, ...]:
    """Return the cells whose accept lengths are pooled: those at contexts that are measured at the highest concurrency."""
    cells = expected_cells(settings)
    contexts = {cell.context for cell in cells if cell.concurrency == CONCURRENCIES[-1]}
    return tuple(cell for cell in cells if cell.context in contexts)


def _expect(gap: Gap | None, hint: float, shown: Shown) -> tuple[float, float]:
    """Return gap and deviation; none where no boot told."""
    return (0.0, 0.0) if gap is None else gap.expect(np.array([hint, *shown.traits]))


def _has(logs: Mapping[Cell, float], cells: Sequence[Cell]) -> bool:
    return all(cell in logs for cell in cells)
