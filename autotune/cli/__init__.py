"""Which commands exist: the `autotune` group; each command's module is imported only when that command is used."""

from __future__ import annotations

import difflib
import importlib
import sys
import traceback
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from autotune import __version__
from autotune.cli import render
from autotune.errors import AutotuneError

EXIT_CODES = {
    0: "done",
    1: "something unexpected: a bug of this program, or an error that belongs to no branch below",
    2: "the command line or a file must be changed",
    3: "the machine, or the way to it, is at fault",
    4: "the server did not come up or died",
    5: "the figures cannot be trusted",
    6: "the coding evaluation cannot be trusted",
    129: "the terminal was closed; the server was put back first",
    130: "Ctrl-C; the server was put back first",
    143: "SIGTERM; the server was put back first",
}
"""What each exit code means; 2 to 6 are the branches of ``autotune/errors.py``."""

SUMMARIES = {
    "init": "Print a study for a live service, from what the service runs.",
    "doctor": "Check everything that a night needs, and change nothing.",
    "optimize": "Search for the best configuration of a server, and leave the server as it was found.",
    "confirm": "Boot the leaders of a study against its baseline again, to see whether the gain is real.",
    "status": "Show what a study has found so far; works while it runs.",
    "report": "Write one self-contained HTML page about a study.",
    "dashboard": "Browse a study in optuna-dashboard, on this machine only.",
    "export": "Print the best configuration as a systemd drop-in or as plain flags; with --apply, put it into production.",
    "rollback": "Take back the last `export --apply` of a service.",
    "restore": "Put the server back as it was found, after a command was killed.",
    "bench": "Measure how fast any server with OpenAI's chat API answers, at every context and concurrency.",
    "compare": "Say which of two saved results was faster or better, and whether that is more than noise.",
    "evaluate": "Measure how well any server with OpenAI's chat API writes code, by hidden tests in a sandbox.",
    "serve": "Run the embedded DDTree server.",
    "simulate": "Play whole nights in seconds, on surfaces whose truth is known.",
}
"""One line for each command, in the order of ``--help``; kept here so that ``--help`` imports no command."""


class Commands(click.Group):
    """A group that loads ``autotune.cli.NAME`` when NAME is called, and ends every error with a documented code."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the commands in the order of their first use, not of the alphabet."""
        return list(SUMMARIES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import one command's module and return its command; ``None`` when there is no such command."""
        if cmd_name not in SUMMARIES:
            return None
        command: click.Command = importlib.import_module(f"autotune.cli.{cmd_name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is called, or name the nearest one."""
        name = args[0]
        if name not in SUMMARIES and not name.startswith("-"):
            near = difflib.get_close_matches(name, SUMMARIES, n=1)
            ctx.fail(f"No such command {name!r}." + (f" Did you mean {near[0]!r}?" if near else ""))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list of commands from the summaries alone."""
        with formatter.section("Commands"):
            formatter.write_dl(list(SUMMARIES.items()))

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command and exit with its code; in click's other mode (for embedding) errors are passed on."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        debug = "--debug" in (sys.argv[1:] if args is None else args)
        try:
            code = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        except click.ClickException as error:
            error.show()
            sys.exit(error.exit_code)
        except click.Abort as error:
            if not isinstance(error.__cause__, KeyboardInterrupt):
                render.say("stopped")
                sys.exit(1)
            render.say("interrupted")
            sys.exit(getattr(error.__cause__, "exit_code", 130))  # what stands for another signal knows its own
        except AutotuneError as error:
            if debug:
                render.say(traceback.format_exc())
            render.show_error(error)
            sys.exit(error.exit_code)
        except Exception as error:  # noqa: BLE001 - the last line of the command line: every error ends in words
            _end_unexpected(error, debug=debug)
        sys.exit(code if isinstance(code, int) else 0)


def _end_unexpected(error: Exception, *, debug: bool) -> NoReturn:
    """Say that this program has a bug and how to report it, with the traceback only when asked for."""
    if debug:
        render.say(traceback.format_exc())
    name = type(error).__name__
    render.say(f"error: unexpected {name}: {error}" if str(error) else f"error: unexpected {name}")
    render.say("  next: run the same command as `autotune --debug ...` and report the traceback it prints")
    sys.exit(1)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.version_option(__version__, prog_name="autotune")
def main(debug: bool) -> None:
    """Find the best speculative-decoding configuration of a live LLM server, and leave the server as it was found.

    \b
    The embedded DDTree server, no GPU and no set-up:
        autotune optimize --trials 20
    A study file of your own; a list to run first; production serves again at 06:30:
        autotune optimize studies/mine.toml --try budget=16,topk=4 --until 06:30
    What came out, as a drop-in for systemd:
        autotune export > 50-autotune.conf

    \b
    Data goes to ./studies/NAME/; the same command again continues a study.
    Exit codes: 0 done, 1 unexpected, 2 wrong command or file, 3 machine, 4 server,
    5 figures, 6 coding evaluation; after a signal 129, 130 or 143.
    """  # noqa: D301 - click needs the control character itself
