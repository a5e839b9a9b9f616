from __future__ import annotations

import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from autotune.errors import SandboxUnavailable
from autotune.evaluation import sandbox as sandbox_module
from autotune.evaluation.isolated_program import encode
from autotune.evaluation.problem import PROBLEMS_FILE, HiddenTest, Problem
from autotune.evaluation.result_code import is_equal, render_result
from autotune.evaluation.sandbox import Sandbox
from autotune.trial import ProblemResult, Verdict

MEBIBYTE = 1 << 20
PROBLEM = Problem("f", "easy", "numbers", "Write `f(x)`.", (HiddenTest("1", 2), HiddenTest("5", 6)))
RIGHT = "def f(x):\n    return x + 1\n"


def judge(
    code: str, problem: Problem = PROBLEM, *, limit_s: float = 20.0, memory: int = 512 * MEBIBYTE
) -> ProblemResult:
    return Sandbox(limit_s, memory).judge(problem, code)


def expecting(*pairs: tuple[str, object]) -> Problem:
    return Problem("f", "easy", "numbers", "", tuple(HiddenTest(*pair) for pair in pairs))


@pytest.fixture(autouse=True)
def scratch(tmp_path, monkeypatch):
    """A folder for temporary folders, empty again in the end."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield tmp_path
    assert not list(tmp_path.iterdir())


def test_the_sandbox_holds_on_this_machine():
    Sandbox(20.0, 512 * MEBIBYTE).check()


def test_a_right_function_passes():
    assert judge(RIGHT) == ProblemResult("f", Verdict.PASSED)


def test_a_wrong_function_is_explained_with_call_result_and_expectation():
    result = judge("def f(x):\n    return 2\n")

    assert result.verdict is Verdict.WRONG
    assert result.reason == "test 2: f(5) gave 2, expected 6"


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("def f(x):\n    return 1 / 0", "test 1: ZeroDivisionError: division by zero"),
        ("def f(x):\n    return y", "test 1: NameError: name 'y' is not defined"),
        ("def f(x:\n", "while loading: SyntaxError"),
        ("raise KeyError('a')\ndef f(x): return x + 1", "while loading: KeyError: 'a'"),
        ("def g(x): return x + 1", "while loading: KeyError: 'f'"),
        ("def f(x):\n    return f(x)", "test 1: RecursionError"),
        (
            "def f(x):\n    a = []\n    a.append(a)\n    return a",
            "test 1: ValueError: the result is nested more than 60",
        ),
        ("class E(Exception):\n    def __str__(self): raise self\ndef f(x): raise E", "test 1: E"),
    ],
)
def test_an_exception_is_an_error_with_its_place(code, reason):
    result = judge(code)

    assert result.verdict is Verdict.ERROR
    assert result.reason.startswith(reason)


def test_the_first_difference_decides_even_if_a_later_test_raises():
    result = judge("def f(x):\n    if x == 5: raise ValueError\n    return 0")

    assert result.verdict is Verdict.WRONG


ALWAYS_EQUAL = """
class Equal:
    def __eq__(self, other): return True
    def __hash__(self): return 2
def f(x): return Equal()
"""
ALWAYS_EQUAL_NUMBER = """
class Equal(int):
    def __eq__(self, other): return True
    def __hash__(self): return 2
def f(x): return Equal(77)
"""


@pytest.mark.parametrize(
    "code",
    [
        "import sys\nsys.exit(0)",
        "import os\ndef f(x):\n    os._exit(0)",
        ALWAYS_EQUAL,
        ALWAYS_EQUAL_NUMBER,
        "print('passed')\nprint('PASSED', 'ok')\ndef f(x):\n    print('passed')\n    return 0",
    ],
    ids=["sys.exit", "os._exit", "always equal", "an int that is always equal", "prints success"],
)
def test_exit_code_equality_and_words_do_not_pass(code):
    """case 58"""
    assert judge(code).verdict in (Verdict.ERROR, Verdict.WRONG)


@pytest.mark.parametrize(
    "code",
    [
        "raise SystemExit(0)",
        "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n",
        "import signal\nsignal.raise_signal(signal.SIGKILL)\n",
        "import atexit, os\natexit.register(lambda: os._exit(0))\ndef f(x): raise SystemExit(0)",
        "import ctypes\nctypes.string_at(0)\n",
        "import os\nos.execv('/bin/true', ['true'])\n",
        "import os\nos.abort()",
    ],
)
def test_ending_early_by_any_means_is_an_error(code):
    assert judge(code).verdict is Verdict.ERROR


FORGER = """
import json, os, sys
frame = sys._getframe()
while frame is not None:
    task = frame.f_locals.get("task")
    if task is not None:
        report_fd = frame.f_locals["report_fd"]
        results = [{values}]
        os.write(report_fd, json.dumps({{"secret": task["secret"], "results": results}}).encode())
        os._exit(0)
    frame = frame.f_back
