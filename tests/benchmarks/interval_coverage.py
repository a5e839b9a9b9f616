"""How often does the 95 % interval of a gain hold the true gain? Invented boots, judged by the functions of the product.

``python -m tests.benchmarks.interval_coverage`` prints the table of ``docs/metrics.md``; ``--studies 400`` is a quick look.
Each study has boots of a baseline and one boot of a configuration that is truly 5 % faster. Speeds of requests become the
figures of cells as ratios of sums, boots are pooled by :func:`autotune.baseline.pool_baseline`, and the gain is that of
:func:`autotune.export.findings.measure_gain`. For several boots on both sides :func:`autotune.interval.compare_cells` is asked
with two pooled records.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from autotune.baseline import pool_baseline
from autotune.benchmark.metrics import ratio_figure
from autotune.export.findings import measure_gain, smallest_gain
from autotune.interval import compare_cells, pooled_variance
from autotune.objectives import latest
from autotune.settings import StudySettings
from autotune.trial import Cell, CellMeasurement, Figure, TrialKind, TrialRecord
from tests.records import make_cell, make_settings, make_trial

TRUE_GAIN: Final = 1.05
TOKENS: Final = 200.0
BOOTS: Final = ((2, 1), (3, 1), (5, 1), (10, 1), (2, 2), (3, 3), (5, 5))
"""Boots of the baseline and of the configuration."""


@dataclass(frozen=True, slots=True)
class World:
    """How speeds scatter: standard deviations of logs.

    Attributes:
        name: for the table.
        between: what a boot adds.
        shared: what all requests that are in flight together share.
        noise: what each request has of its own.
        differing: how differently prompts gain.
        tails: degrees of freedom of Student's distribution from which boots are drawn; ``None``: normal.
    """

    name: str
    between: float
    shared: float
    noise: float
    differing: float
    tails: int | None = None


WORLDS: Final = (
    World("boots differ most", 0.05, 0.005, 0.02, 0.01),
    World("boots and prompts", 0.02, 0.005, 0.02, 0.05),
    World("requests hang together", 0.005, 0.04, 0.01, 0.01),
    World("noise of requests most", 0.002, 0.0, 0.1, 0.0),
    World("prompts differ most", 0.005, 0.0, 0.02, 0.1),
    World("all alike", 0.02, 0.02, 0.05, 0.05),
)
TAILED: Final = (
    World("boots with heavy tails (t, 3)", 0.03, 0.005, 0.02, 0.02, tails=3),
    World("boots with heavier tails (t, 2)", 0.03, 0.005, 0.02, 0.02, tails=2),
)


@dataclass(frozen=True, slots=True)
class Coverage:
    """What many invented studies show.

    Attributes:
        held: share of studies whose interval holds the true gain.
        half_width: median half width of the interval, as a log.
        false_alarms: share of studies that call a gain proven of a configuration without one.
    """

    held: float
    half_width: float
    false_alarms: float


def cover(world: World, boots: tuple[int, int], concurrency: int, studies: int, seed: int) -> Coverage:
    """Invent studies and judge them."""
    rng = np.random.default_rng(seed)
    settings = make_settings()
    held, alarms, widths = 0, 0, []
    for _study in range(studies):
        gain, spread = invent_gain(rng, world, boots, concurrency, settings)
        if gain.low is None or gain.high is None:
            raise AssertionError("a gain came without an interval")
        held += gain.low <= TRUE_GAIN <= gain.high
        widths.append(math.log(gain.high / gain.low) / 2)
        without = gain.value / TRUE_GAIN
        alarms += gain.low / TRUE_GAIN > 1 and without > 1 + smallest_gain(sum(boots) - 1, spread)
    return Coverage(held / studies, float(np.median(widths)), alarms / studies)


def invent_gain(
    rng: np.random.Generator, world: World, boots: tuple[int, int], concurrency: int, settings: StudySettings
) -> tuple[Figure, float]:
    """Invent one study; return the gain that the product sees, and the spread of the baseline's boots."""
    prompts = 8 if concurrency == 1 else 64
    base = rng.normal(0.0, 0.2, prompts)
    gains = math.log(TRUE_GAIN) + rng.normal(0.0, world.differing, prompts)
    theirs = [invent_boot(rng, world, base, concurrency, number) for number in range(boots[0])]
    ours = [invent_boot(rng, world, base + gains, concurrency, number) for number in range(boots[0], sum(boots))]
    baseline = pool_baseline(theirs, settings)
    if baseline is None:
        raise AssertionError("no baseline")
    spread = math.sqrt(pooled_variance([[_log_speed(trial, concurrency) for trial in theirs]]))
    if len(ours) == 1:
        gain = measure_gain(replace(ours[0], kind=TrialKind.SEARCH), baseline, concurrency, settings)
        if gain is None:
            raise AssertionError("no gain")
        return gain, spread
    pooled = pool_baseline(ours, settings)
    if pooled is None:
        raise AssertionError("no pool")
    ratio = compare_cells([(_cell(pooled, concurrency), _cell(baseline, concurrency))], [1.0])
    if ratio.low is None or ratio.high is None:
        raise AssertionError("no interval")
    return Figure(ratio.factor, ratio.pairs, math.exp(ratio.low), math.exp(ratio.high)), spread


