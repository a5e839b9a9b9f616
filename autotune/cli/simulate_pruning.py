"""``autotune simulate pruning``: how much measuring does pruning save, and what does it lose?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from autotune.cli import render
from autotune.cli.campaign_options import campaign_options, output_options, play_missing, show_tables, surfaces_option
from autotune.simulation.comparison_tables import Table
from autotune.simulation.pruned_night import (
    TOLERANCE,
    DrawnNight,
    PruningScore,
    PruningSummary,
    play_drawn_night,
    summarise,
)

_SURFACES = "roomy,tight,stairs,h200-large,h200-small"


@click.command("pruning")
@surfaces_option(_SURFACES)
@campaign_options(trials=20, seeds=200)
@output_options
def pruning(
    surfaces: Sequence[str],
    trials: int,
    seeds: int,
    out: Path,
    processes: int,
    as_json: bool,
    markdown: bool,
) -> None:
    """Play nights whose trials are drawn beforehand, measure everything, and say what pruning would have done to them.

    Of the measuring time of trials that an earlier one truly beats at both concurrencies: how much pruning saves. Of the
    nights: in how many every pruned trial is as good as matched, within 3 %, by one that was kept.
    """
    nights = [DrawnNight(surface, seed, trials) for seed in range(1, seeds + 1) for surface in surfaces]
    scores = play_missing(nights, play_drawn_night, PruningScore, out, processes)
    wanted = {night.key for night in nights}
    found = [score for key, score in scores.items() if key in wanted]
    groups = [(surface, [score for score in found if score.key.surface == surface]) for surface in surfaces]
    summaries = [(name, summarise(group)) for name, group in [*groups, ("all", found)] if group]
    if as_json:
        render.show_json([{"surface": name, **asdict(summary)} for name, summary in summaries])
        return
    show_tables([_tabulate(summaries)], markdown=markdown)


def _tabulate(summaries: Sequence[tuple[str, PruningSummary]]) -> Table:
    return Table(
        "What pruning does to nights whose trials were drawn beforehand",
        (
            "surface",
            "nights",
            "pruned a night",
            "measuring of beaten trials saved",
            "of clearly beaten ones",
            "night without",
            "night with",
            f"nights with nothing lost beyond {TOLERANCE:.0%}",
        ),
        tuple(
            (
                name,
                str(summary.nights),
                f"{summary.pruned:.1f}",
                _share(summary.dominated_saved),
                _share(summary.clearly_saved),
                f"{summary.night_s / 3600:.2f} h",
                f"{summary.pruned_night_s / 3600:.2f} h",
                f"{summary.nights - summary.lost_nights} of {summary.nights}",
            )
            for name, summary in summaries
        ),
    )


def _share(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f} %"
