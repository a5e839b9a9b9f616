"""How far do boots of one configuration lie apart, and how much of that is noise inside them? Ten boots, one after the other.

::

    python -m tests.benchmarks.repeatability                   # ten boots of the embedded server, 4 to 9 minutes
    python -m tests.benchmarks.repeatability --boots 4 --only-table

Boots the baseline of ``studies/embedded.toml`` again and again by the product's own way: stop, start, wait, verify, canary,
cells, put the host back. Every cell is measured in two rounds of the same prompts. What is measured is stored in
``studies/repeatability`` as any study is; the same command again goes on where an earlier one ended, and prints the table of
``docs/benchmarks.md``. A machine that does something else meanwhile is what it then measures.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from autotune.baseline import Spread, measure_spread_at, pool_baseline
from autotune.benchmark.benchmark import Benchmark
from autotune.benchmark.precision import Precision
from autotune.cli.display import PlainDisplay
from autotune.drift import find_drifts
from autotune.export.findings import measure_gain, smallest_gain
from autotune.interval import deviation_interval
from autotune.objectives import CONCURRENCIES, expected_cells
from autotune.packaged import find_packaged
from autotune.settings import StudySettings, load_settings
from autotune.study import Study
from autotune.study_view import load_study
from autotune.trial import Configuration, TrialKind, TrialRecord, TrialState
from autotune.tuner import Limits, open_night
from autotune.tuner.interruption import Interruption
from autotune.tuner.meters import CellMeter
from autotune.tuner.night import Night

BOOTS: Final = 10
ROUNDS: Final = 2
"""Of each cell in each boot: two show the noise inside a boot, and no more are needed to see how large it is."""


PORT: Final = 30177
"""Its own, so that no other study's server is in the way."""


class RepeatedNight(Night):
    """Boots the baseline until so many boots are complete."""

    boots = BOOTS

    def _run_trials(self) -> str:
        meters = self._rig.meters
        every_round = replace(meters, open_benchmark=measure_every_round(meters.open_benchmark))
        self._rig = replace(self._rig, meters=every_round)
        while self._time.baselines < self.boots:
            if (late := self._time.find_lateness()) is not None:
                return late
            self._run(self._study.suggest_baseline(), may_reuse=False)
        return f"{self._time.baselines} boots are done"

    def _measure_baseline_last(self) -> str:
        return "the baseline was measured all the time"


def measure_every_round(
    open_benchmark: Callable[[Configuration, Path], CellMeter],
) -> Callable[[Configuration, Path], CellMeter]:
    """Let every boot measure as many rounds as the settings allow: no noise between boots would ever be enough."""

    def open_restless(configuration: Configuration, records: Path) -> CellMeter:
        meter = open_benchmark(configuration, records)
        if isinstance(meter, Benchmark):
            meter._learn_precision = lambda _cell: Precision(between=0.0)
        return meter

    return open_restless


def make_settings(path: Path) -> StudySettings:
    """Return the embedded study without coding problems, with as many rounds as the campaign wants."""
    settings = load_settings(path)
    benchmark = settings.benchmark.model_copy(update={"max_rounds": ROUNDS})
    evaluation = settings.evaluation.model_copy(update={"enabled": False})
    return settings.model_copy(
        update={
            "name": "repeatability",
            "try_": (),
            "benchmark": benchmark,
            "evaluation": evaluation,
            "server": settings.server.model_copy(update={"port": PORT}),
        }
    )


def boot_again_and_again(settings: StudySettings, directory: Path, boots: int) -> None:
    """Boot until so many boots are complete, and put the host back."""
    with Interruption() as interruption, Study.open(settings, directory) as study, PlainDisplay() as display:
        night = open_night(study, Limits(), display, interruption, kind=RepeatedNight)
        if isinstance(night, RepeatedNight):
            night.boots = boots
        night.run()


def complete_boots(trials: Sequence[TrialRecord]) -> list[TrialRecord]:
    """Return every complete boot, drifting ones too."""
    return [trial for trial in trials if trial.kind is TrialKind.BASELINE and trial.state is TrialState.COMPLETE]


