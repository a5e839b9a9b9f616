from __future__ import annotations

from pathlib import Path

import pytest

from autotune.errors import SettingsError
from autotune.settings import load_settings, parse_settings
from tests.records import STUDY

SERVICE = f'{STUDY}\n[deployment]\nkind = "systemd"\nunit = "x.service"\n'


def mistakes_of(text: str) -> str:
    with pytest.raises(SettingsError) as caught:
        parse_settings(text, "study.toml")
    return caught.value.message


def test_every_mistake_has_a_line_with_the_value_that_was_written():
    text = SERVICE.replace('name = "test"', 'name = "test"\nnmae = 1\nseed = "one"', 1)
    text = text.replace("[server]", '[server]\nstall_timeout = 5\nport = 0\nready_timeout_s = "5 min"', 1)

    assert mistakes_of(f'{text}lease_s = "abc"\ngpu_idle_mb = 0\n').splitlines() == [
        "7 mistakes:",
        "  seed: 'one' is no whole number",
        "  server.port: 0 is out of range: it has to be at least 1",
        "  server.ready_timeout_s: '5 min' is no number",
        "  unknown key 'server.stall_timeout', did you mean 'stall_timeout_s'?",
        "  deployment.lease_s: 'abc' is no number",
        "  deployment.gpu_idle_mb: 0 is out of range: it has to be at least 1",
        "  unknown key 'nmae', did you mean 'name'?",
    ]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("budget = 16", "budget = [16]", "baseline.budget: [16] is no number, no text and neither true nor false"),
        ("[benchmark]", "[benchmark]\nignore_eos = 'yes'", "benchmark.ignore_eos: 'yes' is neither true nor false"),
        ("[benchmark]", "[benchmark]\noutput_tokens = 1.5", "benchmark.output_tokens: 1.5 is no whole number"),
        ("[benchmark]", "[benchmark]\nmin_success_rate = 2", "2 is out of range: it has to be at most 1"),
        ("[server]", "[server]\ncommand = 'x'", "server.command: 'x' is no list"),
        ("[server]", "[server]\ncommand = []", "server.command: [] is too short; it needs 1 at least"),
        ("[server]", "[server]\nenvironment = 'x'", "server.environment: has to be a table"),
        ('proofs = ["best-first-tree"]', "proofs = [1]", "server.proofs.0: 1 is no text; put it into quotes"),
        ("[server]", "[server]\ndialect = 'vllm'", "server.dialect: 'vllm' is not known; write 'sglang'"),
        ("concurrency = 1 ", "concurrencies = 1 ", "benchmark.stages.1.cells.0.concurrency: is required"),
    ],
)
def test_a_mistake_is_said_once_in_words(before: str, after: str, said: str):
    message = mistakes_of(STUDY.replace(before, after))

    assert message.count(said) == 1
    assert "should" not in message
    assert "Tuple" not in message


def test_a_list_that_only_lacks_an_unreadable_part_is_not_called_short():
    assert mistakes_of(STUDY.replace("context = 128, concurrency = 1 ", "context = 128 ")) == (
        "benchmark.stages.1.cells.0.concurrency: is required"
    )


def test_a_long_value_is_cut():
    assert len(mistakes_of(STUDY.replace("[server]", f"[server]\nport = '{'9' * 500}'"))) < 100


def test_a_file_that_is_not_there_or_no_text_is_said_to_be_so(tmp_path: Path):
    with pytest.raises(SettingsError) as caught:
        load_settings(tmp_path / "gone.toml")
    assert caught.value.message == "there is no such file"
    with pytest.raises(SettingsError) as caught:
        load_settings(tmp_path)
    assert caught.value.message == "cannot be read: is a directory"
    (tmp_path / "x.toml").write_bytes(b"a\xff")
    with pytest.raises(SettingsError) as caught:
        load_settings(tmp_path / "x.toml")
    assert caught.value.message == "is no text: byte 1 is not UTF-8"
