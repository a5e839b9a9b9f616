"""What a study file may say, and how what it may not say is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from autotune.errors import SettingsError
from autotune.search_space import search_space_of
from autotune.settings import load_settings, parse_settings
from autotune.settings_difference import dump_settings, find_differences, load_settings_dump
from tests.records import STUDY


def with_line(section: str, line: str) -> str:
    """The small study with one more line in a table."""
    table = f"[{section}]"
    return STUDY.replace(table, f"{table}\n{line}") if table in STUDY else f"{STUDY}\n{table}\n{line}\n"


@pytest.mark.parametrize(
    ("section", "line", "said"),
    [
        ("objectives", "context_weights = { 128 = inf }", "finite"),
        ("objectives", "context_weights = { 128 = nan }", "objectives.context_weights.128"),
        ("objectives", "context_weights = { 128 = 1e308 }", "objectives.context_weights.128"),
        ("benchmark.sampling", "temperature = inf", "benchmark.sampling.temperature"),
        ("server", "ready_timeout_s = inf", "server.ready_timeout_s"),
        ("server", "port = true", "server.port"),
        ("server", 'port = "30110"', "server.port"),
        ("server", "port = 30110.0", "server.port"),
        ("pruning", "threshold = true", "pruning.threshold"),
        ("pruning", "enabled = 1", "pruning.enabled"),
        ("pruning", 'enabled = "yes"', "pruning.enabled"),
        ("server", 'command = ["a\\u0000"]', "server.command.0"),
        ("server", 'command = ["a", "b\\nc"]', "server.command.1"),
        ("server", 'command = [""]', "empty word"),
        ("server", 'command = ["a", "--port", "1"]', "write server.port instead"),
        ("server", 'command = ["a", "--host=::"]', "write server.host instead"),
        ("server", 'environment = { "A=B" = "x" }', "no name of a variable"),
        ("server", 'environment = { "" = "x" }', "no name of a variable"),
        ("server", 'environment = { 1A = "x" }', "no name of a variable"),
        ("server", 'environment = { A = "x\\u0000" }', "server.environment.A"),
        ("server", 'host = "a\\nb"', "neither an address"),
        ("server", 'host = ""', "neither an address"),
        ("server", 'host = ".."', "neither an address"),
        ("server", 'host = "[::1]"', "neither an address"),
        ("server", f'host = "{"a" * 70}.x"', "neither an address"),
        ("benchmark.sampling", f"seed = {2**63}", "benchmark.sampling.seed"),
        ("benchmark.sampling", "seed = -1", "benchmark.sampling.seed"),
    ],
)
def test_a_value_that_no_server_or_figure_can_take_is_refused_by_name(section: str, line: str, said: str):
    with pytest.raises(SettingsError) as caught:
        parse_settings(with_line(section, line), "study.toml")

    assert said in str(caught.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "0.0.0.0", "localhost", "gpu-7.example.org.", "my_host"])
def test_addresses_and_names_are_hosts(host: str):
    assert parse_settings(with_line("server", f'host = "{host}"'), "study.toml").server.host == host


def test_whole_numbers_serve_where_a_number_is_wanted():
    settings = parse_settings(with_line("server", "ready_timeout_s = 9"), "study.toml")

    assert settings.server.ready_timeout_s == 9.0


@pytest.mark.parametrize("text", ["a = " + "[" * 5000, "a = " + "{b=" * 5000])
def test_a_file_that_is_nested_without_end_is_refused(text: str):
    with pytest.raises(SettingsError, match="nested too deeply"):
        parse_settings(text, "study.toml")


def test_a_seed_that_no_sampler_takes_is_refused():
    with pytest.raises(SettingsError, match="the largest seed that a sampler can take"):
        parse_settings(STUDY.replace('name = "test"', f'name = "test"\nseed = {2**32}', 1), "study.toml")


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('name = "test"', "", "name: is required"),
        ('name = "test"', 'name = "a b"', "name: 'a b' is no name; use letters, digits, '.', '_' and '-'"),
    ],
)
def test_what_is_wrong_is_said_in_words(before: str, after: str, said: str):
    with pytest.raises(SettingsError) as caught:
        parse_settings(STUDY.replace(before, after, 1), "study.toml")

    assert said in caught.value.message


def test_no_message_begins_with_the_jargon_of_the_library():
    with pytest.raises(SettingsError) as caught:
        parse_settings(with_line("objectives", "context_weights = { 99 = 1.0 }"), "study.toml")

    assert caught.value.message.startswith("objectives.context_weights names contexts that no cell measures: 99")


INLINE = """
[search_space]
name = "own"

[search_space.parameters.budget]
kind = "int"
low = 0
high = 32
default = 8
flag = "--speculative-ddtree-budget"
omit = 0
"""


def without_space(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.startswith("search_space"))


def test_a_study_may_hold_its_search_space_and_keeps_it_when_it_is_stored():
    settings = parse_settings(f"{without_space(STUDY)}\n{INLINE}", "study.toml")

    assert settings.search_space_name == "own"
    assert search_space_of(settings).size == 33
    stored = load_settings_dump(json.loads(json.dumps(dump_settings(settings))), "stored")
    assert stored == settings
    assert find_differences(stored, settings) == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (INLINE.replace("low = 0", "lowest = 0"), "search_space.parameters.budget.int.lowest"),
        (
            INLINE.replace("[search_space.parameters.budget]", "[search_space.parameter.budget]"),
            "did you mean 'parameters'",
        ),
        ("[[search_space]]\n", "search_space: has to be a table"),
    ],
)
def test_a_mistake_in_a_search_space_of_a_study_is_named_by_its_key(text, said):
    with pytest.raises(SettingsError, match=re.escape(said)):
        parse_settings(f"{without_space(STUDY)}\n{text}", "study.toml")


@pytest.mark.parametrize(
    ("named", "found"), [("tasks.jsonl", "studies/tasks.jsonl"), ("../b.gz", "studies/../b.gz"), ("/data/c", "/data/c")]
)
def test_the_file_of_problems_is_seen_from_the_folder_of_the_study(tmp_path, monkeypatch, named, found):
    (tmp_path / "studies").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "studies/mine.toml").write_text(f"{STUDY}\n[evaluation]\nproblem_file = '{named}'\n")
    monkeypatch.chdir(tmp_path / "elsewhere")

    settings = load_settings(Path("../studies/mine.toml"))

    assert settings.evaluation.problem_file is not None
    assert Path(settings.evaluation.problem_file).resolve() == (tmp_path / found).resolve()
    assert Path(settings.evaluation.problem_file).is_absolute()


@pytest.mark.parametrize(
    ("deployment", "confirmation", "boots", "soak_s"),
    [
        ("", "", 0, 0.0),
        ('[deployment]\nkind = "systemd"\nunit = "llm.service"\n', "", 6, 600.0),
        ('[deployment]\nkind = "systemd"\nunit = "llm.service"\n', "[confirmation]\nboots = 0\nsoak_s = 1\n", 0, 1.0),
        ("", "[confirmation]\nboots = 4\nsoak_s = 30.0\n", 4, 30.0),
    ],
)
def test_a_service_is_confirmed_and_a_server_of_ours_when_the_file_says_so(deployment, confirmation, boots, soak_s):
    settings = parse_settings(f"{STUDY}\n{deployment}{confirmation}", "study.toml")

    assert (settings.confirmation_boots, settings.soak_s) == (boots, soak_s)


def test_boots_that_decide_nothing_are_refused():
    with pytest.raises(SettingsError, match="at least 4"):
        parse_settings(f"{STUDY}\n[confirmation]\nboots = 3\n", "study.toml")
