"""Does a program written by a model solve a problem? It runs where it can harm nothing, and is judged from outside.

Each program gets a process of its own in a world of its own (:mod:`autotune.evaluation.own_world`) that gives up its
rights (:mod:`autotune.evaluation.confinement`), a control group, an empty environment, closed input, discarded output and
an empty folder; the group is killed at the deadline. Results come back over a separate pipe after the last test, with a
secret of this run, and are compared here, by type and value.
"""

from __future__ import annotations

import contextlib
import json
import marshal
import math
import os
import secrets
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotune.errors import SandboxUnavailable
from autotune.evaluation import own_world
from autotune.evaluation.confinement import LANDLOCK, LIMITS, NO_RIGHTS, SECCOMP
from autotune.evaluation.isolated_program import CONFINED
from autotune.evaluation.memory_cgroup import MemoryCgroup, remove_leftovers
from autotune.evaluation.problem import HiddenTest, Problem
from autotune.evaluation.result_code import crop, is_equal, render_result
from autotune.trial import ProblemResult, Verdict

MEMORY_CGROUP = "memory control group"
DEMANDED = (LIMITS, NO_RIGHTS, LANDLOCK, SECCOMP)
"""Layers without which no program is run unless the settings say so in words."""
ADDED = (own_world.USER, own_world.PROCESSES, own_world.NETWORK, own_world.FILES, MEMORY_CGROUP)
"""Layers that are put around these wherever the machine allows it."""
_PACKAGE_ROOT = Path(__file__).resolve().parent.parent.parent
_START = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from autotune.evaluation.isolated_program import main; main()"
)
_HINT = (
    "Linux 5.13 or newer with Landlock and seccomp is needed; evaluation.enabled = false goes without, and "
    "evaluation.isolation says how to run programs all the same"
)
_LARGEST_REPORT = 1 << 20
_LONGEST_REASON = 300
_LEAVE_S = 2.0
"""How long a process may take to end the one that it waits for, before both are killed."""

_PROBE = """
import os, signal, socket

def refuses(action):
    try:
        action()
    except OSError:
        return True
    return False

def fork():
    if os.fork() == 0:
        os._exit(0)

def probe(parent, secret):
    return [
        refuses(lambda: socket.socket(socket.AF_INET)),
        refuses(lambda: socket.socket(socket.AF_UNIX)),
        refuses(fork),
        refuses(lambda: os.kill(parent, 0)),
        refuses(lambda: open(secret).read()),
        refuses(lambda: open("/proc/self/environ").read()),
        refuses(lambda: open("new", "w")),
    ]
"""
_PROBED = ("network", "local sockets", "processes", "signals", "the problems", "/proc", "new files")


@dataclass(frozen=True, slots=True)
class _Ending:
    """How a process ended: its report, or ``None``, whether and how it was confined first, and what ended it."""

    report: Any
    confined: bool
    layers: tuple[str, ...]
    timed_out: bool
    oversized: bool
    returncode: int


