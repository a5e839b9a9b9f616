"""``autotune simulate proposals``: how long does a proposal take after so many trials?"""

from __future__ import annotations

from collections.abc import Sequence

import click

from autotune.cli import render
from autotune.cli.campaign_options import methods_option, output_options, show_tables
from autotune.cli.option_values import checked, parse_counts
from autotune.simulation.catalogue import open_surface
from autotune.simulation.comparison_tables import Table
from autotune.simulation.method import find_method
from autotune.simulation.proposal_time import draw_study, time_proposals

_METHODS = "random,qmc,tpe,nsga2,gp,greybox,greybox-replay-3"


@click.command("proposals")
@methods_option(_METHODS)
@click.option("--surface", default="roomy", show_default=True, metavar="NAME", help="Whose study is looked at.")
@click.option(
    "--after",
    default="20,100,300",
    show_default=True,
    callback=checked(parse_counts),
    metavar="COUNTS",
    help="Trials that the study has.",
)
@output_options
def proposals(methods: Sequence[str], surface: str, after: Sequence[int], as_json: bool, markdown: bool) -> None:
    """Say how much processor time a proposal takes after so many trials.

    The study is simulated, its trials drawn at random and all measured to their end. Each figure is the median of three
    proposals, each of a sampler that is made anew.
    """
    chosen = [find_method(name) for name in methods]
    machine = open_surface(surface)
    study = draw_study(machine, max(after))
    times = [(method, time_proposals(method, machine, study, after)) for method in chosen]
    if as_json:
        render.show_json(
            [
                {"method": method.name, "trials": count, "processor_s": seconds}
                for method, found in times
                for count, seconds in zip(after, found, strict=True)
            ]
        )
        return
    table = Table(
        f"Processor time of one proposal on {surface}, by the trials of the study",
        ("method", *map(str, after)),
        tuple((method.name, *(f"{seconds:.2g} s" for seconds in found)) for method, found in times),
    )
    show_tables([table], markdown=markdown)
