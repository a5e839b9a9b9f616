"""``autotune simulate winners``: how often is a winner named where there is none, and found where there is one?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

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
from autotune.pass_rate import wilson_interval
from autotune.settings import FEWEST_CONFIRMATION_BOOTS
from autotune.simulation.comparison_tables import Table
from autotune.simulation.method import find_method
from autotune.simulation.noise import NoiseSettings
from autotune.simulation.winner_night import (
    WinnerNight,
    WinnerScore,
    WinnerSummary,
    play_winner_night,
    summarise_winners,
)

_SURFACES = "flat,peak-4,peak-10"
_METHODS = "gp,greybox"


def _enough_boots(_context: click.Context, parameter: click.Parameter, boots: int) -> int:
    """Refuse a confirmation that could decide nothing."""
    if 0 < boots < FEWEST_CONFIRMATION_BOOTS:
        raise click.BadParameter(
            f"{boots} boots decide nothing: 0, or at least {FEWEST_CONFIRMATION_BOOTS}", param=parameter
        )
    return boots


@click.command("winners")
@surfaces_option(_SURFACES)
@methods_option(_METHODS)
@click.option(
    "--between-boots",
    type=click.FloatRange(min=0, max=1),
    default=0.05,
    show_default=True,
    metavar="SHARE",
    help="Standard deviation of the speed between boots of one configuration.",
)
@click.option(
    "--confirm-boots",
    type=click.IntRange(min=0),
    default=6,
    show_default=True,
    callback=_enough_boots,
    metavar="N",
    help="Boots of the confirmation at most, after the search; 0 for none, else at least 4.",
)
@campaign_options(trials=20, seeds=200)
@output_options
def winners(
    surfaces: Sequence[str],
    methods: Sequence[str],
    trials: int,
    between_boots: float,
    confirm_boots: int,
    seeds: int,
    out: Path,
    processes: int,
    as_json: bool,
    markdown: bool,
) -> None:
    """Play nights with a confirmation at their end and compare what they claim with the truth.

    On a flat surface every gain that a study calls proven or confirmed is a false winner. On a surface with one better
    family: in how many nights the search recommends something that truly has at least half of the gain, and in how many a
    true gain is confirmed. Shares have Wilson's 95 % interval.
    """
    chosen = [find_method(name) for name in methods]
    noise = NoiseSettings(between=between_boots)
    nights = [
        WinnerNight(method, surface, seed, trials, noise, confirm_boots)
        for seed in range(1, seeds + 1)
        for surface in surfaces
        for method in chosen
    ]
    scores = play_missing(nights, play_winner_night, WinnerScore, out, processes)
    wanted = {night.key for night in nights}
    found = [score for key, score in scores.items() if key in wanted]
    summaries = [
        (surface, method.name, summarise_winners(group))
        for surface in surfaces
        for method in chosen
        if (group := [each for each in found if (each.key.surface, each.key.method) == (surface, method.name)])
    ]
    if as_json:
        render.show_json(
            [{"surface": surface, "method": method, **asdict(each)} for surface, method, each in summaries]
        )
        return
    show_tables([_tabulate(summaries, between_boots, confirm_boots)], markdown=markdown)


def _tabulate(summaries: Sequence[tuple[str, str, WinnerSummary]], between_boots: float, confirm_boots: int) -> Table:
    return Table(
        f"What nights claim; boots of one configuration differ by {between_boots:.0%}, confirmations take {confirm_boots} boots "
        "at most",
        (
            "surface",
            "method",
            "nights",
            "other than the baseline",
            "found",
            "proven by the search",
            "falsely proven",
            "confirmed",
            "falsely confirmed",
            "boots",
        ),
        tuple(
            (
                surface,
                method,
                str(each.nights),
                _share(each.named, each.nights),
                _share(each.found, each.nights),
                _share(each.proven, each.nights),
                _share(each.false_proven, each.nights),
                _share(each.confirmed, each.nights),
                _share(each.false_confirmed, each.nights),
                "-" if each.boots is None else f"{each.boots:.1f}",
            )
            for surface, method, each in summaries
        ),
    )


def _share(count: int, nights: int) -> str:
    """Write a share of all nights with its interval.

    >>> _share(8, 10)
    '80 % (49 to 94)'
    """
    low, high = wilson_interval(count, nights)
    return f"{100 * count / nights:.0f} % ({100 * low:.0f} to {100 * high:.0f})"
