"""Exchanging flags in a line of a shell, judged by the shells themselves."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.deployment.shell_line import exchange_arguments, find_line, find_program
from autotune.errors import UnitUnsupportedError
from tests.deployment.units import TUNED

NEW = ("--page-size", "64")
PRINT = "python3 -c 'import json, sys; print(json.dumps(sys.argv[1:]))'"
SHELLS = [shell for shell in ("bash", "dash") if shutil.which(shell)]


def run(shell: str, line: str) -> list[str]:
    done = subprocess.run([shell, "-c", line.replace("srv", PRINT, 1)], capture_output=True, check=True, text=True)
    words: list[str] = json.loads(done.stdout)
    return words


@pytest.mark.parametrize(
    ("line", "exchanged"),
    [
        ("exec srv --page-size 1", "exec srv --page-size 64"),
        ("cd /a && exec srv --page-size=1 --port $P", "cd /a && exec srv --port $P --page-size 64"),
        ("exec srv --enable-x a >>/l 2>&1", "exec srv a --page-size 64 >>/l 2>&1"),
        ("exec >l 2>&1; exec srv", "exec >l 2>&1; exec srv --page-size 64"),
        ("exec srv --page-size >l 16 --port 1", "exec srv >l --port 1 --page-size 64"),
        ("exec srv 3 2> l --page-size $X", "exec srv 3 --page-size 64 2> l"),
        ("exec srv '--page-size' \"1\" --n '# ; |'", "exec srv --n '# ; |' --page-size 64"),
        ('exec srv a#b \\; "$X" ${Y:-"a b"} ~ *.x', 'exec srv a#b \\; "$X" ${Y:-"a b"} ~ *.x --page-size 64'),
        ("A=1 exec env B=2 srv", "A=1 exec env B=2 srv --page-size 64"),
        ("if x; then Y=1; fi; exec srv", "if x; then Y=1; fi; exec srv --page-size 64"),
        ('[[ a && b ]] && X=$(echo "a)b"); exec srv', '[[ a && b ]] && X=$(echo "a)b"); exec srv --page-size 64'),
        ("X=`echo 'exec y'`; echo exec z; exec srv", "X=`echo 'exec y'`; echo exec z; exec srv --page-size 64"),
        ("exec srv ${X:-'}'} \"${Y:-it's}\"", "exec srv ${X:-'}'} \"${Y:-it's}\" --page-size 64"),
        ("exec -a name srv --speculative-ddtree-budget 1", "exec -a name srv --page-size 64"),
        ("exec srv --page-size --enable-x --port 1", "exec srv --port 1 --page-size 64"),
        ("exec  srv\t--port  1 ", "exec srv --port 1 --page-size 64"),
        ("exec srv --page-size-x 1 --xpage-size 2", "exec srv --page-size-x 1 --xpage-size 2 --page-size 64"),
        ("ulimit -n $(ulimit -Hn) && exec srv", "ulimit -n $(ulimit -Hn) && exec srv --page-size 64"),
    ],
)
def test_only_the_words_behind_the_last_exec_change(line, exchanged):
    assert exchange_arguments(line, TUNED, NEW) == exchanged


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("srv --page-size 1", "without exec"),
        ("", "without exec"),
        ("echo exec srv", "without exec"),
        ("eval exec srv", "without exec"),
        ("'exec' srv", "without exec"),
        ("f() { x; }; f", "without exec"),
        ("exec", "starts nothing"),
        ("exec >l", "starts nothing"),
        ("exec srv; exec >l", "more than one exec|starts nothing"),
        ("[ a ] && exec a; exec srv", "more than one exec"),
        ("exec a || exec srv", "more than one exec"),
        ("exec srv | tee l", r"\| follows"),
        ("exec srv |& tee l", r"\|& follows"),
        ("x | exec srv", r"stands behind \|"),
        ("exec srv;", "; follows"),
        ("exec srv &", "& follows"),
        ("exec srv && x", "&& follows"),
        ("(exec srv)", r"\) follows"),
        ("if x; then exec srv; fi", "; follows"),
        ("case $x in a) exec srv;; esac", ";; follows"),
        ("exec srv `id`", "command of its own"),
        ("exec srv $(id)", "command of its own"),
        ('exec srv "a$(id)"', "command of its own"),
        ("exec srv >$(id)", "command of its own"),
        ("exec srv $$(id)", "command of its own"),
        ('exec srv "$@"', "not in the line"),
        ("exec srv $*", "not in the line"),
        ('exec srv "${@}"', "not in the line"),
        ('exec srv "${@:2}"', "not in the line"),
        ("exec srv <<E", "here-document"),
        ("exec srv <<<x", "here-document"),
        ("exec srv >(tee l)", r"\( follows"),
        ("exec srv # why", "# why follows"),
        ("exec srv {fd}>l", "only some shells"),
        ("exec srv >", "no target"),
        ("exec srv\nexec b", "more than one line"),
        ("x\nexec srv", "more than one line"),
        ("exec srv 'x", "never closed"),
        ('exec srv "x', "never closed"),
        ("exec srv ${x", "never closed"),
        ("exec srv `x", "never closed"),
        ("exec srv \\", "ends in a backslash"),
        ("exec srv $'x'", "only some shells"),
        ("exec bash -c 'exec srv'", "another shell"),
        ("exec env A=1 sh -c srv", "another shell"),
    ],
)
def test_what_is_unclear_is_refused_in_words(line, why):
    with pytest.raises(UnitUnsupportedError, match=why) as caught:
        exchange_arguments(line, TUNED, NEW)

    assert caught.value.hint


WORDS = [
    "a",
    "'b  c'",
    '"d \\" e"',
    "f\\ g",
    "--port",
    "$HOME",
    "'#'",
    "--page-size=2",
    "--page-size 7",
    "--enable-x",
    "h#i",
]


@pytest.mark.parametrize("shell", SHELLS)
@settings(max_examples=15, deadline=None)
@given(
    written=st.lists(st.sampled_from(WORDS), max_size=6),
    before=st.sampled_from(
        ["", "cd / && ", "A='; exec x'; ", "exec 2>/dev/null; ", "if :; then X=1; fi; ", ": $(echo ')') ; "]
    ),
    behind=st.sampled_from(["", " 2>/dev/null", " 2>&1"]),
    new=st.lists(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\n\r"), max_size=8), max_size=6
    ),
)
def test_a_shell_hands_the_server_what_was_asked(shell, written, before, behind, new):
    """Case 50."""
    line = f"{before}exec srv {' '.join(written)}{behind}"
    kept = [word for word in written if not word.startswith(("--page", "--enable"))]

    exchanged = exchange_arguments(line, TUNED, new)

    assert run(shell, exchanged) == [*run(shell, f"exec srv {' '.join(kept)}"), *new]


@pytest.mark.parametrize(
    ("command", "index"),
    [
        ("bash -c x", 2),
        ("bash -lc x name", 2),
        ("bash -c -l x", 3),
        ("bash -euo pipefail -c x", 4),
        ("bash +B --norc --rcfile /f -c -- x", 7),
        ("env -u A B=1 /bin/sh -c x", 6),
        ("busybox sh -c x", 3),
        ("bash /opt/x -c y", None),
        ("bash -c", None),
        ("python -c x", None),
        ("", None),
    ],
)
def test_the_line_is_found(command, index):
    assert find_line(shlex.split(command)) == index


def test_the_program_behind_exec_is_found():
    assert find_program("cd /; exec env 'a b' >l") == ("exec", "env", "a b")
    assert find_program("cd /; srv x") == ("srv", "x")
    assert find_program("") == ()