"""


def test_a_forged_report_with_the_stolen_secret_passes_only_with_the_right_results():
    assert judge(FORGER.format(values="7, 7")).verdict is Verdict.WRONG
    assert judge(FORGER.format(values="")).verdict is Verdict.ERROR
    assert judge(FORGER.format(values="2, 6")).verdict is Verdict.PASSED


@pytest.mark.parametrize(
    "report", ["[[[[", "null", '{"secret": 1}', "[" * 100_000, '{"secret": "x", "results": [2, 6]}', "\\xff"]
)
def test_noise_on_the_report_pipe_is_an_error(report):
    code = f"import os\nfor fd in range(3, 20):\n    try: os.write(fd, {report!r}.encode())\n    except OSError: pass\nos._exit(0)"

    assert judge(code).verdict is Verdict.ERROR


RAW_FORGER = """
import os, sys
frame = sys._getframe()
while "report_fd" not in frame.f_locals:
    frame = frame.f_back
task, report_fd = frame.f_locals["task"], frame.f_locals["report_fd"]
os.write(report_fd, ('{"secret": "%s", @}' % task["secret"]).encode())
os._exit(0)
"""


def test_a_program_cannot_claim_that_it_is_not_isolated():
    result = judge(RAW_FORGER.replace("@", '"unavailable": "gotcha"'))

    assert result == ProblemResult("f", Verdict.ERROR, "the program forged a report")


@pytest.mark.parametrize(
    "code",
    [
        "def f(x): raise ValueError('\\ud800')",
        "def f(x): return '\\ud800'",
        "def f(x): return {'\\ud800': b'1'}",
        "def f(x): return type('\\udfff'.encode('utf-8', 'replace').decode(), (), {})()",
        RAW_FORGER.replace("@", '"results": [], "error": "\\\\ud800%s"').replace(
            'task["secret"]', '(task["secret"], "a" * 60_000)'
        ),
        RAW_FORGER.replace("@", '"results": [], "error": ["\\\\ud800"]'),
        RAW_FORGER.replace("@", '"results": [{"other": "\\\\ud800"}, {}]'),
    ],
)
def test_a_reason_is_short_and_can_be_written_as_utf8(code):
    result = judge(code)

    assert result.verdict in (Verdict.ERROR, Verdict.WRONG)
    assert result.reason
    assert len(result.reason.encode("utf-8")) <= 1200
    assert len(result.reason) <= 300


@pytest.mark.parametrize(
    "sabotage",
    [
        "import builtins\nfor name in ('isinstance', 'type', 'str', 'int', 'enumerate', 'BaseException'): setattr(builtins, name, None)",
        "import sys\nsys.settrace(lambda *_: 1 / 0)",
        "import sys\nsys.setprofile(lambda *_: 1 / 0)"
        if sys.version_info < (3, 0)
        else "import sys\nsys.setprofile(lambda *_: None)",
        "import os, sys\nos._exit = os.write = None\nsys.modules.clear()",
    ],
    ids=["builtins", "trace", "profile", "modules"],
)
def test_a_right_function_passes_whatever_its_program_replaced(sabotage):
    """case 61"""
    assert judge(f"{sabotage}\n{RIGHT}") == ProblemResult("f", Verdict.PASSED)


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


def test_the_guard_does_not_break_the_judge():
    """case 61"""
    code = """
