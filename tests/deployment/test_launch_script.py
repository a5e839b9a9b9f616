"""Which start scripts take their flags from a variable; those that are accepted are run."""

from __future__ import annotations

import json
import subprocess

import pytest

from autotune.deployment.launch_script import check_script, is_shell_script, join_arguments
from autotune.errors import UnitUnsupportedError
from tests.deployment.units import TUNED

V = "AUTOTUNE_ARGUMENTS"
PRINT = "python3 -c 'import json, sys; print(json.dumps(sys.argv[1:]))'"


@pytest.mark.parametrize(
    "script",
    [
        "exec srv --port 1 $V",
        "exec srv --port 1 ${V}",
        "exec srv --port 1 ${V:-}",
        "exec srv --port 1 ${V-}",
        "set -eu\ncd /\n# exec srv --page-size 1\nexec srv \\\n  --port 1 \\\n  $V \\\n  >/dev/stdout",
        "exec srv --port 1 ${V---page-size 1}",
        ": ${V=--page-size 1}\nexec srv --port 1 $V",
        "cat >/dev/null <<'END'\nit's exec --page-size\nEND\nexec srv --port 1 $V",
        (
            "cat >/dev/null <<A <<-B\nit's\nA\n'\n\tB\nX=$((1<<2))\nwhile IFS= read -r x; do :; done </dev/null\n"
            "exec srv --port 1 $V"
        ),
        "exec 2>/dev/null\nexport V\nexec env A=1 srv --port 1 $V # last",
        "if :; then\n  exec srv --port 1 $V\nfi",
    ],
)
def test_a_script_that_hands_the_variable_on_is_accepted_and_works(tmp_path, script):
    text = "#!/bin/bash\n" + script.replace("V", V) + "\n"
    check_script(text, "/opt/start.sh", V, TUNED)

    path = tmp_path / "start.sh"
    path.write_text(text.replace("srv", PRINT), encoding="utf-8")
    for arguments in (["--page-size", "64", "--enable-x"], []):
        environment = {V: join_arguments(arguments, V), "PATH": "/usr/bin:/bin"}
        done = subprocess.run(["bash", str(path)], env=environment, capture_output=True, check=True, text=True)
        assert json.loads(done.stdout) == ["--port", "1", *arguments]


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("exec srv", "not expanded in the command behind its last exec"),
        ("srv $V", "not expanded in a command behind exec"),
        ("exec srv # $V", "not expanded"),
        ("echo $V\nexec srv", "not expanded"),
        ("exec srv '$V'", "not expanded"),
        ("exec srv \\$V", "not expanded"),
        ("exec srv $VX", "not expanded"),
        ("exec srv ${V%x}", "not expanded"),
        ('exec srv "$V"', "in quotes"),
        ('exec srv "${V:-}"', "in quotes"),
        ("exec srv x$V", "glued"),
        ("exec srv --page-size 1 $V", "gives --page-size itself"),
        ("exec srv --page-size=1 $V", "gives --page-size itself"),
        ('FLAGS="--port 1 --enable-x"\nexec srv $FLAGS $V', "gives --enable-x itself"),
        ("FLAGS=(--page-size 1)\nexec srv ${FLAGS[@]} $V", "gives --page-size itself"),
        ("V=\nexec srv $V", "sets the variable itself"),
        ("export V='--x 1'\nexec srv $V", "sets the variable itself"),
        ("exec srv ${V:---port 1}", "also replaces an empty value"),
        ("exec docker run image srv $V", "container tool"),
        ("exec srv $V 'x", "never closed"),
        ("exec srv $V &", "watches another process"),
        ("exec srv $V | tee l", "watches another process"),
        ("(exec srv $V)", "watches another process"),
        ("unset V\nexec srv $V", "changes the variable"),
        ("read V </f\nexec srv $V", "changes the variable"),
        ("for V in a; do :; done\nexec srv $V", "changes the variable"),
        ("IFS=,\nexec srv $V", "IFS changes"),
        ("exec srv $V\r", "glued"),
        ("cmd=(srv $V)\nexec ${cmd[@]}", "not expanded"),
        ("exec sh -c 'srv $V'", "not expanded"),
    ],
)
def test_a_script_that_does_not_is_refused_with_what_to_write(script, why):
    with pytest.raises(UnitUnsupportedError, match=why) as caught:
        check_script("#!/bin/sh\n" + script.replace("V", V) + "\n", "/opt/start.sh", V, TUNED)

    assert caught.value.hint


def test_zsh_splits_no_variables():
    with pytest.raises(UnitUnsupportedError, match="zsh"):
        check_script(f"#!/usr/bin/zsh\nexec srv ${V}\n", "/opt/start.sh", V, TUNED)


@pytest.mark.parametrize(
    ("first", "is_script"),
    [
        ("#!/bin/sh", True),
        ("#!/bin/bash -e", True),
        ("#! /usr/bin/env bash", True),
        ("#!/usr/bin/env -S bash -e", True),
        ("#!/usr/bin/python3", False),
        ("#!/usr/bin/env python3", False),
        ("#!/bin/fish", False),
        ("echo", False),
        ("", False),
    ],
)
def test_a_script_of_a_shell_is_known_by_its_first_line(first, is_script):
    assert is_shell_script(first + "\n#!/bin/sh\n") == is_script


@pytest.mark.parametrize("bad", ["a b", "", "*", "?", "[x]", "'", '"', "\\", "a\tb", "$X", "`id`", "~", "é", '{"a":1}'])
def test_flags_that_a_shell_would_change_are_refused(bad):
    with pytest.raises(UnitUnsupportedError, match="cannot reach the server"):
        join_arguments(["--note", bad], V)
