"""Each wall holds alone: what the one around it would have stopped is stopped by the other one too."""

from __future__ import annotations

import os
import socket

import pytest

from autotune.errors import SandboxUnavailable
from autotune.evaluation import own_world
from autotune.evaluation import sandbox as sandbox_module
from autotune.evaluation.confinement import LANDLOCK, SECCOMP
from autotune.evaluation.problem import HiddenTest, Problem
from autotune.evaluation.sandbox import DEMANDED, MEMORY_CGROUP, Sandbox
from autotune.trial import Verdict
from tests.evaluation.attacks import ATTACKS

PROBLEM = Problem("f", "easy", "numbers", "", (HiddenTest("1", 2), HiddenTest("5", 6)))
RIGHT = "def f(x):\n    return x + 1\n"
OUTWARD = (
    "network, a connection",
    "a local socket of the judge",
    "reading keys",
    "killing the judge",
    "/proc of the judge",
    "disk bomb",
    "deleting a key",
)


def start_with(change: str) -> str:
    return (
        "import sys; sys.path.insert(0, sys.argv.pop(1)); import autotune.evaluation.confinement as c, "
        f"autotune.evaluation.own_world as w\n{change}\n"
        "from autotune.evaluation.isolated_program import main; main()"
    )


ALONE = start_with("w.enter = lambda *_: []; w.become_nobody = lambda *_: False")
WITHOUT_INNER = start_with("def fail(*_): raise OSError(38, 'not here')\nc._restrict_files = c._filter_calls = fail")


def aim(name: str, folder: str, port: int) -> str:
    code = next(attack for attack in ATTACKS if attack.name == name).program
    for word, value in (("PID", str(os.getpid())), ("PORT", str(port)), ("SOCKET", "x"), ("FOLDER", folder)):
        code = code.replace(f"@{word}@", value)
    return code


@pytest.mark.parametrize(
    "start", [ALONE, WITHOUT_INNER], ids=["Landlock and seccomp alone", "a world of its own alone"]
)
def test_what_reaches_outward_is_stopped_by_either_wall_alone(start, tmp_path, monkeypatch):
    probe = Sandbox(20.0, 256 << 20)
    if start == WITHOUT_INNER and own_world.FILES not in probe.check():
        pytest.skip("this machine gives no world of its own")
    monkeypatch.setattr(sandbox_module, "_START", start)
    (tmp_path / "key").write_text("canary")
    sandbox = Sandbox(20.0, 256 << 20, accept_gaps=True)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        programs = [(PROBLEM, aim(name, str(tmp_path), listener.getsockname()[1])) for name in OUTWARD]
        results = list(sandbox.judge_all(programs))
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()

    assert [name for name, result in zip(OUTWARD, results, strict=True) if result.verdict is Verdict.PASSED] == []
    assert (tmp_path / "key").read_text() == "canary"
    assert sandbox.judge(PROBLEM, RIGHT).verdict is Verdict.PASSED


def test_without_a_demanded_layer_a_program_is_run_only_when_gaps_are_accepted(monkeypatch):
    monkeypatch.setattr(sandbox_module, "_START", WITHOUT_INNER)

    layers = Sandbox(20.0, 256 << 20, accept_gaps=True).check()

    assert LANDLOCK not in layers
    assert SECCOMP not in layers
    with pytest.raises(SandboxUnavailable, match="not here"):
        Sandbox(20.0, 256 << 20).check()


def test_the_layers_are_named(monkeypatch):
    with_all = Sandbox(20.0, 256 << 20).check()
    monkeypatch.setattr(sandbox_module, "_START", ALONE)
    alone = Sandbox(20.0, 256 << 20).check()

    assert set(DEMANDED) <= set(with_all)
    assert set(alone) - {MEMORY_CGROUP} == set(DEMANDED)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_root_judges_as_nobody():
    result = Sandbox(20.0, 256 << 20).judge(
        Problem("f", "easy", "x", "", (HiddenTest("1", 1),)), "import os\ndef f(x): return os.getuid()"
    )

    assert "gave 18" in result.reason or "gave 65534" in result.reason  # 0x70000000 and above
