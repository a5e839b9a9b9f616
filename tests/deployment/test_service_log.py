"""Where the log of a service goes, and when that is a place where nobody can read it."""

from __future__ import annotations

import pytest

from autotune.deployment.host import CommandOutput
from autotune.deployment.service_log import find_log_gap, read_log_gap
from tests.deployment.scripted_host import ScriptedHost

JOURNAL = {"StandardOutput": "journal", "StandardError": "inherit", "LogNamespace": ""}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"StandardOutput": "append:/var/log/sglang.log"}, "the service's log goes to a file, not to the journal"),
        ({"StandardOutput": "append"}, "the service's log goes to a file, not to the journal"),
        ({"StandardOutput": "file:/x", "StandardError": "truncate:/y"}, "goes to a file, not"),
        ({"StandardOutput": "null"}, "the service's log goes nowhere, not to the journal"),
        ({"StandardOutput": "tty"}, "goes to tty, not"),
        ({"StandardError": "append:/x"}, "a part of the service's log goes to a file"),
        ({"LogNamespace": "llm"}, "LogNamespace=llm"),
    ],
)
def test_a_log_that_goes_elsewhere_is_said(change: dict[str, str], said: str):
    assert said in (find_log_gap(JOURNAL | change) or "")


@pytest.mark.parametrize("change", [{}, {"StandardOutput": "journal+console"}, {"StandardError": "kmsg"}])
def test_a_log_in_the_journal_is_not_talked_about(change: dict[str, str]):
    assert find_log_gap(JOURNAL | change, "[Journal]\n#Storage=none\nStorage=auto\n") is None


def test_the_last_file_of_journald_decides_whether_it_keeps_anything():
    assert (
        find_log_gap(JOURNAL, "Storage=volatile\n Storage = none\n")
        == "the host's journal keeps nothing (Storage=none)"
    )
    assert find_log_gap(JOURNAL, "Storage=none\nStorage=volatile\n") is None


def test_a_host_is_asked_and_one_that_does_not_show_its_journald_is_believed():
    def answer(command: object, _stdin: bytes) -> CommandOutput:
        if isinstance(command, tuple) and command[0] == "systemd-analyze":
            return CommandOutput(1, b"", b"unknown verb")
        return CommandOutput(0, b"StandardOutput=journal\nStandardError=inherit\nLogNamespace=\n", b"")

    assert read_log_gap(ScriptedHost(answer), "llm.service") is None
