"""Which programs pass, and what is said of those that do not?"""

from __future__ import annotations

import os
import sys

import pytest

from autotune.evaluation.sandbox import Sandbox
from autotune.trial import ProblemResult, Verdict
from tests.evaluation.judging import MEBIBYTE, PROBLEM, RIGHT, expecting, judge

pytestmark = pytest.mark.usefixtures("scratch")


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


def test_closing_the_report_pipe_is_an_error():
    assert judge("import os\nos.closerange(0, 100)\n" + RIGHT).verdict is Verdict.ERROR


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
