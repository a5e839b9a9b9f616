from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from click.testing import CliRunner, Result

import autotune.cli.init
from autotune.cli import main
from autotune.initial_study.facts import Facts
from autotune.settings import parse_settings
from tests.initial_study.services import DDTREE, DRAFT, TRITON, make_facts

Init = Callable[..., Result]


@pytest.fixture
def init(monkeypatch: pytest.MonkeyPatch) -> Init:
    """Run the command on this machine as if it had such a service."""

    def run(facts: Facts, *arguments: str) -> Result:
        monkeypatch.setattr(autotune.cli.init, "discover", lambda *_: facts)
        return CliRunner().invoke(main, ["init", "--unit", "sglang-ddtree", *arguments])

    return run


def test_the_study_alone_goes_to_stdout_and_remarks_to_stderr(init):
    result = init(make_facts(*TRITON, *DRAFT, *DDTREE, unanswered=("GPUs: no tool\x1b[31m",)))

    assert result.exit_code == 0
    assert parse_settings(result.stdout, "kimi.toml").name == "sglang-ddtree"
    assert (
        "note: SGLang with the DDTree of #29907: it takes --speculative-ddtree-budget according to --help"
        in result.stderr
    )
    assert "warning: --enable-metrics is not on" in result.stderr
    assert result.stderr.startswith(
        "note: sglang-ddtree.service is active, port 30000. Model /models/Kimi-K2.6; drafter"
    )
    assert result.stderr.splitlines()[-1].startswith("next: autotune doctor STUDY --until 06:30")
    assert "\x1b" not in result.stderr


def test_json_prints_what_was_found_and_no_study(init):
    result = init(make_facts(*TRITON, *DRAFT, *DDTREE), "--json")

    found = json.loads(result.stdout)
    assert found["port"] == 30000
    assert found["lengths"] is None
    assert "speculative_ddtree_budget" in found["supported"]
    assert len(found["gpus"]) == 8


def test_a_name_is_checked_before_anything_is_asked(init):
    assert parse_settings(init(make_facts(*TRITON, *DRAFT, *DDTREE), "--name", "kimi").stdout, "x").name == "kimi"

    result = init(make_facts(), "--name", "no name")
    assert result.exit_code == 2
    assert "no name of a study" in result.stderr


def test_a_server_of_no_known_family_ends_with_what_was_looked_for(init):
    result = init(make_facts(supported=frozenset({"model_path"})))

    assert result.exit_code == 2
    assert result.stdout == ""
    assert "--speculative-dflash-tree-width" in result.stderr
    assert "next:" in result.stderr