def render_table(trials: Sequence[TrialRecord], settings: StudySettings) -> Iterator[str]:
    """Yield the table as Markdown, then what the boots say of the intervals of gains."""
    boots = complete_boots(trials)
    yield "| figure | tokens/s | boots differ by (95 %) | noise inside a boot (95 %) | left for the boot itself | one boot proves |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for cell in expected_cells(settings):
        yield _render_row(cell.name, only_cells(boots, cell.name), cell.concurrency, settings)
    for concurrency in CONCURRENCIES:
        yield _render_row(f"objective at C={concurrency}", boots, concurrency, settings)
    canaries = [trial.condition.canaries[0].value for trial in boots if trial.condition and trial.condition.canaries]
    if len(canaries) > 1:
        spread = statistics.stdev(map(math.log, canaries))
        yield f"| canary, prompt tokens/s | {statistics.geometric_mean(canaries):.0f} | {_deviation(spread, len(canaries) - 1)} | | | |"
    yield ""
    held = [
        _holds_none(boot, [other for other in boots if other is not boot], concurrency, settings)
        for boot in boots
        for concurrency in CONCURRENCIES
    ]
    known = [each for each in held if each is not None]
    if known:
        yield (
            f"Each boot against the others: {sum(known)} of {len(known)} intervals of the gain hold 0, which is the truth."
        )
    drifts = {number: said for number, said in find_drifts(trials).items() if number in {boot.number for boot in boots}}
    yield f"Boots that drifted: {len(drifts)} of {len(boots)}" + "".join(
        f"; trial {number}: {'; '.join(said)}" for number, said in drifts.items()
    )


def only_cells(boots: Sequence[TrialRecord], name: str) -> list[TrialRecord]:
    """Return the boots as if one cell were all that an objective rests on."""
    found = []
    for boot in boots:
        cells = tuple(item for item in boot.cells if item.cell.name == name)
        speed = cells[-1].decode_tokens_per_s
        found.append(
            replace(
                boot,
                cells=cells,
                objectives=replace(boot.objectives, tokens_per_s_c1=speed, tokens_per_s_c32=speed),
            )
        )
    return found


def _render_row(name: str, boots: Sequence[TrialRecord], concurrency: int, settings: StudySettings) -> str:
    cells = {item.cell for boot in boots for item in boot.cells}
    stages = tuple(
        stage.model_copy(update={"cells": tuple(cell for cell in stage.cells if cell.cell in cells)})
        for stage in settings.benchmark.stages
    )
    narrowed = settings.model_copy(update={"benchmark": settings.benchmark.model_copy(update={"stages": stages})})
    spread = measure_spread_at(boots, concurrency, narrowed)
    if spread is None:
        return f"| {name} | | | | | |"
    figures = [
        boot.objectives.tokens_per_s_c1 if concurrency == 1 else boot.objectives.tokens_per_s_c32 for boot in boots
    ]
    speed = statistics.geometric_mean(figure.value for figure in figures if figure is not None)
    gain = smallest_gain(spread.boots, spread.deviation)
    return (
        f"| {name} | {speed:.0f} | {_deviation(spread.deviation, spread.boots - 1)} | {_inside(spread)} | "
        f"{'unknown' if spread.between is None else f'{spread.between:.1%}'} | {gain:.1%} |"
    )


def _inside(spread: Spread) -> str:
    if spread.inside is None:
        return "unknown"
    return _deviation(spread.inside, spread.inside_degrees)


def _deviation(deviation: float, degrees: int) -> str:
    low, high = deviation_interval(deviation, degrees)
    return f"{deviation:.1%} ({low:.1%} to {high:.1%})"


def _holds_none(
    boot: TrialRecord, others: Sequence[TrialRecord], concurrency: int, settings: StudySettings
) -> bool | None:
    """Whether the gain of one boot over the others holds none; ``None`` without an interval."""
    baseline = pool_baseline(others, settings)
    gain = None if baseline is None else measure_gain(boot, baseline, concurrency, settings)
    return None if gain is None or gain.low is None or gain.high is None else gain.low <= 1 <= gain.high


def main() -> None:
    """Boot, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--boots", type=int, default=BOOTS, help=f"complete boots in all (default: {BOOTS})")
    parser.add_argument("--directory", type=Path, default=Path("studies/repeatability"), help="of the stored study")
    parser.add_argument("--only-table", action="store_true", help="boot nothing, print what is stored")
    arguments = parser.parse_args()
    path = find_packaged("studies", "embedded.toml")
    if path is None:
        raise SystemExit("studies/embedded.toml is missing from this installation")
    settings = make_settings(path)
    directory = arguments.directory.absolute()
    if not arguments.only_table:
        boot_again_and_again(settings, directory, arguments.boots)
    view = load_study(directory, storage=None, name=settings.name)
    for line in render_table(view.trials, view.settings):
        print(line)


if __name__ == "__main__":
    main()
