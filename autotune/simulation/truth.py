"""What is truly best on a surface, by the rules of its own study? The measure of every simulated night. Pure."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from autotune.objectives import CONCURRENCIES, expected_cells, weight
from autotune.pareto import Point, dominates, merit_of
from autotune.settings import StudySettings
from autotune.simulation.surface import Surface
from autotune.study_view import PLAIN_ARM
from autotune.trial import Cell, Configuration

_ROUNDING: Final = 1e-9
"""A loss smaller than this is none."""


@dataclass(frozen=True, slots=True)
class TrueValue:
    """What one configuration is worth, without any noise.

    Attributes:
        point: tokens/s at C=1 and at C=32.
        excess: by which share it loses more than the study allows, in its worst context or at either concurrency; 0 when
            it keeps to the rules, so that it may be recommended.
        is_feasible: it meets the constraints of a trial: no context loses too much behind a mean that does not.
    """

    point: Point
    excess: float
    is_feasible: bool


@dataclass(frozen=True, slots=True)
class Truth:
    """What is true of a whole surface.

    Attributes:
        values: by key of the search space; what meets an obstacle is left out.
        baseline: its point.
        front: points that no feasible configuration dominates, fastest at C=1 first.
        best: key of the configuration that should be recommended by the study's rule; the baseline when nothing beats it.
        best_merit: its merit; 1 is the baseline.
        references: of the hypervolume. The first is the study's own: the worse of baseline and plain decoding, minus 10 %.
            The second lies higher: what a fifth of all feasible configurations does not reach.
        version: changes when anything above, the study or a value does.
    """

    values: Mapping[str, TrueValue]
    baseline: Point
    front: tuple[Point, ...]
    best: str
    best_merit: float
    references: tuple[Point, Point]
    version: str

    def merit(self, key: str, rule: str) -> float:
        """Return what the study's rule maximises; 1 is the baseline."""
        point = self.values[key].point
        return merit_of((point[0] / self.baseline[0], point[1] / self.baseline[1]), rule)


def find_truth(surface: Surface) -> Truth:
    """Work out the truth about every configuration of a surface.

    Raises:
        ValueError: the surface's own baseline does not serve.
    """
    space, settings = surface.space, surface.settings
    cells = expected_cells(settings)
    speeds: dict[str, dict[Cell, float]] = {}
    plain: str | None = None
    for configuration in space.configurations:
        if surface.find_obstacle(configuration) is None:
            key = space.key(configuration)
            speeds[key] = true_speeds(surface, configuration, cells)
            if plain is None and space.arm(configuration) == PLAIN_ARM:
                plain = key
    baseline_key = space.key(space.resolve(settings.baseline))
    if baseline_key not in speeds:
        raise ValueError(f"the baseline of the surface {surface.name}, {baseline_key}, meets an obstacle")
    base = speeds[baseline_key]
    values = {key: _judge(each, base, settings) for key, each in speeds.items()}
    baseline = values[baseline_key].point
    feasible = [value.point for value in values.values() if value.is_feasible]
    merits = {
        key: merit_of((value.point[0] / baseline[0], value.point[1] / baseline[1]), settings.export.rule)
        for key, value in values.items()
        if value.is_feasible and value.excess == 0
    }
    best = max(merits, key=lambda key: (merits[key], key == baseline_key))
    first = [values[key].point for key in (baseline_key, plain) if key is not None]
    low = (0.9 * min(point[0] for point in first), 0.9 * min(point[1] for point in first))
    high = (_fifth([point[0] for point in feasible]), _fifth([point[1] for point in feasible]))
    return Truth(values, baseline, true_front(feasible), best, merits[best], (low, high), _digest(surface, values))


def true_speeds(surface: Surface, configuration: Configuration, cells: Sequence[Cell]) -> dict[Cell, float]:
    """Return the true decode tokens/s of every cell."""
    return {cell: surface.truth(configuration, cell).tokens_per_s(cell.concurrency) for cell in cells}


def true_front(points: Sequence[Point]) -> tuple[Point, ...]:
    """Return the points that no other dominates, each once, largest first value first.

    >>> true_front([(1.0, 3.0), (2.0, 2.0), (1.0, 2.0), (2.0, 2.0)])
    ((2.0, 2.0), (1.0, 3.0))
    """
    found: list[Point] = []
    for point in sorted(set(points), reverse=True):
        if not found or not dominates(found[-1], point):
            found.append(point)
    return tuple(found)


def _judge(speeds: Mapping[Cell, float], base: Mapping[Cell, float], settings: StudySettings) -> TrueValue:
    """Judge one configuration as the study judges a trial, without noise."""
    point: list[float] = []
    excess, hidden = 0.0, False
    for concurrency in CONCURRENCIES:
        ours = {cell: speed for cell, speed in speeds.items() if cell.concurrency == concurrency}
        point.append(_mean(ours, settings))
        mean_loss = 1 - point[-1] / _mean({cell: base[cell] for cell in ours}, settings)
        excess = max(excess, mean_loss - settings.export.max_loss)
        worst = max(1 - speed / base[cell] for cell, speed in ours.items())
        allowed = settings.objectives.max_context_loss
        if worst > allowed and mean_loss < allowed:
            hidden = True
            excess = max(excess, worst - allowed)
    return TrueValue((point[0], point[1]), excess if excess > _ROUNDING else 0.0, is_feasible=not hidden)


def _mean(speeds: Mapping[Cell, float], settings: StudySettings) -> float:
    """Return the weighted geometric mean over contexts."""
    total = math.fsum(weight(cell, settings) for cell in speeds)
    return math.exp(math.fsum(weight(cell, settings) * math.log(speed) for cell, speed in speeds.items()) / total)


def _fifth(values: Sequence[float]) -> float:
    """Return the value that a fifth of the others lie below."""
    ordered = sorted(values)
    return ordered[len(ordered) // 5]


def _digest(surface: Surface, values: Mapping[str, TrueValue]) -> str:
    """Hash what a night on this surface depends on, to six digits of every value."""
    digest = hashlib.sha256(surface.settings.model_dump_json().encode())
    for configuration in surface.space.configurations:
        key = surface.space.key(configuration)
        value = values.get(key)
        shown = "-" if value is None else f"{value.point[0]:.6g} {value.point[1]:.6g}"
        digest.update(f"{key} {surface.boot_s(configuration):.6g} {shown}\n".encode())
    return digest.hexdigest()[:12]
