"""``autotune simulate compare``: which method recommends the better configuration after so many trials?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from autotune.cli import render
from autotune.cli.campaign_options import (
    campaign_options,
    methods_option,
    output_options,
    play_missing,
    show_tables,
    surfaces_option,
)
from autotune.simulation.compared_night import ComparedNight, play_night
from autotune.simulation.comparison_tables import tabulate
from autotune.simulation.method import find_method
from autotune.simulation.night_score import NightScore
from autotune.simulation.summary import (
    Comparison,
    Mean,
    high_hypervolume_regret_of,
    own_hypervolume_regret_of,
    regret_of,
)

_BUDGETS = (10, 20, 40)
_METHODS = "random,grid,qmc,tpe,nsga2,gp-10,gp,greybox,greybox-replay-3"
_SURFACES = "roomy,tight,stairs,cliff,h200-large,h200-small"


@click.command("compare")
@surfaces_option(_SURFACES)
@methods_option(_METHODS)
@campaign_options(trials=40, seeds=20)
@output_options
def compare(
    surfaces: Sequence[str],
    methods: Sequence[str],
    trials: int,
    seeds: int,
    out: Path,
    processes: int,
    as_json: bool,
    markdown: bool,
) -> None:
    """Play the same nights with every method and say whose recommendation is closest to the truly best.

    Every night runs on the real trial loop, with pruning; those of one surface and seed share their noise. Each finished night
    is a line of FILE, and the same command again goes on where it ended. After 10, 20 and 40 trials: the regret of
    the recommended configuration (by which share of its speed the best allowed one is better, both by their true values),
    the hypervolume regret for two references, and paired differences from the best of Optuna's samplers.
    """
    chosen = [find_method(name) for name in methods]
    nights = [
        ComparedNight(method, surface, seed, trials)
        for seed in range(1, seeds + 1)
        for surface in surfaces
        for method in chosen
    ]
    versions = {night.key.surface: night.key.version for night in nights}
    scores = play_missing(nights, play_night, NightScore, out, processes)
    wanted = {(night.key.method, night.key.surface, night.key.seed) for night in nights}
    comparison = Comparison(
        tuple(
            score
            for score in scores.values()
            if (score.key.method, score.key.surface, score.key.seed) in wanted
            and score.key.version == versions[score.key.surface]
        )
    )
    budgets = [budget for budget in _BUDGETS if budget <= trials] or [trials]
    stock = [method.name for method in chosen if method.is_stock]
    if as_json:
        render.show_json([_document(comparison, method.name, surfaces, budgets) for method in chosen])
        return
    names_of_methods = [method.name for method in chosen]
    show_tables(tabulate(comparison, names_of_methods, stock, surfaces, budgets), markdown=markdown)


def _document(comparison: Comparison, method: str, surfaces: Sequence[str], budgets: Sequence[int]) -> dict[str, Any]:
    """Return every mean of one method as data."""
    places: list[str | None] = [None, *surfaces]
    return {
        "method": method,
        "proposal_s": comparison.proposing_s(method),
        "results": [
            {
                "surface": surface,
                "trials": budget,
                "regret": _mean(comparison.mean(method, regret_of, budget, surface)),
                "hypervolume_regret": _mean(comparison.mean(method, own_hypervolume_regret_of, budget, surface)),
                "hypervolume_regret_high": _mean(comparison.mean(method, high_hypervolume_regret_of, budget, surface)),
                "wasted_share": comparison.wasted_share(method, surface),
            }
            for surface in places
            for budget in budgets
        ],
    }


def _mean(mean: Mean | None) -> dict[str, Any] | None:
    return None if mean is None else {"mean": mean.value, "standard_error": mean.error, "nights": mean.count}
