"""How often does a confirmation name a false winner, and how often does it find a true one? Invented nights, judged by the product.

``python -m tests.benchmarks.confirmation_power`` prints the table of ``docs/metrics.md``; ``--nights 200`` is a quick look. A night
boots the baseline three times and twenty configurations once, the product chooses its leaders
(:func:`autotune.confirmation.plan.choose_leaders`), and these and the baseline are booted again in the order of the plan until
:func:`autotune.confirmation.verdict.judge_plan` has decided. All boots of a night differ by a normal deviation of their log speed
that both concurrencies share, which is the worst case for the mean of both.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from autotune.confirmation.plan import Plan, choose_leaders, make_plan
from autotune.confirmation.verdict import judge_plan
from autotune.settings import StudySettings
from autotune.trial import TrialKind, TrialRecord
from tests.confirmation.boots import BASELINE, make_boot
from tests.records import make_settings

TRIALS: Final = 20
BASELINES: Final = 3
BOOTS: Final = (6, 10, 16)
GAINS: Final = (0.0, 0.04, 0.10)
"""Of the one better configuration; 0 is a flat surface."""

_PROMPTS: Final = 8
_FIRST: Final = 100


@dataclass(frozen=True, slots=True)
class World:
    """How boots scatter.

    Attributes:
        name: for the table.
        between: standard deviation of the log speed between boots.
        differing: of what prompts gain differently in a configuration.
        tails: degrees of freedom of Student's distribution from which boots are drawn, with that deviation; ``None``: normal.
    """

    name: str
    between: float
    differing: float = 0.0
    tails: int | None = None


WORLDS: Final = (
    World("boots differ by 5 %", 0.05),
    World("by 5 %, prompts gain differently by 5 %", 0.05, differing=0.05),
    World("by 5 %, heavy tails (t, 3)", 0.05, tails=3),
)


@dataclass(frozen=True, slots=True)
class Night:
    """What came out of one night.

    Attributes:
        is_led: the better configuration was among the leaders.
        winner: number of the confirmed trial; ``None``: no significant gain.
        boots: fresh boots that it took.
    """

    is_led: bool
    winner: int | None
    boots: int


class Lottery:
    """Draws the boots of one night."""

    def __init__(self, world: World, gain: float, rng: np.random.Generator) -> None:
        self._world = world
        self._rng = rng
        self._gains = {1: math.log1p(gain)}
        self._differing = {number: world.differing * rng.normal(size=(2, _PROMPTS)) for number in range(1, TRIALS + 1)}

    def boot(self, trial: int, number: int, kind: TrialKind) -> TrialRecord:
        """Boot a configuration, the baseline for 0."""
        world = self._world
        deviation = float(self._rng.normal() if world.tails is None else self._draw_tailed(world.tails))
        log = self._gains.get(trial, 0.0) + world.between * deviation
        cells = [log + row for row in self._differing.get(trial, np.zeros((2, _PROMPTS)))]
        configuration = BASELINE if trial == 0 else {"budget": trial, "topk": 4, "window": None}
        c32, c1 = (base * math.exp(float(np.mean(row))) for base, row in zip((400, 100), cells, strict=True))
        boot = make_boot(number, c1, c32, kind=kind, configuration=configuration, prompts=_PROMPTS)
        paired = tuple(
            replace(cell, per_prompt_log_speed={f"p{index}": float(value) for index, value in enumerate(row)})
            for cell, row in zip(boot.cells, cells, strict=True)
        )
        return replace(boot, cells=paired, evaluation=None)

    def _draw_tailed(self, degrees: int) -> float:
        return float(self._rng.standard_t(degrees)) / math.sqrt(degrees / (degrees - 2))


def play(world: World, gain: float, boots: int, rng: np.random.Generator, settings: StudySettings) -> Night:
    """Play one night: search, leaders, fresh boots until it is decided."""
    lottery = Lottery(world, gain, rng)
    trials = [lottery.boot(0, -number, TrialKind.BASELINE) for number in range(BASELINES)]
    trials += [lottery.boot(number, number, TrialKind.SEARCH) for number in range(1, TRIALS + 1)]
    leaders = choose_leaders(trials, settings, boots)
    if not leaders:
        return Night(is_led=False, winner=None, boots=0)
    return confirm(lottery, make_plan(trials, settings, leaders, boots), settings)


def confirm(lottery: Lottery, plan: Plan, settings: StudySettings) -> Night:
    """Boot by plan until it is decided; what the search has measured does not count, so it is left out."""
    trials: list[TrialRecord] = []
    while True:
        verdict = judge_plan(plan, trials, settings)
        if verdict.is_decided:
            return Night(1 in plan.leaders, verdict.recommended, verdict.boots)
        for leader in verdict.missing:
            drawn = lottery.boot(leader or 0, _FIRST + len(trials), TrialKind.CONFIRMATION)
            trials.append(replace(drawn, confirmation=plan.boot(verdict.rounds, leader)))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nights", type=int, default=200, help="of each row; four times as many on flat surfaces")
    parser.add_argument("--worlds", type=int, nargs="*", default=list(range(len(WORLDS))), help="by number, from 0")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    settings = make_settings()
    print(
        "| boots | surface | fresh boots at most | a false winner | better one led | found and confirmed | confirmed where it led | boots used |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for world in (WORLDS[index] for index in options.worlds):
        for gain in GAINS:
            for boots in BOOTS:
                rng = np.random.default_rng([options.seed, boots, round(1000 * gain)])
                nights = [
                    play(world, gain, boots, rng, settings)
                    for _night in range(options.nights * (4 if gain == 0 else 1))
                ]
                print(render_row(world, gain, boots, nights), flush=True)


def render_row(world: World, gain: float, boots: int, nights: Sequence[Night]) -> str:
    """Write one row of the table."""
    count = len(nights)
    false = sum(night.winner is not None and (gain == 0 or night.winner != 1) for night in nights) / count
    led = sum(night.is_led for night in nights)
    found = sum(night.winner == 1 for night in nights)
    surface = "flat" if gain == 0 else f"one better by {gain:.0%}"
    cells = [
        world.name,
        surface,
        str(boots),
        f"{false:.1%}",
        "" if gain == 0 else f"{led / count:.0%}",
        "" if gain == 0 else f"{found / count:.0%}",
        "" if gain == 0 or not led else f"{found / led:.0%}",
        f"{sum(night.boots for night in nights) / count:.1f}",
    ]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