class Sandbox:
    """Judges programs, each in a confined process of its own.

    Args:
        time_limit_s: wall time of one program, start of the interpreter included, and of its CPU time.
        memory_bytes: address space of one program.
        accept_gaps: where layers are missing, run programs with those that hold.
    """

    def __init__(self, time_limit_s: float, memory_bytes: int, *, accept_gaps: bool = False) -> None:
        self._time_limit_s = time_limit_s
        self._memory_bytes = memory_bytes
        self._accept_gaps = accept_gaps
        self._layers: tuple[str, ...] = ()

    def check(self) -> tuple[str, ...]:
        """Run a program that tries to get out, before any other is run.

        Returns:
            The layers that hold here.

        Raises:
            SandboxUnavailable: a demanded layer is missing, or something that must be refused is not, and the settings
                do not accept that.
        """
        remove_leftovers()
        arguments = f"{os.getpid()}, {str(Path(__file__))!r}"
        probe = Problem("probe", "easy", "sandbox", "", (HiddenTest(arguments, [True] * len(_PROBED)),))
        results: list[Any] = []
        result = self._judge(probe, _PROBE, results.append)
        if result.verdict is Verdict.PASSED or self._accept_gaps:
            return self._layers
        held = results[0].get("list", []) if results and isinstance(results[0], dict) else []
        open_ways = [name for name, refused in zip(_PROBED, held, strict=False) if refused is not True]
        reason = f"open to generated code: {', '.join(open_ways)}" if open_ways else result.reason
        raise SandboxUnavailable(
            f"the sandbox does not hold here, {reason}",
            where="coding evaluation",
            hint=_HINT,
        )

    def judge(self, problem: Problem, code: str) -> ProblemResult:
        """Run one program against the hidden tests.

        Raises:
            SandboxUnavailable: the process could not be confined, so the program was not run.
        """
        return self._judge(problem, code, lambda _result: None)

    def judge_all(self, programs: Sequence[tuple[Problem, str]]) -> Iterator[ProblemResult]:
        """Judge several programs, as many at once as there are processors, and yield results in their order.

        Raises:
            SandboxUnavailable: as :meth:`judge`.
        """
        with ThreadPoolExecutor(max_workers=min(4, os.cpu_count() or 1)) as pool:
            yield from pool.map(lambda program: self.judge(*program), programs)

    def collect(self, code: str, entry_point: str, arguments: Sequence[str]) -> list[Any]:
        """Return what a program gives for each set of arguments, encoded, until its first exception or its end.

        Raises:
            SandboxUnavailable: as :meth:`judge`.
        """
        results: list[Any] = []
        problem = Problem(entry_point, "unknown", "", "", tuple(HiddenTest(text, None) for text in arguments))
        ending, secret = self._execute(problem, code)
        _check_available(ending)
        report = ending.report
        if isinstance(report, dict) and report.get("secret") == secret and isinstance(report.get("results"), list):
            results += report["results"]
        return results

    def _judge(self, problem: Problem, code: str, on_result: Callable[[Any], None]) -> ProblemResult:
        ending, secret = self._execute(problem, code)
        verdict, reason = _give_verdict(problem, ending, secret, self._time_limit_s, on_result)
        return ProblemResult(problem.name, verdict, make_printable(reason))

    def _execute(self, problem: Problem, code: str) -> tuple[_Ending, str]:
        """Run a program; its report is only believed with the secret that is returned."""
        secret = secrets.token_hex(16)
        with tempfile.TemporaryDirectory(prefix="autotune-", ignore_cleanup_errors=True) as folder:
            work = Path(folder) / "work"
            work.mkdir()
            root = Path(folder) / "root"
            root.mkdir()
            task = {
                "secret": secret,
                "folder": str(work),
                "root": str(root),
                "accept_gaps": self._accept_gaps,
                "cpu_s": math.ceil(self._time_limit_s) + 1,
                "memory_bytes": self._memory_bytes,
                "code": code,
                "entry_point": problem.entry_point,
                "arguments": [test.arguments for test in problem.tests],
            }
            with MemoryCgroup(self._memory_bytes) as cgroup:
                ending = self._run(marshal.dumps(task), cgroup)
        self._layers = ending.layers or self._layers
        return ending, secret

    def _run(self, task: bytes, cgroup: MemoryCgroup) -> _Ending:
        command = [sys.executable, "-I", "-S", "-B", "-X", "utf8", "-c", _START]
        deadline_s = time.monotonic() + self._time_limit_s
        task_out, task_in = os.pipe()
        report_out, report_in = os.pipe()
        try:
            process = subprocess.Popen(
                [*command, str(_PACKAGE_ROOT), str(task_out), str(report_in)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={},
                cwd="/",
                pass_fds=(task_out, report_in),
                start_new_session=True,
            )
        except BaseException:
            for descriptor in (task_out, task_in, report_out, report_in):
                os.close(descriptor)
            raise
        os.close(task_out)
        os.close(report_in)
        is_bounded = cgroup.add(process.pid)  # before it has the task, so before it starts anything
        data, timed_out = b"", True
        try:
            with os.fdopen(task_in, "wb") as pipe, contextlib.suppress(BrokenPipeError):
                pipe.write(task)
                pipe.flush()
            data, timed_out = _read(report_out, deadline_s)
            if not timed_out and len(data) <= _LARGEST_REPORT:
                timed_out = not _has_ended(process, deadline_s)
        finally:
            os.close(report_out)
            # The leader is not reaped yet, so neither it nor its group can be somebody else's.
            if own_world.PROCESSES in _read_layers(data) and not _has_ended(process, 0.0):
                os.kill(process.pid, signal.SIGTERM)
                _has_ended(process, time.monotonic() + _LEAVE_S)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        oversized = len(data) > _LARGEST_REPORT
        confined = data.startswith(CONFINED)
        layers: tuple[str, ...] = ()
        if confined:
            first, _, data = data.partition(b"\n")
            layers = (
                *first.removeprefix(CONFINED).decode("ascii", "replace").split(";"),
                *[MEMORY_CGROUP] * is_bounded,
            )
        report = None if oversized else _parse_report(data)
        return _Ending(report, confined, layers, timed_out, oversized, process.returncode)


def _read_layers(data: bytes) -> tuple[str, ...]:
    """The layers that a process named before it loaded the program; none before that."""
    if not data.startswith(CONFINED):
        return ()
    return tuple(data.partition(b"\n")[0].removeprefix(CONFINED).decode("ascii", "replace").split(";"))


def _read(descriptor: int, deadline_s: float) -> tuple[bytes, bool]:
    """Read to the end, the deadline or the size limit; say whether it was the deadline."""
    data = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while len(data) <= _LARGEST_REPORT:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0 or not selector.select(left_s):
                return bytes(data), True
            piece = os.read(descriptor, 1 << 16)
            if not piece:
                break
            data += piece
    return bytes(data), False


def _has_ended(process: subprocess.Popen[bytes], deadline_s: float) -> bool:
    """Wait for the process without reaping it."""
    while not os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG):
        if time.monotonic() >= deadline_s:
            return False
        time.sleep(0.001)
    return True