def invent_boot(rng: np.random.Generator, world: World, logs: np.ndarray, concurrency: int, number: int) -> TrialRecord:
    """Invent one boot: at C=32 two waves of 32 requests, at C=1 two stretches of four requests that share a disturbance."""
    wave = 4 if concurrency == 1 else concurrency
    of_boot = rng.normal() if world.tails is None else rng.standard_t(world.tails)
    shared = np.repeat(rng.normal(0.0, world.shared, len(logs) // wave), wave)
    speeds = 3.0 + logs + world.between * of_boot + shared + rng.normal(0.0, world.noise, len(logs))
    cell = make_measurement(Cell(128, concurrency), [float(speed) for speed in speeds])
    other = make_cell(33 - concurrency, 100.0)
    return replace(make_trial(number, kind=TrialKind.BASELINE, pass_at_1=None), cells=(cell, other))


def make_measurement(cell: Cell, log_speeds: Sequence[float]) -> CellMeasurement:
    """Return the cell whose requests decoded at these speeds."""
    figure = ratio_figure([(TOKENS, TOKENS / math.exp(log)) for log in log_speeds], cell.concurrency)
    prompts = {f"p{index:03d}": log for index, log in enumerate(log_speeds)}
    return replace(make_cell(cell.concurrency, 1.0, prompts=prompts), decode_tokens_per_s=figure)


def _cell(trial: TrialRecord, concurrency: int) -> CellMeasurement:
    return latest(trial.cells)[Cell(128, concurrency)]


def _log_speed(trial: TrialRecord, concurrency: int) -> float:
    return math.log(_cell(trial, concurrency).decode_tokens_per_s.value)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=10_000, help="invented for each figure (default: 10000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--boots", metavar="N/M", help="only this row: boots of the baseline / of the configuration")
    arguments = parser.parse_args()
    rows: Sequence[tuple[int, int]] = BOOTS
    if arguments.boots is not None:
        theirs, _, ours = arguments.boots.partition("/")
        rows = [(int(theirs), int(ours))]
    print("| boots of baseline / configuration | " + " | ".join(world.name for world in (*WORLDS, *TAILED)) + " |")
    print("| --- " * (1 + len(WORLDS) + len(TAILED)) + "|")
    for boots in rows:
        for concurrency in (1, 32):
            found = [
                cover(world, boots, concurrency, arguments.studies, arguments.seed) for world in (*WORLDS, *TAILED)
            ]
            cells = [f"{each.held:.1%} (±{each.half_width:.1%}; {each.false_alarms:.1%})" for each in found]
            print(f"| {boots[0]} / {boots[1]}, C={concurrency} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
