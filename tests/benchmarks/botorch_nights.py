"""How does BoTorch do where Optuna's own samplers and ours are compared? By hand only: it is no dependency of this project.

::

    python -m venv --system-site-packages ENV        # of a Python that has this project installed
    ENV/bin/pip install optuna-integration botorch
    ENV/bin/python -m tests.benchmarks.botorch_nights --out nights.jsonl

Its nights go into the same file as those of ``autotune simulate compare``, which are played here too where they are
missing, so that all have the same noise.
"""

from __future__ import annotations

import argparse
import importlib
from dataclasses import dataclass
from pathlib import Path

from optuna.samplers import BaseSampler

from autotune.cli.campaign_options import play_missing
from autotune.sampling.base import History, Sampler
from autotune.sampling.stock import StockSampler
from autotune.settings import SamplerSettings
from autotune.simulation.compared_night import ComparedNight, play_night
from autotune.simulation.comparison_tables import render_markdown, tabulate
from autotune.simulation.method import METHODS, Method
from autotune.simulation.night_score import NightScore
from autotune.simulation.summary import Comparison
from autotune.simulation.surface import Surface


class BoTorchStudySampler(StockSampler):
    """BoTorch's expected hypervolume improvement, with 6 random trials first, asked as Optuna's own samplers are."""

    def _make(self, history: History, seed: int) -> BaseSampler:  # noqa: ARG002 - as it is asked
        integration = importlib.import_module("optuna_integration")  # an environment of its own has it
        made: BaseSampler = integration.BoTorchSampler(seed=seed, n_startup_trials=6)
        return made


@dataclass(frozen=True, slots=True)
class BoTorchMethod(Method):
    """BoTorch as one of the methods."""

    def make_sampler(self, surface: Surface, trials: int) -> Sampler:  # noqa: ARG002 - as it is asked
        """Return a sampler that needs optuna-integration and botorch."""
        return BoTorchStudySampler(SamplerSettings(name="gp"))


def main() -> None:
    """Play the nights that are missing and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="file of finished nights")
    parser.add_argument("--surfaces", default="roomy,h200-large")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--processes", type=int, default=2, help="nights played at once")
    arguments = parser.parse_args()
    botorch = BoTorchMethod("botorch", "BoTorch's qEHVI with 6 random trials first", SamplerSettings(name="gp"))
    methods = [botorch, METHODS["gp"], METHODS["greybox"]]
    surfaces = arguments.surfaces.split(",")
    nights = [
        ComparedNight(method, surface, seed, arguments.trials)
        for seed in range(1, arguments.seeds + 1)
        for surface in surfaces
        for method in methods
    ]
    scores = play_missing(nights, play_night, NightScore, arguments.out, arguments.processes)
    names = [method.name for method in methods]
    wanted = {night.key: None for night in nights}
    comparison = Comparison(tuple(score for key, score in scores.items() if key in wanted))
    for table in tabulate(comparison, names, ["gp", "botorch"], surfaces, [10, arguments.trials]):
        print(f"{render_markdown(table)}\n")


if __name__ == "__main__":
    main()
