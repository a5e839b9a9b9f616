"""The pages cannot fall behind: generated ones are fresh, links resolve, every command, error and word is explained."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest
from click.testing import CliRunner

import autotune.errors
from autotune.cli import main
from autotune.cli.reference import render_commands, render_settings
from autotune.trial import TrialState, Verdict

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
COMMANDS = sorted(main.list_commands(None))  # type: ignore[arg-type]


@pytest.mark.parametrize(("page", "render"), [("cli.md", render_commands), ("settings.md", render_settings)])
def test_generated_pages_are_fresh(page, render):
    assert render() == (DOCS / page).read_text(encoding="utf-8"), "run: make docs"


def test_the_errors_page_shows_the_tree_of_the_module():
    tree = textwrap.dedent(str(autotune.errors.__doc__).split("::\n\n", 1)[1]).strip()

    assert tree in (DOCS / "errors.md").read_text(encoding="utf-8")


def test_every_error_is_in_the_tree_and_has_the_root():
    tree = str(autotune.errors.__doc__)
    for name, value in vars(autotune.errors).items():
        if isinstance(value, type) and issubclass(value, Exception):
            assert issubclass(value, autotune.errors.AutotuneError)
            assert re.search(rf"\b{name}\b", tree), f"{name} is missing from the tree"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_resolve(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_index_links_to_every_page():
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    for page in DOCS.glob("*.md"):
        assert page.name == "index.md" or f"({page.name})" in index


@pytest.mark.parametrize("record", sorted((DOCS / "decisions").glob("*.md")), ids=lambda record: record.name)
def test_a_decision_record_gives_context_decision_and_consequences(record):
    text = record.read_text(encoding="utf-8")

    assert re.match(r"[0-9]{4}-", record.name)
    for part in ("Context", "Decision", "Consequences"):
        assert part in text


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_and_stands_in_the_readme(command):
    result = CliRunner().invoke(main, [command, "--help"])

    assert result.exit_code == 0
    assert len(result.output.splitlines()) > 3
    assert f"autotune {command}" in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("word", [state.name for state in TrialState] + [verdict.value for verdict in Verdict])
def test_the_glossary_explains_every_state_and_verdict(word):
    assert word in (DOCS / "glossary.md").read_text(encoding="utf-8")


def test_the_readme_commands_exist():
    """Each ``make`` target and each option that the README names is real."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"(?m)(?:^|`)make ([a-z]+)", readme):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), f"make {target}"
    page = (DOCS / "cli.md").read_text(encoding="utf-8")
    for block in re.findall(r"```\n(.*?)```", readme, flags=re.DOTALL):
        for line in block.splitlines():
            if line.startswith("autotune serve"):
                continue  # the server's own flags are documented by its help
            if line.startswith("autotune "):
                for option in re.findall(r"(?<!\S)(--[a-z][a-z-]*)", line.split("#", 1)[0]):
                    assert option in page, f"{line}: {option}"


def test_pages_speak_of_the_project_only():
    """Nothing that a user's clone does not have is mentioned anywhere."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8").lower()
        for word in ("/root/", "/home/", "/tmp/"):
            assert word not in text, f"{page.name}: {word}"
