"""Reading a real unit, and writing its command with other flags: checked against systemd."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.deployment.drop_in import render_assignment, render_command, render_drop_in_as_written
from autotune.deployment.unit_file import parse_service, replace_flags, split_words
from autotune.errors import UserError

REAL = """\
[Unit]
Description=a server; ExecStart=/not/this

[Service]
Environment=A=1
Environment="B=x y"
ExecStart=/usr/bin/python3 -m sglang.launch_server \\
  # tuned by hand
  --port 30000 \\
  --speculative-num-steps 3
# note \\
Environment=KEPT=1

[Install]
WantedBy=multi-user.target
"""
TUNED = {"--speculative-ddtree-budget": True, "--speculative-algorithm": True, "--enable-x": False}


def texts(words) -> list[str]:
    return [word.text for word in words]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["#", ";"])
def test_a_real_unit_is_read_as_systemd_reads_it(newline, mark):
    """Case 67: a comment in a continuation, one that ends in a backslash, repeated settings, line ends of another world."""
    service = parse_service(REAL.replace("# ", f"{mark} ").replace("\n", newline))

    assert [texts(command) for command in service.commands] == [
        ["/usr/bin/python3", "-m", "sglang.launch_server", "--port", "30000", "--speculative-num-steps", "3"]
    ]
    assert service.environment == {"A": "1", "B": "x y", "KEPT": "1"}


def test_assignments_are_read_with_their_spaces_and_quotes():
    """Case 65."""
    service = parse_service('[Service]\nEnvironment="A=x y" B=2 \'C=q"q\'\n')

    assert service.environment == {"A": "x y", "B": "2", "C": 'q"q'}


def test_an_empty_setting_empties_its_list():
    """Case 63: a drop-in read after its unit leaves one command."""
    service = parse_service("[Service]\nEnvironment=A=1\nExecStart=/bin/a\n[Service]\nExecStart=\nExecStart=/bin/b\n")

    assert [texts(command) for command in service.commands] == [["/bin/b"]]
    assert service.environment == {"A": "1"}


def test_a_blank_line_ends_a_continuation():
    """Case 67."""
    service = parse_service("[Service]\nExecStart=/bin/a \\\n\n--port 1\n")

    assert [texts(command) for command in service.commands] == [["/bin/a"]]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (r"a\x41\101\u00e9\tb", ["aAA\u00e9\tb"]),
        (r'"a\sb" c"d e"f', ["a b", "cd ef"]),
        (r"G=a\\b\"q\"", ['G=a\\b"q"']),
        ('""', [""]),
        ("%i $HOME ${X} $$", ["%i", "$HOME", "${X}", "$$"]),
    ],
)
def test_quotes_and_escapes(value, words):
    assert texts(split_words(value)) == words


@pytest.mark.parametrize("value", ['"open', "'open", "\\q", "\\x4", "end\\"])
def test_what_systemd_ignores_is_refused(value):
    with pytest.raises(UserError, match=r"never closed|no escape"):
        list(split_words(value))


@pytest.mark.parametrize("lines", ["ExecStartPre=/bin/find / -exec rm {} \\;", "SyslogIdentifier=it's", "X-Note=don't"])
def test_settings_that_are_not_ours_cannot_refuse_a_unit(lines):
    service = parse_service(f"[Service]\n{lines}\nExecStart=/bin/x --port 1\n")

    assert [texts(command) for command in service.commands] == [["/bin/x", "--port", "1"]]


@pytest.mark.parametrize("escape", ["\\d", "\\x4", "\\Uffffffff", "\\777", "\\x00", "\\ud800"])
def test_an_escape_that_nobody_knows_stays_in_a_command(escape):
    (command,) = parse_service(f"[Service]\nExecStart=/bin/x a{escape} --last\n").commands

    assert texts(command) == ["/bin/x", f"a{escape}", "--last"]


def test_a_last_backslash_does_not_swallow_what_is_written_behind_it():
    (command,) = parse_service("[Service]\nExecStart=/bin/x a \\ \n").commands

    assert replace_flags(command, TUNED, ["--note", "1"]) == "/bin/x a \\\\ --note 1"


@pytest.mark.parametrize(
    "start",
    [
        "/bin/sh -c 'exec python --port 1'",
        "/usr/bin/env bash -lc 'x'",
        "-/bin/bash -e -c x",
        "/usr/bin/nice busybox sh -c x",
    ],
)
def test_a_line_of_a_shell_is_refused_with_what_to_do(start):
    (command,) = parse_service(f"[Service]\nExecStart={start}\n").commands

    with pytest.raises(UserError, match="--format flags"):
        replace_flags(command, TUNED, ["--note", "1"])


def test_a_script_run_by_a_shell_takes_flags():
    (command,) = parse_service("[Service]\nExecStart=/bin/sh /opt/start.sh -c 1\n").commands

    assert replace_flags(command, TUNED, ["--note", "1"]) == "/bin/sh /opt/start.sh -c 1 --note 1"


def test_a_flag_without_its_value_takes_no_other_flag_with_it():
    (command,) = parse_service(
        "[Service]\nExecStart=/bin/x --speculative-ddtree-budget --port 1 --speculative-algorithm --enable-x\n"
    ).commands

    assert replace_flags(command, TUNED, []) == "/bin/x --port 1"


@given(st.lists(st.text(st.characters(exclude_categories=("Cc", "Cs"), exclude_characters="%$"), max_size=8)))
def test_what_the_writer_writes_the_reader_reads(words):
    service = parse_service(f"[Service]\nExecStart={render_command(['/bin/x', *words])}\n")

    assert [texts(command) for command in service.commands] == [["/bin/x", *words]]


@given(st.text(st.characters(exclude_categories=("Cc", "Cs")), max_size=20))
def test_a_variable_that_the_writer_writes_the_reader_reads(value):
    service = parse_service(f"[Service]\nEnvironment={render_assignment('NAME', value)}\n")

    assert service.environment == {"NAME": value}


def test_other_flags_stay_in_order_and_as_they_were_written():
    """Case 63: unchanged flags of the base command are kept in order, with what systemd expands in them."""
    (command,) = parse_service(
        "[Service]\nExecStart=/bin/x --port $PORT --speculative-ddtree-budget 8 --name '%i a' --enable-x "
        "--speculative-algorithm=DDTREE --last\n"
    ).commands

    assert replace_flags(command, TUNED, ["--speculative-ddtree-budget", "16", "--note", "5 %"]) == (
        "/bin/x --port $PORT --name '%i a' --last --speculative-ddtree-budget 16 --note \"5 %%\""
    )


def test_plain_decoding_only_takes_flags_out():
    (command,) = parse_service("[Service]\nExecStart=/bin/x --speculative-ddtree-budget 8 --last\n").commands

    assert replace_flags(command, TUNED, []) == "/bin/x --last"


@pytest.mark.parametrize(
    "lines",
    [
        REAL.partition("[Service]\n")[2].partition("\n[Install]")[0],
        'Environment="A=x y" B=2 \'C=q"q\' D=a\\\\b"q"\nExecStart=/bin/x a\\x41\\101\\tb "c\\sd" e"f g"h \'%%i\' ""\n',
        "ExecStart=/bin/x \\\n ; note \\\n --port 1\nEnvironment=A=1\nEnvironment=\nEnvironment=B=2\n",
        "Environment=A=a\\\\\nEnvironment=B=2\nExecStart=/bin/a --re a\\\\\n",
        "ExecStart=/bin/a --x \\ \n --port 1\nEnvironment=B=2\n",
        "ExecStart=/bin/a a\\\\\\\n b\n",
        'ExecStart=/bin/a "a \\\n b" c\n',
        'ExecStart=/bin/a a \\; b ";" c; d\\;e f\\ g\n',
        "Type=oneshot\nExecStart=/bin/a a ; /bin/b b ;\n",
        'ExecStart=/bin/a \\d+ \\x4 \\Uffffffff \\777 \\x00a "\\q"\n',
        "Environment=1A=2 B=3 'C D=4'\nEnvironment=D=1 E=\\q F=2\nExecStart=/bin/a\n",
        "Environment=A=%%x\nExecStart=/bin/a\nExecStart=\nExecStart=/bin/b \\\n\n--lost\n",
    ],
)
def test_systemd_reads_the_same(ask_systemd, lines):
    """Cases 65 and 67."""
    text = f"[Unit]\nDefaultDependencies=no\n[Service]\n{lines}"

    judged = ask_systemd("", unit=text)

    service = parse_service(text)
    assert [[word.replace("%%", "%") for word in texts(command)] for command in service.commands] == judged.commands
    assert [f"{name}={value}" for name, value in service.environment.items()] == judged.environment


def test_systemd_reads_the_command_with_other_flags(ask_systemd):
    """Case 63."""
    (command,) = parse_service(REAL).commands
    line = replace_flags(command, {"--speculative-num-steps": True}, ["--speculative-ddtree-budget", "16"])

    judged = ask_systemd(render_drop_in_as_written(line, {}))

    assert judged.commands == [
        ["/usr/bin/python3", "-m", "sglang.launch_server", "--port", "30000", "--speculative-ddtree-budget", "16"]
    ]
