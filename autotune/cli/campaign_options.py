"""What do all campaigns of simulated nights share: how many, where they are kept, and what is shown meanwhile?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import click

from autotune.cli import render
from autotune.cli.evaluate_progress import EvaluateProgress
from autotune.simulation.campaign import work_off
from autotune.simulation.catalogue import SURFACES
from autotune.simulation.comparison_tables import Table, render_markdown
from autotune.simulation.method import METHODS
from autotune.simulation.night_score import Keyed, NightKey, ScoreFile

Command = TypeVar("Command", bound=Callable[..., Any])
Score = TypeVar("Score", bound=Keyed)


class Night(Protocol):
    """A night that can be played."""

    @property
    def key(self) -> NightKey:
        """What its score is kept under."""
        ...


AnyNight = TypeVar("AnyNight", bound=Night)


def surfaces_option(default: str) -> Callable[[Command], Command]:
    """Add the option that gives the argument ``surfaces``."""
    return _names_option("--surfaces", default, f"Where. Known: {', '.join(SURFACES)}.")


def methods_option(default: str) -> Callable[[Command], Command]:
    """Add the option that gives the argument ``methods``."""
    return _names_option("--methods", default, f"Who. Known: {', '.join(METHODS)}.")


def _names_option(name: str, default: str, text: str) -> Callable[[Command], Command]:
    return click.option(name, default=default, callback=names, metavar="NAMES", help=f"{text} Default: {default}.")


def campaign_options(*, trials: int, seeds: int) -> Callable[[Command], Command]:
    """Add the options of a campaign, which give the arguments ``trials``, ``seeds``, ``out`` and ``processes``."""
    options = (
        click.option(
            "--trials",
            type=click.IntRange(min=1),
            default=trials,
            show_default=True,
            help="Counted trials of a night.",
        ),
        click.option(
            "--seeds",
            type=click.IntRange(min=1),
            default=seeds,
            show_default=True,
            metavar="N",
            help="Play each night with the seeds 1 to N.",
        ),
        click.option(
            "--out",
            type=click.Path(path_type=Path, dir_okay=False),
            required=True,
            metavar="FILE",
            help="Where finished nights are kept, a line of JSON each; nights that are in it are not played again.",
        ),
        click.option(
            "--processes",
            type=click.IntRange(min=1),
            default=2,
            show_default=True,
            metavar="N",
            help="Nights played at once.",
        ),
    )

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def output_options(command: Command) -> Command:
    """Add the options that give the arguments ``as_json`` and ``markdown``."""
    as_json = click.option("--json", "as_json", is_flag=True, help="Print data instead of tables.")
    return as_json(click.option("--markdown", is_flag=True, help="Print the tables for a page.")(command))


def show_tables(tables: Iterable[Table], *, markdown: bool) -> None:
    """Print tables, one below the other."""
    for table in tables:
        if markdown:
            render.show(f"{render_markdown(table)}\n")
        else:
            render.show(f"{table.title}:")
            render.show_table(table.headers, table.rows)
            render.show("")


def names(_context: click.Context, parameter: click.Parameter, value: str) -> tuple[str, ...]:
    """Read a list of names, each once.

    Raises:
        click.BadParameter: it is empty.
    """
    found = tuple(dict.fromkeys(name.strip() for name in value.split(",") if name.strip()))
    if not found:
        raise click.BadParameter("name at least one", param=parameter)
    return found


def play_missing(
    nights: Sequence[AnyNight], play: Callable[[AnyNight], Score], kind: type[Score], out: Path, processes: int
) -> Mapping[NightKey, Score]:
    """Play the nights that the file does not hold, and return everything it holds then.

    A night of more trials answers for a shorter one of the same seed: its beginning is the same.

    Raises:
        HostBusyError: another campaign writes the file.
        UserError: it cannot be written, or holds nights of another kind.
    """
    with ScoreFile(out, kind) as file:
        longest: dict[tuple[str, str, str, int], int] = {}
        for key in file.scores:
            same = (key.method, key.surface, key.version, key.seed)
            longest[same] = max(longest.get(same, 0), key.trials)
        missing = [
            night
            for night in nights
            if longest.get((night.key.method, night.key.surface, night.key.version, night.key.seed), 0)
            < night.key.trials
        ]
        if len(missing) < len(nights):
            render.say(f"{len(nights) - len(missing)} of {len(nights)} nights are in {out} already")
        with EvaluateProgress("playing", is_live=render.is_terminal()) as progress:
            work_off(
                missing,
                play,
                processes=processes,
                keep=file.append,
                observer=lambda done: progress.take("nights", done, len(missing)),
            )
        return file.scores
