"""The group itself: quick help, documented endings, errors in words."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import autotune
from autotune import cli, errors
from autotune.cli import EXIT_CODES, SUMMARIES, Commands, main
from autotune.cli.render import show_error
from autotune.tuner.interruption import Interrupted


def python(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False, timeout=60)


def test_help_loads_nothing_heavy():
    done = python(
        "-c",
        "import sys; from autotune.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules}))",
    )

    loaded = done.stdout.rsplit("\n[", 1)[1]
    heavy = ["torch", "optuna", "numpy", "scipy", "pydantic", "sqlalchemy", "plotly", "rich", "httpx", "jinja2"]
    assert [name for name in heavy if f"'{name}'" in loaded] == []


def test_help_takes_less_than_half_a_second_of_processor_time():
    """Processor time, because other work on the machine must not decide this."""

    def seconds() -> float:
        before = os.times()
        done = python("-m", "autotune", "--help")
        assert done.returncode == 0
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    assert min(seconds() for _ in range(3)) < 0.5


def test_help_shows_three_commands_that_exist():
    text = CliRunner().invoke(main, ["--help"]).output

    examples = [line.split() for line in text.splitlines() if line.startswith("      autotune ")]
    assert len(examples) == 3
    assert {words[1] for words in examples} <= set(SUMMARIES)


@pytest.mark.parametrize("name", SUMMARIES)
def test_each_command_says_what_it_does_in_the_words_of_the_overview(name):
    command = importlib.import_module(f"autotune.cli.{name}").command

    assert command.name == name
    assert command.help.startswith(f"{SUMMARIES[name]}\n")


@pytest.mark.parametrize("name", SUMMARIES)
def test_each_option_has_a_help_text(name):
    command = importlib.import_module(f"autotune.cli.{name}").command

    silent = [param.name for param in command.params if isinstance(param, click.Option) and not param.help]
    assert silent == []


def test_version_is_that_of_the_package():
    assert CliRunner().invoke(main, ["--version"]).output == f"autotune, version {autotune.__version__}\n"


def test_an_unknown_command_ends_with_2():
    result = CliRunner().invoke(main, ["optimise"])

    assert result.exit_code == 2
    assert "No such command 'optimise'. Did you mean 'optimize'?" in result.output


def ending_with(error: BaseException, *words: str):
    """Run a command that raises."""

    @click.group(cls=Commands)
    @click.option("--debug", is_flag=True)
    def group(debug):
        raise error

    return CliRunner().invoke(group, [*words, "status"])


ERRORS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.AutotuneError)]


@pytest.mark.parametrize("kind", ERRORS)
def test_every_error_ends_with_the_documented_code_of_its_branch(kind):
    result = ending_with(kind("it broke", where="studies/x.toml", hint="mend it"))

    assert result.exit_code == kind.exit_code
    assert kind.exit_code in EXIT_CODES
    assert result.stderr == "error: it broke\n  where: studies/x.toml\n  next:  mend it\n"
    assert result.stdout == ""


def test_a_server_error_shows_the_end_of_the_log_without_its_escape_sequences():
    lines = (*tuple(f"line {index}" for index in range(20)), "\x1b[31mCUDA out of memory\x07")
    result = ending_with(errors.OutOfMemory("memory ran out", log_lines=lines))

    assert result.exit_code == 4
    assert "\x1b" not in result.stderr
    assert "    \\x1b[31mCUDA out of memory\\x07\n" in result.stderr
    assert "line 13\n" in result.stderr
    assert "line 12\n" not in result.stderr


def test_an_error_shows_no_secret_of_a_command_or_a_log(capsys):
    line = "source a; python -m sglang --api-key sk-1 --port 1"
    log = ("server_args={'api_key': 'sk-1', 'port': 1}",)

    show_error(errors.ServerCrashed("it ended", where=line, log_lines=log))

    said = capsys.readouterr().err
    assert "sk-1" not in said
    assert "--api-key (hidden) --port 1" in said
    assert "{'api_key': (hidden), 'port': 1}" in said


def test_an_unexpected_error_is_one_line_and_how_to_report_it():
    result = ending_with(ZeroDivisionError("division by zero"))

    assert result.exit_code == 1
    assert result.stderr == (
        "error: unexpected ZeroDivisionError: division by zero\n"
        "  next: run the same command as `autotune --debug ...` and report the traceback it prints\n"
    )


@pytest.mark.parametrize("error", [ZeroDivisionError("x"), errors.SettingsError("x")])
def test_debug_shows_the_traceback(error):
    assert "Traceback (most recent call last)" in ending_with(error, "--debug").stderr


@pytest.mark.parametrize(
    ("signal", "code"),
    [(KeyboardInterrupt(), 130), (Interrupted(15), 143), (Interrupted(1), 129)],
    ids=["Ctrl-C", "SIGTERM", "SIGHUP"],
)
def test_a_signal_ends_with_its_own_code(signal, code):
    result = ending_with(signal)

    assert result.exit_code == code
    assert "interrupted" in result.stderr


def test_the_help_names_every_exit_code():
    text = CliRunner().invoke(main, ["--help"]).output

    assert [code for code in EXIT_CODES if not re.search(rf"\b{code}\b", text)] == []


def test_python_dash_m_is_the_same_program():
    done = python("-m", "autotune", "--version")

    assert done.stdout == f"autotune, version {autotune.__version__}\n"


def test_no_module_of_the_command_line_prints_beside_render():
    offenders = [
        path.name
        for path in Path(cli.__file__).parent.glob("*.py")
        if path.name not in {"render.py", "serve.py"}
        and re.search(r"(?<![.\w])print\(|click\.echo|sys\.std(out|err)", path.read_text(encoding="utf-8"))
    ]

    assert offenders == []