def _parse_report(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _give_verdict(
    problem: Problem, ending: _Ending, secret: str, limit_s: float, on_result: Callable[[Any], None]
) -> tuple[Verdict, str]:
    """Compare what came back with what is expected; the first difference or exception in test order decides."""
    report = ending.report
    if ending.timed_out:
        return Verdict.TIMED_OUT, f"not finished within {limit_s:g} s"
    if ending.oversized:
        return Verdict.ERROR, f"the results are larger than {_LARGEST_REPORT} bytes"
    if not isinstance(report, dict) or report.get("secret") != secret:
        return Verdict.ERROR, f"ended before the last test ({_describe_ending(ending.returncode)})"
    if "unavailable" in report:
        _check_available(ending)
        return Verdict.ERROR, "the program forged a report"
    results = report.get("results")
    results = results if isinstance(results, list) else []
    for number, (test, result) in enumerate(zip(problem.tests, results, strict=False), 1):
        on_result(result)
        if not is_equal(test.expected, result, problem.tolerance):
            call = crop(f"{problem.entry_point}({test.arguments})")
            got, expected = crop(render_result(result)), crop(repr(test.expected))
            return Verdict.WRONG, f"test {number}: {call} gave {got}, expected {expected}"
    if "error" in report or len(results) != len(problem.tests):
        error = report.get("error", "results are missing")
        return Verdict.ERROR, error if isinstance(error, str) else "the program forged a report"
    return Verdict.PASSED, ""


def _check_available(ending: _Ending) -> None:
    """Refuse to go on when the process said that it is not confined; afterwards it could not have said so."""
    if not ending.confined and isinstance(ending.report, dict) and "unavailable" in ending.report:
        raise SandboxUnavailable(
            make_printable(f"generated code cannot be isolated here: {ending.report['unavailable']}"),
            where="coding evaluation",
            hint=_HINT,
        )


def make_printable(reason: str) -> str:
    r"""Make text that came from a judged program short, and such that it can be written anywhere.

    >>> make_printable("a\ud800b")
    'a\\ud800b'
    """
    return reason[:_LONGEST_REASON].encode("utf-8", "backslashreplace").decode()[:_LONGEST_REASON]


def _describe_ending(returncode: int) -> str:
    if returncode >= 0:
        return f"exit code {returncode}"
    with contextlib.suppress(ValueError):
        return f"killed by {signal.Signals(-returncode).name}"
    return f"killed by signal {-returncode}"
