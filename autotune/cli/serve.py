"""`autotune serve`: run the embedded DDTree server with SGLang's flags."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import click

from autotune.ddtree.flags import FLAGS, Flag, choose_paths, resolve_flags
from autotune.ddtree.model_sizes import packaged_weights, read_sizes


def _add_option(function: Callable[..., Any], flag: Flag) -> Callable[..., Any]:
    """Declare one flag of the table as a click option; nothing is required and nothing has a default here."""
    if flag.kind is bool:
        option = click.option(*flag.names, flag.key, is_flag=True, default=False, help=flag.help)
    else:
        kind = click.Choice(flag.choices) if flag.choices else flag.kind
        option = click.option(*flag.names, flag.key, type=kind, default=None, help=flag.help)
    return option(function)


def _serve(**given: Any) -> None:
    """Run the embedded DDTree server.

    Decodes plainly, or with draft trees under --speculative-algorithm DDTREE. Flags, endpoints, log lines and start-up
    phases are SGLang's; SGLANG_DDTREE_MAX_TOPK sets the tokens kept per drafted position (6).
    """
    paths = choose_paths(given, str(packaged_weights()))
    try:
        flags = resolve_flags(given, os.environ, paths, read_sizes(*paths))
    except ValueError as error:
        click.echo(f"ValueError: {error}", err=True)
        sys.exit(1)
    from autotune.ddtree.server import run_server  # noqa: PLC0415 - a refused argument ends before this is loaded

    sys.exit(run_server(flags))


for _flag in reversed(FLAGS):
    _serve = _add_option(_serve, _flag)

command = click.command("serve")(_serve)
