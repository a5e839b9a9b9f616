"""How does a command line say which server is asked, how its answers are sampled, and that it may be? For bench and evaluate."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import click

from autotune.api_key import ApiKey, read_api_key
from autotune.benchmark.standalone import Endpoint
from autotune.cli import render
from autotune.cli.finite_range import FiniteRange
from autotune.deployment.process import find_listener, read_environment
from autotune.errors import HostError, SettingsError
from autotune.export.wording import clean
from autotune.measuring_mark import Work, find_workers
from autotune.servers.simulated_acceptance import find_simulation

Command = TypeVar("Command", bound=Callable[..., Any])

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OPTIONS: Final = (
    click.option("--model", metavar="NAME", help="Model to ask for; default: the first one that the server lists."),
    click.option(
        "--api-key-variable",
        metavar="NAME",
        help="Environment variable that holds the API key; the key is never shown.",
    ),
    click.option(
        "--temperature",
        type=FiniteRange(min=0),
        default=0.0,
        show_default=True,
        help="0 is greedy; use production's.",
    ),
    click.option(
        "--top-p",
        type=FiniteRange(min=0, max=1, min_open=True),
        default=1.0,
        show_default=True,
        help="Nucleus of the distribution; 1 is all of it.",
    ),
    click.option(
        "--thinking/--no-thinking",
        "thinking",
        default=None,
        help="Ask a model that can think to do so, or not to; default: say nothing of it.",
    ),
)


def endpoint_options(command: Command) -> Command:
    """Add the options that give ``model``, ``api_key_variable``, ``temperature``, ``top_p`` and ``thinking``."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def read_key(variable: str | None) -> ApiKey | None:
    """Read the API key from the variable that ``--api-key-variable`` names.

    Raises:
        SettingsError: it holds none, or that is no name of a variable.
    """
    if variable is not None and not _VARIABLE.fullmatch(variable):  # it may be the key itself
        raise SettingsError(
            "what is given is no name of an environment variable, and is not repeated here",
            where="--api-key-variable",
            hint="export the key, for example as OPENAI_API_KEY, and give this name",
        )
    try:
        return read_api_key(variable)
    except SettingsError as error:
        raise SettingsError(error.message, where="--api-key-variable", hint=error.hint) from error


def refuse_simulation(url: str) -> None:
    """See whether a server on this machine invents its accept lengths, where its environment may be read.

    Raises:
        HostError: it does.
    """
    parts = urlsplit(url)
    if parts.hostname not in ("localhost", "127.0.0.1", "::1"):
        return
    listener = find_listener(parts.hostname, parts.port or (443 if parts.scheme == "https" else 80))
    environment = None if listener is None or listener.pid is None else read_environment(listener.pid)
    simulation = find_simulation(environment or {})
    if simulation is not None:
        raise HostError(
            f"the server runs with {simulation}, so it invents its accept lengths",
            where=url,
            hint="start it without this variable: nothing measured with it would be true",
        )


def say_endpoint(endpoint: Endpoint, work: Work) -> None:
    """Say what answered and what is sent to it, and name a process that does the same work on this machine."""
    model, version = (clean(" ".join(text.split())) for text in (endpoint.model, endpoint.version or "unknown"))
    render.say(f"{model} at {endpoint.url}, version {version}; requests use {endpoint.fields.description}")
    company = find_workers(work)
    if company:
        render.say(
            f"process {company[0]} of autotune {work.value} on this machine too: what it takes of it is in the figures"
        )
