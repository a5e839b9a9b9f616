"""Could more evidence from each boot find better configurations, at its very best? By hand, for decisions on what to build.

::

    python -m tests.benchmarks.evidence_bounds --out bounds.jsonl

The grey-box model is told the truth, without noise, where a server could only give an estimate. What does not help then need
not be built:

- ``greybox-sweep-bound``: the step time of each booted configuration at C=1 and C=32, and what a sweep over C = 2, 4, 8, 16
  would tell of other budgets if a step took as long as another of as many verified tokens: (budget + 1) C.
- ``greybox-sweep``: the same by a sweep that has no noise, but with the error of that rule: a step at C = 32 is taken for one of
  as many tokens at a lower concurrency, where fewer sequences are drafted. Surfaces that follow a law only.
- ``greybox-blocks-bound``: the accept length of each booted configuration with every smaller block.
- ``greybox-no-histograms``, ``greybox``: without and with what a histogram of accepted lengths says of them, for comparison.
- ``greybox-exact-rounds``: no noise inside boots, so that measuring longer has nothing to give.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from unittest import mock

from autotune.cli.campaign_options import play_missing
from autotune.errors import SearchSpaceError
from autotune.objectives import CONCURRENCIES, expected_cells, weight
from autotune.sampling.base import AcceptLengthEvidence, History, Sampler
from autotune.sampling.greybox import model, standing
from autotune.sampling.greybox.boots import Boot
from autotune.sampling.greybox.encoding import Encoding
from autotune.sampling.greybox.filling import accept_cells
from autotune.sampling.greybox.sampler import GreyboxSampler
from autotune.sampling.greybox.standing import Standing
from autotune.settings import SamplerSettings
from autotune.simulation import compared_night
from autotune.simulation.compared_night import NOISE, ComparedNight, play_night
from autotune.simulation.comparison_tables import render_markdown, tabulate
from autotune.simulation.method import METHODS, Method
from autotune.simulation.night_score import NightScore
from autotune.simulation.summary import Comparison
from autotune.simulation.surface import Surface
from autotune.trial import Cell, Configuration

SWEPT = (2, 4, 8, 16)
_SURELY = 0.003
"""Deviation of the log of what is told."""

_BY_TOKENS = ((0.03, 0.04), (-0.15, 0.15))
"""By how much the log of a step time at C=1 and C=32 is too long, taken from another concurrency with as many tokens, and its
deviation: the means over roomy, tight and stairs."""


class ToldSampler(GreyboxSampler):
    """Knows more of what was booted than a server says.

    Args:
        surface: whose truth is told.
        steps: whether step times are told.
        swept: whether these are what a sweep shows.
        blocks: whether accept lengths with smaller blocks are told.
    """

    def __init__(self, surface: Surface, *, steps: bool = False, swept: bool = False, blocks: bool = False) -> None:
        super().__init__()
        self._surface = surface
        self._steps = steps
        self._swept = swept
        self._blocks = blocks

    def _stand(self, history: History, encoding: Encoding) -> Standing | None:
        fit_speeds, fit_step = model.fit_speeds, model._fit_step

        def fit_told(
            boots: Sequence[Boot], evidence: Sequence[AcceptLengthEvidence], encoding: Encoding
        ) -> model.SpeedModel | None:
            return fit_speeds([*boots, *self._tell_blocks(boots, encoding)], evidence, encoding)

        def fit_told_step(
            boots: Sequence[Boot], axis: int, guessed: Mapping[int, tuple[float, float]], encoding: Encoding
        ) -> object:
            return fit_step([*boots, *self._tell_steps(boots, axis, encoding)], axis, guessed, encoding)

        with (
            mock.patch.object(standing, "fit_speeds", fit_told if self._blocks else fit_speeds),
            mock.patch.object(model, "_fit_step", fit_told_step if self._steps else fit_step),
        ):
            return super()._stand(history, encoding)

    def _tell_blocks(self, boots: Sequence[Boot], encoding: Encoding) -> list[Boot]:
        """Return the accept length with every smaller block as boots that measured nothing else."""
        own = {boot.row for boot in boots if boot.log_accept_length is not None and boot.log_speeds != (None, None)}
        blocks = encoding.block
        if blocks is None:
            return []
        told: dict[int, Boot] = {}
        for row in own:
            configuration = encoding.space.configurations[row]
            for block in sorted({int(each) for each in blocks if each < blocks[row]}):
                other = _find(encoding, configuration, "block", block)
                if other is None or other in own or blocks[other] >= blocks[row]:
                    continue
                log = self._log_mean(
                    encoding.space.configurations[other], accept_cells(self._surface.settings), "accept"
                )
                told[other] = Boot(-1, other, (None, None), (0.0, 0.0), log, _SURELY, is_whole=False)
        return list(told.values())

    def _tell_steps(self, boots: Sequence[Boot], axis: int, encoding: Encoding) -> list[Boot]:
        """Return step times as boots whose accept length is 1."""
        concurrency = CONCURRENCIES[axis]
        own = {boot.row for boot in boots if boot.log_speeds[axis] is not None}
        cells = [cell for cell in expected_cells(self._surface.settings) if cell.concurrency == concurrency]
        long, deviation = _BY_TOKENS[axis]
        told: dict[int, Boot] = {}
        for row in sorted(own):
            configuration = encoding.space.configurations[row]
            if not self._swept:
                told[row] = _as_boot(row, axis, self._log_mean(configuration, cells, "step"), _SURELY)
            for swept in () if encoding.is_plain[row] else SWEPT:
                budget = round((int(str(configuration["budget"])) + 1) * swept / concurrency) - 1
                other = _find(encoding, configuration, "budget", budget)
                if other is None or other in own:
                    continue
                if self._swept:
                    log = self._log_mean(configuration, [Cell(cell.context, swept) for cell in cells], "step") - long
                    told[other] = _as_boot(other, axis, log, deviation)
                else:
                    log = self._log_mean(encoding.space.configurations[other], cells, "step")
                    told[other] = _as_boot(other, axis, log, _SURELY)
        return list(told.values())

    def _log_mean(self, configuration: Configuration, cells: Sequence[Cell], what: str) -> float:
        """Return the weighted mean over cells of the log of accept length or step time."""
        settings = self._surface.settings
        total = 0.0
        for cell in cells:
            truth = self._surface.truth(configuration, cell)
            value = (truth.accept_length or 1.0) if what == "accept" else truth.step_time_s
            total += weight(cell, settings) * math.log(value)
        return total / math.fsum(weight(cell, settings) for cell in cells)


def _find(encoding: Encoding, configuration: Configuration, name: str, value: int) -> int | None:
    """Return the row with one other value; ``None`` outside the space or where it would decode plainly."""
    try:
        row = encoding.row(encoding.space.canonicalise({**configuration, name: value}))
    except SearchSpaceError:
        return None
    return None if row is None or encoding.is_plain[row] else row


def _as_boot(row: int, axis: int, log_step: float, deviation: float) -> Boot:
    """Return a step time as a boot whose accept length is 1."""
    log = math.log(CONCURRENCIES[axis]) - log_step
    return Boot(-1, row, (log, None) if axis == 0 else (None, log), (deviation, deviation), 0.0, 0.0, is_whole=False)


@dataclass(frozen=True, slots=True)
class ToldMethod(Method):
    """The grey-box model with the truth about some of what it booted.

    Attributes:
        steps: whether step times are told.
        swept: whether these are what a sweep shows.
        blocks: whether accept lengths with smaller blocks are told.
    """

    steps: bool = False
    swept: bool = False
    blocks: bool = False

    def make_sampler(self, surface: Surface, trials: int) -> Sampler:  # noqa: ARG002 - as it is asked
        """Return a sampler that is told."""
        return ToldSampler(surface, steps=self.steps, swept=self.swept, blocks=self.blocks)


_GREYBOX = SamplerSettings(name="greybox")
BOUNDS = {
    method.name: method
    for method in (
        METHODS["greybox-no-histograms"],
        METHODS["greybox"],
        ToldMethod("greybox-sweep-bound", "told step times", _GREYBOX, steps=True),
        ToldMethod("greybox-sweep", "told what a sweep shows of step times", _GREYBOX, steps=True, swept=True),
        ToldMethod("greybox-blocks-bound", "told accept lengths of smaller blocks", _GREYBOX, blocks=True),
        Method("greybox-exact-rounds", "no noise inside boots", _GREYBOX),
    )
}


def play(night: ComparedNight) -> NightScore:
    """Play a night, without noise inside boots where the method is about that."""
    exact = replace(NOISE, inside=0.0) if night.method.name == "greybox-exact-rounds" else NOISE
    version = compared_night.find_version(night.surface, NOISE)
    with mock.patch.object(compared_night, "NOISE", exact):
        score = play_night(night)
    return replace(score, key=replace(score.key, version=version))


def main() -> None:
    """Play the nights that are missing and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="file of finished nights")
    parser.add_argument("--surfaces", default="roomy,stairs,h200-large")
    parser.add_argument("--methods", default=",".join(BOUNDS))
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--processes", type=int, default=1)
    arguments = parser.parse_args()
    surfaces, names = arguments.surfaces.split(","), arguments.methods.split(",")
    nights = [
        ComparedNight(BOUNDS[name], surface, seed, arguments.trials)
        for seed in range(1, arguments.seeds + 1)
        for surface in surfaces
        for name in names
    ]
    scores = play_missing(nights, play, NightScore, arguments.out, arguments.processes)
    wanted = {night.key: None for night in nights}
    comparison = Comparison(tuple(score for key, score in scores.items() if key in wanted))
    for table in tabulate(comparison, names, ["greybox"], surfaces, [10, arguments.trials]):
        print(f"{render_markdown(table)}\n")


if __name__ == "__main__":
    main()
