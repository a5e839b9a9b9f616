from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from autotune.measuring_mark import MeasuringMark, find_measuring

PROGRAM = """
import sys
from autotune.measuring_mark import MeasuringMark
with MeasuringMark(), MeasuringMark():
    print("marked", flush=True)
    sys.stdin.readline()
print("done", flush=True)
sys.stdin.readline()
"""


def test_a_process_that_measures_is_seen_until_it_ends_to_measure_or_is_killed():
    root = Path(__file__).parents[1]
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        assert process.pid in find_measuring()
        process.stdin.write("\n")
        process.stdin.flush()
        process.stdout.readline()
        assert process.pid not in find_measuring()

    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.kill()
    assert process.pid not in find_measuring()


def test_our_own_mark_is_nobody_elses():
    with MeasuringMark():
        assert os.getpid() not in find_measuring()
