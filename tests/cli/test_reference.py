"""The generated pages name every command, option and setting."""

from __future__ import annotations

import importlib

import click
from pydantic import BaseModel

from autotune.cli import EXIT_CODES, SUMMARIES
from autotune.cli.reference import render_commands, render_settings, write_pages
from autotune.settings import StudySettings


def test_every_option_of_every_command_is_on_the_page():
    page = render_commands()
    for name in SUMMARIES:
        command = importlib.import_module(f"autotune.cli.{name}").command
        for param in command.params:
            if isinstance(param, click.Option):
                assert param.opts[0] in page, f"autotune {name} {param.opts[0]}"


def test_every_exit_code_is_on_the_page():
    page = render_commands()
    for code, meaning in EXIT_CODES.items():
        assert f"| {code} | {meaning} |" in page


def test_every_setting_is_on_the_page_with_its_meaning():
    page = render_settings()

    def check(model: type[BaseModel]) -> int:
        count = 0
        for name, field in model.model_fields.items():
            assert field.description, f"{model.__name__}.{name} has no description"
            if f"| `{field.alias or name}` |" in page:
                assert field.description.replace("|", "\\|") in page
                count += 1
        return count

    assert sum(check(model) for model in _models(StudySettings)) > 40
    for header in ("[server]", "[[benchmark.stages]]", "[[benchmark.stages.cells]]", "[evaluation.sampling]"):
        assert f"## `{header}`\n" in page
    assert "cells at concurrency 1 and at concurrency 32 are both required" in page


def _models(model: type[BaseModel]) -> set[type[BaseModel]]:
    found = {model}
    for field in model.model_fields.values():
        for kind in (field.annotation, *getattr(field.annotation, "__args__", ())):
            if isinstance(kind, type) and issubclass(kind, BaseModel) and kind not in found:
                found |= _models(kind)
    return found


def test_defaults_are_written_as_toml():
    page = render_settings()

    assert '| `command` | list of text | `["autotune", "serve"]` |' in page
    assert "| `ignore_eos` | true or false | `false` |" in page
    assert "| `port` | integer, >= 1, <= 65535 | `30110` |" in page
    assert "| `storage` | text | left out |" in page
    assert "| `baseline` | table of value | required |" in page


def test_both_pages_are_written(tmp_path):
    paths = write_pages(tmp_path)

    assert [path.name for path in paths] == ["cli.md", "settings.md"]
    assert paths[0].read_text(encoding="utf-8") == render_commands()
