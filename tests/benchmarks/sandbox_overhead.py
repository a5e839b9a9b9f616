"""What does judging one program in the sandbox cost? ``python -m tests.benchmarks.sandbox_overhead [--rounds 40]``.

Interleaved in random order, so that whoever else uses the machine slows all of them alike: the bare interpreter, a
program that is judged, and the same with parts taken away. The overhead is a judged program minus the bare interpreter,
median over rounds; the ratio is taken within rounds.
"""

from __future__ import annotations

import argparse
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from autotune.evaluation import sandbox as sandbox_module
from autotune.evaluation.problem import HiddenTest, Problem
from autotune.evaluation.sandbox import Sandbox
from autotune.trial import Verdict

PROBLEM = Problem("f", "easy", "numbers", "", tuple(HiddenTest(str(number), number + 1) for number in range(5)))
RIGHT = "def f(x):\n    return x + 1\n"
WITHOUT_WORLD = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); import autotune.evaluation.own_world as w; "
    "w.enter = lambda *_: []; w.become_nobody = lambda *_: False; "
    "from autotune.evaluation.isolated_program import main; main()"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    rounds = parser.parse_args().rounds
    sandbox = Sandbox(30.0, 512 << 20)
    print("layers:", ", ".join(sandbox.check()))
    whole = sandbox_module._START

    def bare() -> None:
        subprocess.run([sys.executable, "-I", "-S", "-B", "-X", "utf8", "-c", "pass"], check=True)

    def judged() -> None:
        sandbox_module._START = whole
        assert sandbox.judge(PROBLEM, RIGHT).verdict is Verdict.PASSED

    def without_world() -> None:
        sandbox_module._START = WITHOUT_WORLD
        assert sandbox.judge(PROBLEM, RIGHT).verdict is Verdict.PASSED

    kinds: dict[str, Callable[[], None]] = {
        "bare interpreter": bare,
        "judged": judged,
        "judged, Landlock and seccomp alone": without_world,
    }
    wall: dict[str, list[float]] = {name: [] for name in kinds}
    cpu: dict[str, list[float]] = {name: [] for name in kinds}
    rng = random.Random(1)  # noqa: S311 - an order
    for _ in range(rounds):
        for name in rng.sample(list(kinds), len(kinds)):
            before = _child_cpu_s()
            start_s = time.perf_counter()
            kinds[name]()
            wall[name].append(time.perf_counter() - start_s)
            cpu[name].append(_child_cpu_s() - before)
    for name in kinds:
        extra = [1000 * (one - other) for one, other in zip(wall[name], wall["bare interpreter"], strict=True)]
        ratio = [one / other for one, other in zip(wall[name], wall["bare interpreter"], strict=True)]
        print(
            f"{name:36s} {1000 * statistics.median(wall[name]):6.1f} ms wall, least {1000 * min(wall[name]):5.1f}; "
            f"{1000 * statistics.median(cpu[name]):5.1f} ms CPU; over the bare interpreter "
            f"{statistics.median(extra):+6.1f} ms, ratio {statistics.median(ratio):.2f}"
        )


def _child_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
