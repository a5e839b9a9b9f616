"""Would a night do better by booting its leaders again than by new configurations, and whose word on them is best? By hand.

::

    python -m tests.benchmarks.replicate_bounds --out replicates.jsonl

Nights of the grey-box sampler are played as in a comparison, and what could have been recommended is looked up in the truth:

- *measured*: after all trials, by the figures of the trials themselves, as the product recommends;
- *model*: the same by the model's expectations;
- *best*: the truly best one that was measured whole, which no choice can beat;
- *again 1*, *2*, *3*: after so many trials less, whose boots went into the leaders, once each.
"""

from __future__ import annotations

import argparse
import math
import random
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev

from autotune.baseline import pool_baseline, with_one_baseline
from autotune.cli.campaign_options import play_missing
from autotune.pareto import Ranked, choose, rank
from autotune.sampling.greybox.encoding import Encoding
from autotune.sampling.greybox.standing import find_standing
from autotune.settings import SamplerSettings
from autotune.simulation.compared_night import NOISE, find_version, know
from autotune.simulation.night import simulate_night
from autotune.simulation.night_score import NightKey
from autotune.simulation.regret import find_regret, is_counted
from autotune.simulation.surface import Surface
from autotune.simulation.truth import Truth
from autotune.suggestion import read_history
from autotune.trial import TrialRecord, TrialState

MOST_AGAIN = 3
WAYS = ("measured", "model", "best", *(f"again {count}" for count in range(1, MOST_AGAIN + 1)))


@dataclass(frozen=True, slots=True)
class Choices:
    """The regret of what each way would have recommended, in the order of ``WAYS``."""

    key: NightKey
    regrets: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ChoosingNight:
    """A night to play."""

    surface: str
    seed: int
    trials: int

    @property
    def key(self) -> NightKey:
        """What its choices are kept under."""
        return NightKey("greybox-choices", self.surface, find_version(self.surface, NOISE), self.seed, self.trials)


def play(night: ChoosingNight) -> Choices:
    """Play a night and look up its choices."""
    surface, truth = know(night.surface)
    played = simulate_night(surface, SamplerSettings(name="greybox"), night.seed, night.trials, noise=NOISE)
    trials = played.view.trials
    counted = [index for index, trial in enumerate(trials) if is_counted(trial)]
    rng = random.Random(night.seed)  # noqa: S311  # chance, not secrecy
    regrets = [
        _regret(_by_figures(trials, surface), surface, truth),
        _regret(_by_model(trials, surface), surface, truth),
        min(
            _regret(surface.space.key(trial.configuration), surface, truth)
            for trial in trials
            if trial.state is TrialState.COMPLETE
        ),
    ]
    regrets += [
        _regret(_by_more_boots(trials[: counted[-count]], count, surface, truth, rng), surface, truth)
        for count in range(1, MOST_AGAIN + 1)
    ]
    return Choices(night.key, tuple(regrets))


def _regret(key: str, surface: Surface, truth: Truth) -> float:
    return find_regret(key, truth, surface.settings.export.rule)


def _by_figures(trials: tuple[TrialRecord, ...], surface: Surface) -> str:
    baseline = pool_baseline(trials, surface.settings)
    if baseline is None:
        raise ValueError("a night without a baseline")
    points = with_one_baseline(trials, surface.settings)
    return surface.space.key(choose(points, baseline, surface.settings.export).trial.configuration)


def _by_model(trials: tuple[TrialRecord, ...], surface: Surface) -> str:
    encoding = Encoding(surface.space)
    standing = find_standing(read_history(trials, surface.settings, surface.space), encoding)
    if standing is None:
        raise ValueError("a night of which nothing is known")
    return surface.space.key(surface.space.configurations[standing.recommended])


def _by_more_boots(
    trials: tuple[TrialRecord, ...], count: int, surface: Surface, truth: Truth, rng: random.Random
) -> str:
    """Boot the leaders once more, and choose by the mean of the logs of both boots."""
    baseline = pool_baseline(trials, surface.settings)
    if baseline is None:
        raise ValueError("a night without a baseline")
    ranked = rank(with_one_baseline(trials, surface.settings), baseline, surface.settings.export)
    best, merit = surface.space.key(baseline.configuration), 0.0
    for place, leader in enumerate(ranked):
        logs = _logs(leader)
        if place < count:
            point = truth.values[surface.space.key(leader.trial.configuration)].point
            shared = rng.gauss(0, NOISE.between / math.sqrt(2))
            fresh = [
                math.log(speed / base) + shared + rng.gauss(0, NOISE.between / math.sqrt(2))
                for speed, base in zip(point, truth.baseline, strict=True)
            ]
            logs = [(one + two) / 2 for one, two in zip(logs, fresh, strict=True)]
        if min(logs) >= math.log1p(-surface.settings.export.max_loss) and mean(logs) > merit:
            best, merit = surface.space.key(leader.trial.configuration), mean(logs)
    return best


def _logs(leader: Ranked) -> list[float]:
    return [math.log(ratio) for ratio in leader.ratios]


def main() -> None:
    """Play the nights that are missing and print the regrets."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="file of finished nights")
    parser.add_argument("--surfaces", default="roomy,stairs,h200-large,h200-small")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--processes", type=int, default=2, help="nights played at once")
    arguments = parser.parse_args()
    nights = [
        ChoosingNight(surface, seed, arguments.trials)
        for seed in range(1, arguments.seeds + 1)
        for surface in arguments.surfaces.split(",")
    ]
    scores = play_missing(nights, play, Choices, arguments.out, arguments.processes)
    found = [scores[night.key].regrets for night in nights]
    print("| way | nights | regret, % | minus measured |\n| --- | --- | --- | --- |")
    for index, way in enumerate(WAYS):
        values = [100 * regrets[index] for regrets in found]
        against = [100 * (regrets[index] - regrets[0]) for regrets in found]
        print(f"| {way} | {len(found)} | {_mean(values, '')} | {_mean(against, '+')} |")


def _mean(values: list[float], sign: str) -> str:
    error = stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return f"{mean(values):{sign}.1f} ± {error:.1f}"


if __name__ == "__main__":
    main()
