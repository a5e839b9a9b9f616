from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from autotune import measuring_mark
from autotune.errors import HostBusyError
from autotune.measuring_mark import Work, WorkMark, find_workers

PROGRAM = """
import sys
from autotune import measuring_mark
from autotune.measuring_mark import Work, WorkMark
measuring_mark.PREFIX = sys.argv[1]
work = Work[sys.argv[2]]
with WorkMark(work), WorkMark(work):
    print("marked", flush=True)
    sys.stdin.readline()
print("done", flush=True)
sys.stdin.readline()
"""


@contextmanager
def started(work: Work) -> Iterator[subprocess.Popen[str]]:
    """Another process that does some work until it reads a line, and lives until it reads another."""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, measuring_mark.PREFIX, work.name],
        cwd=Path(__file__).parents[1],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        yield process


@contextmanager
def working_elsewhere(work: Work) -> Iterator[int]:
    """The id of another process that does some work."""
    with started(work) as process:
        yield process.pid
        process.kill()


@pytest.fixture(autouse=True)
def _marks_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring_mark, "PREFIX", f"autotune-test-{os.getpid()}")


def test_a_process_that_works_is_seen_until_its_work_ends_or_it_is_killed():
    with started(Work.MEASURING) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert find_workers(Work.MEASURING) == (process.pid,)
        assert find_workers(Work.JUDGING) == ()
        process.stdin.write("\n")
        process.stdin.flush()
        process.stdout.readline()
        assert find_workers(Work.MEASURING) == ()

    with started(Work.JUDGING) as process:
        assert find_workers(Work.JUDGING) == (process.pid,)
        process.kill()
    assert find_workers(Work.JUDGING) == ()


@pytest.mark.parametrize(
    ("theirs", "ours", "words"),
    [
        (Work.JUDGING, Work.MEASURING, "evaluates on this machine"),
        (Work.MEASURING, Work.JUDGING, "measures on this machine"),
    ],
)
def test_measuring_and_judging_exclude_each_other_whichever_began(theirs, ours, words):
    with working_elsewhere(theirs) as pid:
        with pytest.raises(HostBusyError, match=f"process {pid} of autotune {words}"), WorkMark(ours):
            pass
        with WorkMark(theirs):
            assert find_workers(theirs) == (pid,)

    with WorkMark(ours):
        pass


def test_who_is_refused_leaves_no_mark():
    with started(Work.JUDGING) as process:
        with pytest.raises(HostBusyError), WorkMark(Work.MEASURING):
            pass
        marks = Path("/proc/net/unix").read_text(encoding="ascii", errors="replace")
        process.kill()

    assert f"{measuring_mark.PREFIX}-measuring-{os.getpid()}-" not in marks


def test_our_own_mark_is_nobody_elses():
    with WorkMark(Work.MEASURING), WorkMark(Work.JUDGING):
        assert find_workers(Work.MEASURING) == ()
