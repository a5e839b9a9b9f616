"""Drop-ins byte for byte, and what systemd itself reads out of them."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autotune.deployment.drop_in import render_assignment, render_command, render_drop_in
from autotune.errors import UserError

AWKWARD = [
    "plain",
    "two words",
    " leading and trailing ",
    'p"q\\r',
    "it's",
    "'",
    '"',
    "\\",
    "\\\\x41",
    "ends in \\",
    "100%",
    "%i %% %h",
    "$HOME",
    "${HOME}",
    "$$",
    "",
    ";",
    "\\;",
    "#hash",
    "; semicolon",
    "a=b",
    "-x",
    "@at",
    '{"a": "b\'c", "d": [1, 2], "p": "5%"}',
    "中 é",
    "*?[x]~",
    "`id` $(id) && rm || >x <y",
    "--model=Org/Name",
]


def test_a_drop_in_empties_the_command_before_it_sets_one():
    """Case 63: without the empty line systemd would see two commands and refuse the unit."""
    text = render_drop_in(
        ["/usr/bin/python3", "-m", "sglang.launch_server", "--port", "30000", "--speculative-ddtree-budget", "16"],
        {"SGLANG_DDTREE_TOPK_CAP": "4", "SGLANG_OLD": None},
        ["Written by a test.", "", "Second line."],
    )

    assert text == (
        "# Written by a test.\n"
        "#\n"
        "# Second line.\n"
        "[Service]\n"
        'Environment="SGLANG_DDTREE_TOPK_CAP=4"\n'
        "UnsetEnvironment=SGLANG_OLD\n"
        "ExecStart=\n"
        "ExecStart=/usr/bin/python3 -m sglang.launch_server --port 30000 --speculative-ddtree-budget 16\n"
    )


def test_systemd_sees_exactly_one_command(ask_systemd):
    """Case 63."""
    command = ["/usr/bin/python3", "-m", "sglang.launch_server", "--port", "30000", "--speculative-ddtree-budget", "16"]

    assert ask_systemd(render_drop_in(command, {})).commands == [command]


def test_the_oracle_notices_a_missing_empty_line(ask_systemd):
    """Case 63: the check itself can fail."""
    wrong = render_drop_in(["/usr/bin/python3", "-V"], {}).replace("ExecStart=\n", "")

    unit = ask_systemd(wrong)

    assert not unit.is_loaded
    assert "more than one ExecStart= setting" in unit.text


def test_the_three_variables_of_the_report_are_written_as_quoted_assignments():
    """Case 65."""
    values = {"SGLANG_OPTS": "--a 1 X=2", "TOKEN": 'p"q\\r', "EMPTY": ""}

    assert [render_assignment(name, value) for name, value in values.items()] == [
        '"SGLANG_OPTS=--a 1 X=2"',
        '"TOKEN=p\\"q\\\\r"',
        '"EMPTY="',
    ]


def test_systemd_reads_the_three_variables_back(ask_systemd):
    """Case 65: no value is cut and no phantom variable appears."""
    values = {"SGLANG_OPTS": "--a 1 X=2", "TOKEN": 'p"q\\r', "EMPTY": ""}

    unit = ask_systemd(render_drop_in(["/bin/true"], values))

    assert unit.environment == ["SGLANG_OPTS=--a 1 X=2", 'TOKEN=p"q\\r', "EMPTY="]


def test_a_variable_of_the_base_unit_can_be_removed(ask_systemd):
    unit = ask_systemd(render_drop_in(["/bin/true"], {"TOPK": None}), base="Environment=TOPK=4\n")

    assert unit.unset == ["TOPK"]


def test_systemd_reads_every_awkward_word_back(ask_systemd):
    """Cases 63 and 65: spaces, quotes, backslashes, specifiers, variables, JSON."""
    unit = ask_systemd(
        render_drop_in(["/usr/bin/my server", *AWKWARD], {f"V{i}": word for i, word in enumerate(AWKWARD)})
    )

    assert unit.commands == [["/usr/bin/my server", *AWKWARD]]
    assert unit.environment == [f"V{i}={word}" for i, word in enumerate(AWKWARD)]


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    words=st.lists(
        st.text(st.characters(exclude_categories=("Cc", "Cs", "Cn", "Co", "Cf", "Zl", "Zp")), max_size=12),
        min_size=40,
        max_size=40,
    )
)
def test_systemd_reads_any_printable_words_back(ask_systemd, words):
    unit = ask_systemd(render_drop_in(["/bin/x", *words], {f"V{i}": word for i, word in enumerate(words)}))

    assert unit.commands == [["/bin/x", *words]]
    assert unit.environment == [f"V{i}={word}" for i, word in enumerate(words)]


@pytest.mark.parametrize("bad", ["a\nb", "a\rb", "\0", "\x1b[31m", "a\ud800"])
def test_control_characters_are_refused(bad):
    """Case 65: a newline would end the setting and begin another."""
    with pytest.raises(UserError, match="cannot be written"):
        render_assignment("A", bad)
    with pytest.raises(UserError, match="cannot be written"):
        render_command(["/bin/x", bad])


@pytest.mark.parametrize("name", ["", "1A", "A B", "A=B", "A-B", "é", 'A"'])
def test_names_that_systemd_would_drop_are_refused(name):
    with pytest.raises(UserError, match="not a name"):
        render_assignment(name, "x")
    with pytest.raises(UserError, match="not a name"):
        render_drop_in(["/bin/x"], {name: None})


@pytest.mark.parametrize("program", ["python3", "-/bin/x", "@/bin/x", ":/bin/x", "", "/opt/$x/bin"])
def test_a_program_that_systemd_would_read_differently_is_refused(program):
    with pytest.raises(UserError, match="absolute path"):
        render_command([program])


def test_a_header_cannot_leave_its_comment(ask_systemd):
    text = render_drop_in(["/bin/true"], {}, ["evil\nExecStartPost=/bin/evil", "ends in a backslash \\"])

    assert "\nExecStartPost" not in text
    assert ask_systemd(text).commands == [["/bin/true"]]
