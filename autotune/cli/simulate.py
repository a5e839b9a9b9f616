"""``autotune simulate``: whole nights in seconds, on surfaces whose truth is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import click

from autotune.cli import render
from autotune.cli.simulate_compare import compare
from autotune.cli.simulate_proposals import proposals
from autotune.cli.simulate_pruning import pruning
from autotune.cli.simulate_winners import winners
from autotune.cli.status import render_summary
from autotune.export.document import study_document
from autotune.export.findings import Findings, find
from autotune.export.wording import clean, render_count, render_duration, render_percent
from autotune.settings import SamplerSettings
from autotune.simulation.catalogue import SURFACES, open_surface
from autotune.simulation.faults import FaultSettings
from autotune.simulation.night import SimulatedNight, simulate_night
from autotune.simulation.noise import NoiseSettings
from autotune.simulation.regret import find_hypervolume_regrets, find_regret
from autotune.simulation.surface import Surface
from autotune.simulation.truth import Truth, find_truth
from autotune.trial import TrialState

_SAMPLERS = get_args(SamplerSettings.model_fields["name"].annotation)


@click.group("simulate")
def command() -> None:
    """Play whole nights in seconds, on surfaces whose truth is known.

    The study and the trial loop are the real ones; the server, its machine and the time that passes are imaginary.
    """


@command.command("surfaces")
@click.option("--json", "as_json", is_flag=True, help="Print data instead of text.")
def surfaces(as_json: bool) -> None:
    """List the surfaces: what is special about each, and what is truly best there."""
    found = [(surface := open_surface(name), find_truth(surface)) for name in SURFACES]
    if as_json:
        render.show_json([_surface_document(surface, truth) for surface, truth in found])
        return
    render.show_table(
        ("surface", "configurations", "truly best", "C=1", "C=32", "what is special"),
        [
            (
                surface.name,
                str(surface.space.size),
                truth.best,
                *(_percent(gain) for gain in _true_gains(truth, truth.best)),
                surface.summary,
            )
            for surface, truth in found
        ],
    )


@command.command("night")
@click.argument("surface", metavar="SURFACE")
@click.option(
    "--trials", type=click.IntRange(min=0), default=20, show_default=True, metavar="N", help="As of optimize."
)
@click.option("--sampler", type=click.Choice(_SAMPLERS), default="greybox", show_default=True, help="Who proposes.")
@click.option(
    "--startup-trials",
    type=click.IntRange(min=1),
    default=SamplerSettings().startup_trials,
    show_default=True,
    metavar="N",
    help="Trials drawn at random before the model of the sampler is used.",
)
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, metavar="N", help="Of all chance.")
@click.option(
    "--between-boots",
    type=click.FloatRange(min=0, max=1),
    default=NoiseSettings().between,
    show_default=True,
    metavar="SHARE",
    help="Standard deviation of the speed between boots of one configuration.",
)
@click.option(
    "--faults",
    type=click.FloatRange(min=0, max=0.33),
    default=0.0,
    show_default=True,
    metavar="SHARE",
    help="Share of boots that hang, share whose server dies in a cell, and share in which the connection breaks.",
)
@click.option("--no-pruning", is_flag=True, help="Measure every trial to its end.")
@click.option(
    "--study-directory",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Keep the study there, for status and report; the same command again continues it. Default: kept nowhere.",
)
@click.option("--json", "as_json", is_flag=True, help="Print data instead of text.")
def night(
    surface: str,
    trials: int,
    sampler: str,
    startup_trials: int,
    seed: int,
    between_boots: float,
    faults: float,
    no_pruning: bool,
    study_directory: Path | None,
    as_json: bool,
) -> None:
    """Play a night on SURFACE and show what `autotune optimize` would show at its end, and how far that is from the truth.

    `autotune simulate surfaces` lists the surfaces. The same seed gives the same night.
    """
    machine = open_surface(surface)
    played = simulate_night(
        machine,
        SamplerSettings.model_validate({"name": sampler, "startup_trials": startup_trials}),
        seed,
        trials,
        noise=NoiseSettings(between=between_boots),
        faults=FaultSettings(faults, faults, faults),
        pruning=not no_pruning,
        directory=study_directory,
    )
    findings = find(played.view)
    truth = find_truth(machine)
    if as_json:
        place = None if study_directory is None else str(study_directory)
        render.show_json(_night_document(machine, played, findings, truth, place))
        return
    for line in _render_night(machine, played, findings, truth):
        render.show(clean(line))


for _campaign in (compare, proposals, pruning, winners):
    command.add_command(_campaign)


def _render_night(surface: Surface, played: SimulatedNight, findings: Findings, truth: Truth) -> list[str]:
    """Say what the study says of itself, then how true that is."""
    states = findings.states
    lines = [
        f"Night on {surface.name}: {surface.summary}",
        *render_summary(played.view, findings, Path())[1:],
        f"  ended:       {played.reason}",
        (
            f"  pruned:      {render_count(states[TrialState.PRUNED], 'trial')}; "
            f"{states[TrialState.INFEASIBLE]} infeasible, {states[TrialState.FAILED]} failed"
        ),
        f"  simulated:   {render_duration(played.duration_s)}; the sampler thought for {render_duration(played.sampling_s)}",
        *(f"  fault:       {fault}; the same command went on" for fault in played.faults),
        f"  truly best:  {_describe(surface, truth, truth.best)}",
    ]
    chosen = _recommended(surface, findings)
    regret = find_regret(chosen, truth, surface.settings.export.rule)
    kept = " and loses more than the study allows" if truth.values[chosen].excess > 0 else ""
    lines += [
        f"  recommended: {_describe(surface, truth, chosen)}{kept}",
        (
            f"  regret:      {render_percent(regret)} of speed by the rule {surface.settings.export.rule!r}; the front found "
            f"leaves out {render_percent(_hypervolume_regret(surface, findings, truth))} of the true front's hypervolume"
        ),
    ]
    return lines


def _recommended(surface: Surface, findings: Findings) -> str:
    """Return the key of what would be exported; the baseline while nothing is known."""
    if findings.choice is None:
        return surface.space.key(surface.space.resolve(surface.settings.baseline))
    return surface.space.key(findings.choice.trial.configuration)


def _hypervolume_regret(surface: Surface, findings: Findings, truth: Truth) -> float:
    keys = [surface.space.key(trial.configuration) for point in findings.front for trial in point.trials]
    return find_hypervolume_regrets(keys, truth)[0]


def _true_gains(truth: Truth, key: str) -> tuple[float, float]:
    """Return by which share a configuration is truly faster than the baseline, at C=1 and at C=32."""
    point = truth.values[key].point
    return point[0] / truth.baseline[0] - 1, point[1] / truth.baseline[1] - 1


def _describe(surface: Surface, truth: Truth, key: str) -> str:
    c1, c32 = _true_gains(truth, key)
    return (
        f"{surface.space.describe(surface.space.parse(key))}: truly {_percent(c1)} at C=1 and {_percent(c32)} at C=32 "
        "against the baseline"
    )


def _percent(gain: float) -> str:
    return f"{100 * gain:+.1f}%"


def _surface_document(surface: Surface, truth: Truth) -> dict[str, Any]:
    return {
        "surface": surface.name,
        "summary": surface.summary,
        "configurations": surface.space.size,
        "obstructed": sum(surface.find_obstacle(item) is not None for item in surface.space.configurations),
        "baseline": _configuration_document(
            surface, truth, surface.space.key(surface.space.resolve(surface.settings.baseline))
        ),
        "best": _configuration_document(surface, truth, truth.best),
        "version": truth.version,
    }


def _night_document(
    surface: Surface, played: SimulatedNight, findings: Findings, truth: Truth, place: str | None
) -> dict[str, Any]:
    chosen = _recommended(surface, findings)
    return {
        **study_document(played.view, findings, place or ""),
        "directory": place,
        "surface": surface.name,
        "sampler": played.view.settings.sampler.name,
        "seed": played.view.settings.seed,
        "ended": played.reason,
        "simulated_s": played.duration_s,
        "sampling_s": played.sampling_s,
        "commands": played.commands,
        "faults": list(played.faults),
        "truth": {
            "best": _configuration_document(surface, truth, truth.best),
            "recommended": _configuration_document(surface, truth, chosen),
            "regret": find_regret(chosen, truth, surface.settings.export.rule),
            "hypervolume_regret": _hypervolume_regret(surface, findings, truth),
        },
    }


def _configuration_document(surface: Surface, truth: Truth, key: str) -> dict[str, Any]:
    value = truth.values[key]
    return {
        "configuration": dict(surface.space.parse(key)),
        "tokens_per_s_c1": value.point[0],
        "tokens_per_s_c32": value.point[1],
        "excess_loss": value.excess,
    }
