"""How does a command line say when a night ends? The options that ``optimize`` takes and ``doctor`` examines."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final, TypeVar

import click

from autotune.cli.option_values import checked, parse_clock, parse_duration
from autotune.tuner.limits import Limits

Command = TypeVar("Command", bound=Callable[..., Any])

DEFAULT_TRIALS: Final = 20

_TRIALS: Final = click.option(
    "--trials",
    type=click.IntRange(min=0),
    metavar="N",
    help="End when the study has this many complete, pruned or infeasible trials, baseline not counted; 0 boots only "
    f"what is listed. Default: {DEFAULT_TRIALS}, or no limit where --for or --until is given.",
)
_TIMES: Final = (
    click.option(
        "--for",
        "duration_s",
        callback=checked(parse_duration),
        metavar="TIME",
        help="End after this time, putting the host back included: 90s, 20m, 8h, 1h30m.",
    ),
    click.option(
        "--until",
        callback=checked(lambda text: parse_clock(text, datetime.now())),  # noqa: DTZ005 - the clock on the wall
        metavar="HH:MM",
        help="Serve the baseline again, checked by a generation, at this time of day.",
    ),
)


def limit_options(command: Command) -> Command:
    """Add the three options, which give the arguments ``trials``, ``duration_s`` and ``until``."""
    return _TRIALS(time_options(command))


def time_options(command: Command) -> Command:
    """Add those that limit the time, which give the arguments ``duration_s`` and ``until``."""
    for option in reversed(_TIMES):
        command = option(command)
    return command


def choose_limits(trials: int | None, duration_s: float | None, until: datetime | None) -> Limits:
    """Return the limits that were said, or the usual number of trials where none was."""
    if trials is None and duration_s is None and until is None:
        trials = DEFAULT_TRIALS
    return Limits(trials=trials, duration_s=duration_s, until=until)
