"""What ``export --apply`` and ``rollback`` share on the command line: which service, what is said, how a signal ends."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import click

from autotune.apply.opening import open_site, override
from autotune.apply.site import Site
from autotune.cli import render
from autotune.clock import SystemClock
from autotune.errors import UserError
from autotune.export.wording import clean
from autotune.search_space import search_space_of
from autotune.settings import StudySettings
from autotune.tuner import open_dialect
from autotune.tuner.interruption import Interrupted, Interruption

Command = TypeVar("Command", bound=Callable[..., Any])

_SAY_EVERY_S: Final = 15.0

_OPTIONS = (
    click.option("--drain", is_flag=True, help="Restart although requests of others are in flight; they are finished."),
    click.option(
        "--host", metavar="DESTINATION", help="Machine of the service instead of the study's, as ssh takes it."
    ),
    click.option("--ssh-config", metavar="FILE", help="Read this file instead of ~/.ssh/config."),
)


def options(command: Command) -> Command:
    """Add the options that say which service is meant and how carefully it is restarted."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@contextmanager
def opened(
    settings: StudySettings, *, host: str | None, unit: str | None, ssh_config: str | None, name: str | None = None
) -> Iterator[tuple[Site, Interruption]]:
    """Open the site of a change; a signal ends it where nothing is half done, with the exit code that a shell expects."""
    if name is not None and ("/" in name or not name.endswith(".conf") or name.startswith(".")):
        raise UserError(f"{name!r} is no name of a drop-in", where="--name", hint="write for example 50-autotune.conf")
    settings = override(settings, host=host, unit=unit, ssh_config=ssh_config)
    dialect = open_dialect(settings, search_space_of(settings))
    try:
        with (
            Interruption() as interruption,
            open_site(
                settings,
                dialect,
                name=name,
                clock=SystemClock(),
                interruptible=interruption.interruptible,
                say=lambda sentence: render.say(clean(sentence)),
                on_wait=_Waiting().tell,
            ) as site,
        ):
            yield site, interruption
    except Interrupted as error:
        click.get_current_context().exit(error.exit_code)


def confirm(question: str, interruption: Interruption, *, is_agreed: bool) -> None:
    """Ask on a terminal whether to go on.

    Raises:
        UserError: nobody can be asked, or the answer is no.
        Interrupted: a signal came in place of an answer.
    """
    if is_agreed:
        return
    if not (sys.stdin.isatty() and render.is_terminal()):
        raise UserError("nobody can be asked here", hint="look at the difference above, then say --yes")
    try:
        with interruption.interruptible():
            agrees = click.confirm(question, err=True)
    except click.Abort:
        if interruption.received is not None:
            raise Interrupted(interruption.received) from None
        agrees = False
    if not agrees:
        raise UserError("nothing was changed")


def show_diff(lines: Sequence[str]) -> None:
    """Show a difference to people."""
    for line in lines:
        render.say(clean(line))


class _Waiting:
    """Says now and then how long a server has been waited for."""

    def __init__(self) -> None:
        self._said_s = 0.0

    def tell(self, answer: str, waited_s: float) -> None:
        """Be told what the server answers."""
        if waited_s < self._said_s:
            self._said_s = 0.0
        if waited_s - self._said_s >= _SAY_EVERY_S:
            self._said_s = waited_s
            render.say(f"waiting for {waited_s:.0f} s; the server says: {clean(answer)}")
