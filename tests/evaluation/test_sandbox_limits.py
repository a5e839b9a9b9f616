"""How much time, memory and output may a judged program take, and what is left of it?"""

from __future__ import annotations

import os
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from autotune.evaluation import sandbox as sandbox_module
from autotune.trial import ProblemResult, Verdict
from tests.evaluation.judging import RIGHT, judge

pytestmark = pytest.mark.usefixtures("scratch")


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


def test_threads_left_running_do_not_hold_the_judge():
    code = (
        "import threading, time\n"
        "for _ in range(5):\n    threading.Thread(target=lambda: time.sleep(600)).start()\n" + RIGHT
    )
    started_s = time.monotonic()

    assert judge(code).verdict is Verdict.PASSED
    assert time.monotonic() - started_s < 10


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
