"""Who can be compared: Optuna's samplers, those that decide beforehand, ours, and ours with more or less information."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Final

from autotune.errors import UserError
from autotune.sampling.base import AcceptLengthEvidence, Sampler
from autotune.sampling.choice import make_sampler
from autotune.settings import SamplerSettings
from autotune.simulation.evidence import evidence_of
from autotune.simulation.sequence import SequenceSampler, spread_grid
from autotune.simulation.surface import Surface
from autotune.simulation.withholding import Information, WithheldSampler


@dataclass(frozen=True, slots=True)
class Method:
    """One way to propose configurations.

    Attributes:
        name: as it is named on a command line.
        summary: what it is, in a few words.
        sampler: as a study file would name it; ``None`` for the grid.
        withheld: information that it does not get.
        replay_deviation: standard deviation of the common error of the accept lengths that it is given before the first
            trial; ``None`` when it is given none.
        may_stop: whether it may end a night before its trials are used up.
    """

    name: str
    summary: str
    sampler: SamplerSettings | None
    withheld: Information | None = None
    replay_deviation: float | None = None
    may_stop: bool = False

    @property
    def is_stock(self) -> bool:
        """Whether it is one of Optuna's samplers."""
        return self.sampler is not None and self.sampler.name != "greybox"

    def make_sampler(self, surface: Surface, trials: int) -> Sampler:
        """Return who proposes on a surface in a night of so many trials."""
        if self.sampler is None:
            return SequenceSampler(spread_grid(surface.space, trials))
        sampler = make_sampler(self.sampler)
        return sampler if self.withheld is None else WithheldSampler(sampler, self.withheld)

    def find_evidence(self, surface: Surface, seed: int) -> tuple[AcceptLengthEvidence, ...]:
        """Return what it is told of accept lengths beforehand."""
        if self.replay_deviation is None:
            return ()
        return evidence_of(surface, common_sd=self.replay_deviation, seed=seed)


def _gp(startup_trials: int) -> SamplerSettings:
    return SamplerSettings(name="gp", startup_trials=startup_trials)


_GREYBOX: Final = SamplerSettings(name="greybox")

METHODS: Final = {
    method.name: method
    for method in (
        Method("random", "uniform over the space", SamplerSettings(name="random")),
        Method("grid", "a coarse factorial in an order that spreads every beginning", None),
        Method("qmc", "a scrambled Sobol sequence", SamplerSettings(name="qmc")),
        Method("tpe", "Optuna's multivariate TPE", SamplerSettings(name="tpe")),
        Method("nsga2", "Optuna's NSGA-II with a population of 8", SamplerSettings(name="nsga2")),
        Method("gp-10", "Optuna's GPSampler with its own 10 random trials first", _gp(10)),
        Method("gp", "Optuna's GPSampler with 6 random trials first", _gp(6)),
        Method("greybox", "the grey-box model, from what every server tells", _GREYBOX),
        Method("greybox-stop", "may end the night when nothing is left to win", _GREYBOX, may_stop=True),
        Method("greybox-replay-1", "given accept lengths beforehand, off by 1 % together", _GREYBOX, None, 0.01),
        Method("greybox-replay-3", "given accept lengths beforehand, off by 3 % together", _GREYBOX, None, 0.03),
        Method("greybox-replay-10", "given accept lengths beforehand, off by 10 % together", _GREYBOX, None, 0.10),
        Method(
            "greybox-no-accept-length", "not told the accept length of its boots", _GREYBOX, Information.ACCEPT_LENGTH
        ),
        Method("greybox-no-pruned-cells", "not told what pruned trials measured", _GREYBOX, Information.PRUNED_CELLS),
        Method(
            "greybox-no-histograms", "not told how many tokens its steps accepted", _GREYBOX, Information.HISTOGRAMS
        ),
        Method("greybox-no-memory", "not told how much memory its boots left free", _GREYBOX, Information.FREE_MEMORY),
        Method("greybox-no-infeasibility", "not told which trials did not start", _GREYBOX, Information.INFEASIBILITY),
    )
}
"""By name, in the order of every table."""


def find_method(name: str) -> Method:
    """Return a method by its name.

    Raises:
        UserError: there is none; the nearest name is named.
    """
    if name in METHODS:
        return METHODS[name]
    near = difflib.get_close_matches(name, METHODS, n=1)
    raise UserError(
        f"there is no method {name!r}" + (f", did you mean {near[0]!r}?" if near else ""),
        hint=f"known: {', '.join(METHODS)}",
    )