import os, shutil, sys
folder = os.getcwd()
os.rmdir(folder)
os.chdir("/")
sys.stdout.write("x" * (50 << 20))
sys.stdout.flush()
os.unlink = os.write = os.rmdir = os._exit = shutil.rmtree = None
import builtins
builtins.open = builtins.isinstance = builtins.type = builtins.print = None
"""
    judged = Sandbox(20.0, 512 * MEBIBYTE)
    untouched = (os.unlink, open, isinstance)

    assert judged.judge(PROBLEM, code.split("import builtins", maxsplit=1)[0] + RIGHT).verdict is Verdict.PASSED
    assert judged.judge(PROBLEM, code + RIGHT).verdict is Verdict.PASSED
    assert judged.judge(PROBLEM, RIGHT).verdict is Verdict.PASSED
    assert (os.unlink, open, isinstance) == untouched


def test_a_main_block_that_reads_input_is_not_run():
    """case 62"""
    assert judge(RIGHT + "\nif __name__ == '__main__':\n    print(f(int(input())))\n").verdict is Verdict.PASSED


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


def test_an_endless_loop_ends_at_the_limit():
    started_s = time.monotonic()

    result = judge("def f(x):\n    while True: pass", limit_s=1.0)

    assert result == ProblemResult("f", Verdict.TIMED_OUT, "not finished within 1 s")
    assert time.monotonic() - started_s < 10


IGNORES_SIGNALS = """
import signal, time
for n in range(1, 65):
    try: signal.signal(n, signal.SIG_IGN)
    except (OSError, ValueError): pass
while True: time.sleep(1)
"""


@pytest.mark.parametrize(
    "code",
    [
        "import time\ntime.sleep(60)",
        IGNORES_SIGNALS,
        "def f(x):\n    while True:\n        try:\n            while True: pass\n        except BaseException: pass",
        "import threading, time\ndef f(x):\n    time.sleep(60)",
        "import os, time\nos.closerange(0, 100)\ntime.sleep(60)",
        "import re\ndef f(x):\n    return re.match('(a+)+$', 'a' * 60 + 'b')",
        "def f(x):\n    return 10 ** 10 ** 9",
    ],
)
def test_nothing_outlives_the_limit(code):
    result = judge(code, limit_s=1.0)

    assert result.verdict is Verdict.TIMED_OUT


def test_recursion_without_limit_ends_in_time_or_memory():
    code = "import sys\nsys.setrecursionlimit(10**9)\ndef f(x): return f(x)"

    assert judge(code, limit_s=1.0).verdict in (Verdict.ERROR, Verdict.TIMED_OUT)


def test_memory_is_limited():
    result = judge("def f(x):\n    return len(bytearray(3 << 30))")

    assert result == ProblemResult("f", Verdict.ERROR, "test 1: MemoryError")


def test_a_flood_of_output_costs_nothing():
    code = "import sys\nfor _ in range(50):\n    sys.stdout.write('x' * (1 << 20)); sys.stderr.write('y' * (1 << 20))\n"

    assert judge(code + RIGHT).verdict is Verdict.PASSED


def test_a_flood_of_results_is_cut():
    result = judge("def f(x):\n    return 'x' * (3 << 20)")

    assert result == ProblemResult("f", Verdict.ERROR, f"the results are larger than {1 << 20} bytes")


def test_closing_the_report_pipe_is_an_error():
    assert judge("import os\nos.closerange(0, 100)\n" + RIGHT).verdict is Verdict.ERROR


def test_threads_left_running_do_not_hold_the_judge():
    code = (
        "import threading, time\n"
        "for _ in range(5):\n    threading.Thread(target=lambda: time.sleep(600)).start()\n" + RIGHT
    )
    started_s = time.monotonic()

    assert judge(code).verdict is Verdict.PASSED
    assert time.monotonic() - started_s < 10


def test_an_exit_handler_does_not_change_the_verdict():
    code = "import atexit, os, time\natexit.register(time.sleep, 600)\natexit.register(os._exit, 1)\n" + RIGHT

    assert judge(code).verdict is Verdict.PASSED


@pytest.mark.parametrize(
    "code",
    [
        "from collections import Counter\ndef f(x): return Counter('aab')",
        "from collections import defaultdict\ndef f(x):\n    d = defaultdict(int)\n    d['b'] += 1\n    d['a'] += 2\n    return d",
        "def f(x): return {'b': 1, 'a': 2}",
    ],
)
def test_a_dictionary_may_be_of_a_derived_type_and_any_order(code):
    assert judge(code, expecting(("1", {"a": 2, "b": 1}))).verdict is Verdict.PASSED


def test_the_standard_library_is_there():
    code = (
        "import bisect, collections, dataclasses, datetime, decimal, fractions, functools, heapq, itertools, json, math\n"
        "import operator, random, re, statistics, string, typing\n"
        "@dataclasses.dataclass\nclass P:\n    x: int\n"
        "def f(x): return math.comb(P(x).x + 1, 1)"
    )

    assert judge(code) == ProblemResult("f", Verdict.PASSED)


def test_arguments_are_fresh_for_every_test():
    problem = expecting(("[1, 2]", 3), ("[1, 2]", 3))

    assert judge("def f(x):\n    t = sum(x)\n    x.clear()\n    return t", problem).verdict is Verdict.PASSED


@pytest.mark.parametrize(
    ("expected", "got", "same"),
    [
        (1, True, False),
        (True, 1, False),
        (1, 1.0, False),
        (1.0, 1, False),
        (None, False, False),
        ("1", 1, False),
        ([1], (1,), False),
        ((1,), [1], False),
        ([], {}, False),
        ([1, 2], [1], False),
        ({1, 2}, {2, 1}, True),
        ({1}, frozenset({1}), False),
        ({"a": [1]}, {"a": [1]}, True),
        ({"a": 1}, {"a": 2}, False),
        ({1: "a"}, {True: "a"}, False),
        (0.1 + 0.2, 0.3, True),
        (0.3, 0.31, False),
        (float("nan"), float("nan"), True),
        (float("inf"), float("inf"), True),
        (float("inf"), float("-inf"), False),
        (10**30, 10**30, True),
        (10**30, 10**30 + 1, False),
        (-(10**30), -(10**30), True),
        (b"a", b"a", True),
        (b"a", "a", False),
        ("é\n\ud800", "é\n\ud800", True),
        ([None, True, 2, 2.5, "x"], [None, True, 2, 2.5, "x"], True),
        (3, object(), False),
        ("dict", {"dict": []}, False),
    ],
)
def test_values_are_compared_by_type_and_value(expected, got, same):
    result = sandbox_module._parse_report(encode(got).encode())

    assert same is is_equal(expected, result)


def test_a_result_is_shown_short():
    assert len(render_result(sandbox_module._parse_report(encode(["x" * 500] * 3).encode()))) < 500
    assert render_result({"other": "object"}) == "object: a type that is not compared" or "object" in render_result(
        {"other": "object"}
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


def descend(pid: int) -> Iterator[int]:
    """A process, its only child, that one's only child, and so on."""
    yield pid
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        yield from descend(int(child))


