"""Journal entries as journald prints them."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.deployment.host import CommandOutput
from autotune.deployment.journal import InvocationJournal, parse_entries
from autotune.errors import HostError
from autotune.servers.sglang_log import strip_line
from tests.deployment.scripted_host import ScriptedHost

LINE = "Decode batch, #running-req: 4, accept len: 2.50"


def entry(message: object, cursor: str = "s=1;i=2") -> bytes:
    return json.dumps({"__CURSOR": cursor, "_SYSTEMD_INVOCATION_ID": "x", "MESSAGE": message}).encode() + b"\n"


@pytest.mark.parametrize(
    "message",
    [
        f"\x1b[32m{LINE}\x1b[0m",
        list(f"\x1b[32m{LINE}\x1b[0m".encode()),
        list(f"\x1b[32m{LINE}\x1b[0m\r".encode()),
        f"\x1b[32m{LINE}\x1b[0m\r",
        LINE,
    ],
)
def test_colours_and_byte_arrays_say_the_same(message):
    """Case 28: journald prints a message with escape codes as an array of bytes."""
    lines = parse_entries(entry(message)).lines

    assert [strip_line(line) for line in lines] == [LINE]


def test_bytes_that_are_no_text_are_replaced():
    """Case 28."""
    assert parse_entries(entry([65, 255, 66])).lines == ("A�B",)


def test_several_values_and_no_value_are_read():
    data = entry(["one", [116, 119, 111]]) + entry(None) + entry("three\nfour")

    assert parse_entries(data).lines == ("one", "two", "three", "four")


def test_the_cursor_is_the_last_one_and_half_an_entry_waits():
    data = entry("a", "c1") + entry("b", "c2")

    whole = parse_entries(data)
    cut = parse_entries(data[:-5])

    assert (whole.lines, whole.cursor) == (("a", "b"), "c2")
    assert (cut.lines, cut.cursor) == (("a",), "c1")


def test_nothing_has_no_cursor():
    assert parse_entries(b"") == parse_entries(b"{half")
    assert parse_entries(b"").cursor is None


def test_something_else_than_entries_is_said():
    with pytest.raises(HostError, match="something else than an entry"):
        parse_entries(b"Hint: you are not in the group\n")


@given(st.lists(st.binary(max_size=40)))
def test_whatever_a_server_prints_can_be_read(messages: list[bytes]):
    data = b"".join(entry(list(message), f"c{number}") for number, message in enumerate(messages))
    lines = parse_entries(data).lines

    assert len(lines) == sum(message.count(b"\n") + 1 for message in messages)


def test_each_line_is_read_once():
    answers = [entry("a", "c1"), entry("b", "c2"), b""]

    def answer(command: Sequence[str], stdin: bytes) -> CommandOutput:
        return CommandOutput(0, answers.pop(0), b"")

    host = ScriptedHost(answer)
    journal = InvocationJournal(host, "deadbeef")

    assert [journal.read_new() for _ in range(3)] == [("a",), ("b",), ()]
    assert "--after-cursor=c1" not in host.commands[0]
    assert "--after-cursor=c1" in host.commands[1]
    assert "--after-cursor=c2" in host.commands[2]
    assert all("_SYSTEMD_INVOCATION_ID=deadbeef" in command for command in host.commands)


def test_a_journal_longer_than_one_answer_is_read_in_pieces():
    answers = [
        CommandOutput(0, entry("a", "c1") + b'{"MES', b"", is_truncated=True),
        CommandOutput(0, entry("b", "c2"), b""),
    ]
    host = ScriptedHost(lambda _command, _stdin: answers.pop(0))

    assert InvocationJournal(host, "x").read_new() == ("a", "b")


def test_a_journal_that_cannot_be_read_is_the_hosts_fault():
    host = ScriptedHost(lambda _command, _stdin: CommandOutput(1, b"", b"No journal files were opened"))

    with pytest.raises(HostError, match="No journal files"):
        InvocationJournal(host, "x").read_new()
