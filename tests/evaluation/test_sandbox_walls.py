"""What is out of reach of a judged program, and what happens on a machine without a wall?"""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from autotune.errors import SandboxUnavailable
from autotune.evaluation import sandbox as sandbox_module
from autotune.evaluation.problem import PROBLEMS_FILE
from autotune.evaluation.sandbox import Sandbox
from autotune.trial import ProblemResult, Verdict
from tests.evaluation.judging import MEBIBYTE, PROBLEM, RIGHT, expecting, judge

pytestmark = pytest.mark.usefixtures("scratch")


def test_the_sandbox_holds_on_this_machine():
    Sandbox(20.0, 512 * MEBIBYTE).check()


SEARCH = """
import gc, os, sys
found = []
minus = int("-424242")
def look(value, depth=0):
    if depth > 6: return
    if type(value) is int and value + minus == 0: found.append(value)
    if isinstance(value, dict):
        for item in list(value.values()): look(item, depth + 1)
    elif isinstance(value, (list, tuple, set)):
        for item in list(value): look(item, depth + 1)
for thing in gc.get_objects():
    look(thing, 4)
frame = sys._getframe()
while frame is not None:
    look(frame.f_locals)
    look(frame.f_globals, 4)
    frame = frame.f_back
def reads(path):
    try:
        return str(-minus).encode() in open(path, "rb").read()
    except OSError:
        return False
for name in ("environ", "cmdline", "mem", "maps"):
    for pid in ("self", os.getppid()):
        if reads("/proc/%s/%s" % (pid, name)): found.append(name)
def f(x):
    return found[0] if found else 0
"""


def test_the_expected_values_are_nowhere_in_the_judged_process():
    result = judge(SEARCH, expecting(("1", 424242)))

    assert result.verdict is Verdict.WRONG
    assert result.reason == "test 1: f(1) gave 0, expected 424242"


def test_input_is_closed_even_where_ours_has_something_to_read():
    """case 62"""
    read_end, write_end = os.pipe()
    os.write(write_end, b"41\n")
    ours = os.dup(0)
    os.dup2(read_end, 0)
    try:
        result = judge(f"input()\n{RIGHT}")
    finally:
        os.dup2(ours, 0)
        for descriptor in (ours, read_end, write_end):
            os.close(descriptor)

    assert result.verdict is Verdict.ERROR
    assert "EOFError" in result.reason


def refused(action: str, error: str = "OSError") -> str:
    """A program that is right only if ``action`` is refused."""
    return f"""
import os, socket, signal, threading
try:
    {action}
    escaped = True
except {error}:
    escaped = False
def f(x):
    return x if escaped else x + 1
"""


def test_no_network_is_reached():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        assert judge(refused(f"socket.create_connection(('127.0.0.1', {port}), 2)")).verdict is Verdict.PASSED
        assert judge(refused("socket.socket(socket.AF_INET, socket.SOCK_DGRAM)")).verdict is Verdict.PASSED
        assert judge(refused("socket.socketpair()")).verdict is Verdict.PASSED
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.mark.parametrize(
    "action",
    [
        "os.fork()",
        "os.posix_spawn('/bin/true', ['true'], {})",
        "__import__('subprocess').run(['/bin/true'])",
        "os.system('true') and None or (_ for _ in ()).throw(OSError)",
        "os.kill(os.getppid(), 0)",
        "os.kill(1, 0)",
        "os.killpg(os.getpgrp(), 0)",
        "os.setsid()",
        "os.nice(-5)",
        "os.chmod('/tmp', 0o777)",
        "os.mkdir('x')",
        "os.symlink('a', 'b')",
        "open('x', 'w')",
        "open('/tmp/autotune_escape', 'a')",
        "os.open('/dev/shm/x', os.O_CREAT | os.O_RDWR)",
        "os.open('/tmp', os.O_TMPFILE | os.O_RDWR)",
        "os.memfd_create('x')",
        "os.truncate('/tmp', 0)",
        "open('/etc/passwd').read()",
        "os.listdir('/')",
        "os.listdir('/proc')",
        "open('/proc/self/environ').read()",
        "open('/proc/%d/mem' % os.getppid(), 'rb')",
        "os.mkfifo('x')",
        "os.chroot('/')",
        "os.setuid(12345)",
        "__import__('resource').setrlimit(__import__('resource').RLIMIT_CPU, (99, 99))",
        "__import__('fcntl').fcntl(0, __import__('fcntl').F_SETOWN, os.getppid())",
        "__import__('fcntl').ioctl(0, 0x5412, b'x')",
    ],
)
def test_what_a_pure_function_does_not_need_is_refused(action):
    assert judge(refused(action, "(OSError, ValueError)")) == ProblemResult("f", Verdict.PASSED)


def test_the_hidden_tests_cannot_be_read():
    for path in (PROBLEMS_FILE, Path(__file__), Path(sandbox_module.__file__)):
        assert judge(refused(f"open({str(path)!r}).read()")).verdict is Verdict.PASSED


def test_the_environment_is_empty(monkeypatch):
    monkeypatch.setenv("AUTOTUNE_SECRET", "1")

    assert judge("import os\ndef f(x):\n    return dict(os.environ)", expecting(("1", {}))).reason in (
        "",
        "test 1: f(1) gave {'LC_CTYPE': 'C.UTF-8'}, expected {}",
    )


def test_a_machine_without_a_layer_is_said_to_be_one(monkeypatch):
    monkeypatch.setattr(
        sandbox_module,
        "_START",
        "import sys; sys.path.insert(0, sys.argv.pop(1)); import autotune.evaluation.confinement as c; c._CREATE_RULESET = 9999\n"
        "from autotune.evaluation.isolated_program import main; main()",
    )

    with pytest.raises(SandboxUnavailable, match="Landlock is not offered") as caught:
        Sandbox(20.0, 512 * MEBIBYTE).judge(PROBLEM, RIGHT)
    assert "evaluation.enabled = false" in str(caught.value)


def test_a_sandbox_with_a_hole_is_refused_before_any_program_runs(monkeypatch):
    monkeypatch.setattr(
        sandbox_module,
        "_START",
        "import sys; sys.path.insert(0, sys.argv.pop(1)); import autotune.evaluation.confinement as c\n"
        "c._filter_calls = lambda machine: None\n"
        "from autotune.evaluation.isolated_program import main; main()",
    )

    with pytest.raises(SandboxUnavailable, match="open to generated code: network, local sockets, processes"):
        Sandbox(20.0, 512 * MEBIBYTE).check()