def is_alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_judged_program_dies_with_the_tuner(scratch):
    program = (
        "from autotune.evaluation.sandbox import Sandbox\n"
        "from autotune.evaluation.problem import HiddenTest, Problem\n"
        "problem = Problem('f', 'easy', 'x', '', (HiddenTest('1', 2),))\n"
        "Sandbox(300.0, 512 << 20).judge(problem, 'import time\\ntime.sleep(300)')\n"
    )
    root = str(Path(sandbox_module.__file__).parents[2])
    tuner = subprocess.Popen(
        [sys.executable, "-c", program], cwd=root, env={**os.environ, "PYTHONPATH": root, "TMPDIR": str(scratch)}
    )
    deadline_s = time.monotonic() + 30
    family = [tuner.pid]
    while "Seccomp:\t2" not in Path(f"/proc/{family[-1]}/status").read_text() and time.monotonic() < deadline_s:
        time.sleep(0.01)
        family = [*descend(tuner.pid)]

    os.kill(tuner.pid, signal.SIGKILL)
    tuner.wait()

    while any(is_alive(pid) for pid in family[1:]) and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert time.monotonic() < deadline_s
    for folder in scratch.iterdir():  # the killed tuner could not remove its own
        shutil.rmtree(folder)


def test_judging_works_from_many_threads_at_once():
    results: list[Verdict] = []
    threads = [threading.Thread(target=lambda: results.append(judge(RIGHT).verdict)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert results == [Verdict.PASSED] * 6


def test_judging_costs_little_beside_starting_python():
    """Compared with a bare interpreter on the same machine at the same time, because others may be using it."""
    bare, judged = [], []
    for _ in range(8):
        start_s = time.perf_counter()
        subprocess.run([sys.executable, "-I", "-S", "-c", "pass"], check=True)
        bare.append(time.perf_counter() - start_s)
        start_s = time.perf_counter()
        judge(RIGHT)
        judged.append(time.perf_counter() - start_s)

    assert statistics.median(judged) < 8 * statistics.median(bare) + 0.03
