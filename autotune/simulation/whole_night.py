"""What does a night measure whose trials were decided before it began, and which nothing stops early?

The trial loop would measure the same (tested), but a study on disk costs it most of its time: here a thousand nights take
minutes. Nothing goes wrong, no trial is pruned, no coding problem is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from autotune.baseline import pool_baseline
from autotune.benchmark.precision import learn_precision
from autotune.objectives import judge, score
from autotune.simulation.meter import plan_cell, simulate_cell
from autotune.simulation.noise import BootId, NightNoise, NoiseSettings
from autotune.simulation.surface import Surface
from autotune.trial import Configuration, TrialKind, TrialRecord, TrialState

_FEWEST_FOR_MIDDLE: Final = 4
"""As the real loop: shorter nights have no boot of the baseline between their trials."""


def measure_night(
    surface: Surface, order: Sequence[Configuration], seed: int, trials: int, noise: NoiseSettings
) -> tuple[TrialRecord, ...]:
    """Return the trials of a night by number, boots of the baseline among them.

    Args:
        surface: the machine.
        order: what is proposed after what the study lists; what was measured before is passed over.
        seed: of the noise.
        trials: counted trials.
        noise: how figures err.
    """
    night_noise = NightNoise(noise, seed)
    records: list[TrialRecord] = []
    for kind, configuration, is_found in _plan(surface, order, trials):
        boot = BootId(len(records), 0 if is_found else 1)
        records.append(_measure(surface, configuration, kind, boot, night_noise, records))
    return tuple(records)


def _plan(
    surface: Surface, order: Sequence[Configuration], trials: int
) -> Iterator[tuple[TrialKind, Configuration, bool]]:
    """Yield what is booted, in order, and whether it was found running."""
    space, settings = surface.space, surface.settings
    baseline = space.resolve(settings.baseline)
    listed = [(TrialKind.LISTED, space.resolve(values)) for values in settings.try_]
    asked = [*listed, *((TrialKind.SEARCH, configuration) for configuration in order)]
    yield TrialKind.BASELINE, baseline, True
    known = {space.key(baseline)}
    counted = 0
    is_middle_due = trials >= _FEWEST_FOR_MIDDLE
    for kind, configuration in asked:
        key = space.key(configuration)
        if key in known or (counted >= trials and kind is TrialKind.SEARCH):
            continue
        known.add(key)
        counted += 1
        yield kind, configuration, False
        if is_middle_due and counted >= trials / 2:
            is_middle_due = False
            yield TrialKind.BASELINE, baseline, False
    if counted > 1:
        yield TrialKind.BASELINE, baseline, True


def _measure(
    surface: Surface,
    configuration: Configuration,
    kind: TrialKind,
    boot: BootId,
    noise: NightNoise,
    earlier: Sequence[TrialRecord],
) -> TrialRecord:
    """Boot one configuration and measure every cell."""
    settings = surface.settings
    boot_s = surface.boot_s(configuration) if boot.attempt else 0.0
    record = TrialRecord(len(earlier), kind, TrialState.INFEASIBLE, configuration, duration_s=boot_s)
    obstacle = surface.find_obstacle(configuration)
    if obstacle is not None:
        return replace(record, reason=obstacle.value)
    cells, duration_s = [], boot_s
    for stage in settings.benchmark.stages:
        for cell in stage.cells:
            truth = surface.truth(configuration, cell.cell)
            wants_round = learn_precision(earlier, cell.cell).wants_round
            key = surface.space.key(configuration)
            accepts = surface.accepts_at_least(configuration, cell.cell)
            measured = simulate_cell(truth, cell, settings.benchmark, noise, boot, key, wants_round, accepts)
            duration_s += plan_cell(truth, cell, settings.benchmark).warm_up_s + measured.duration_s
            cells.append(measured)
    record = replace(
        record,
        cells=tuple(cells),
        duration_s=duration_s,
        objectives=score(cells, None, settings),
        state=TrialState.COMPLETE,
    )
    baseline = None if kind is TrialKind.BASELINE else pool_baseline(earlier, settings)
    violation = judge(record, baseline, settings).violation
    return record if violation is None else replace(record, state=TrialState.INFEASIBLE, reason=violation)
