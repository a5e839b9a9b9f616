"""Files in the format of EvalPlus, with tasks that we wrote ourselves."""

from __future__ import annotations

import ast
import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from autotune.errors import SettingsError
from autotune.evaluation import evalplus_file
from autotune.evaluation.evalplus_file import load_tasks
from autotune.evaluation.problem_source import choose_problems, count_problems, make_problem
from autotune.evaluation.sandbox import Sandbox
from autotune.settings import EvaluationSettings
from autotune.trial import Verdict

STUB: dict[str, Any] = {
    "task_id": "HumanEval/900",
    "prompt": 'from typing import List\n\n\ndef halves(numbers: List[float]) -> List[float]:\n    """ Half of each. """\n',
    "entry_point": "halves",
    "canonical_solution": "    return [number / 2 for number in numbers]\n",
    "base_input": [[[1, 2.5]], [[]]],
    "plus_input": [[[1, 2.5]], [[float("inf")]], [[3]]],
    "contract": "",
    "atol": 0.001,
}
DOCSTRING: dict[str, Any] = {
    "task_id": "Mbpp/2",
    "prompt": '"""\nWrite a function to find what two tuples share.\nassert shared((3, 4), (4, 5)) == (4,)\n"""\n',
    "entry_point": "shared",
    "canonical_solution": "\ndef shared(a, b):\n    assert type(a) is tuple\n    return tuple(sorted(set(a) & set(b)))\n",
    "base_input": [[[3, 4], [4, 5]]],
    "plus_input": [[[], [1]]],
    "contract": "",
    "atol": 0,
}


def write(path: Path, *tasks: dict[str, Any], packed: bool = False) -> Path:
    data = "".join(f"{json.dumps(task)}\n" for task in tasks).encode()
    path.write_bytes(gzip.compress(data) if packed else data)
    return path


@pytest.fixture(scope="module")
def sandbox() -> Sandbox:
    return Sandbox(20.0, 512 << 20)


@pytest.mark.parametrize("packed", [False, True])
def test_tasks_are_read_with_their_reference_and_their_calls(tmp_path, packed):
    stub, docstring = load_tasks(write(tmp_path / "tasks", STUB, DOCSTRING, packed=packed))

    assert stub.reference == STUB["prompt"] + STUB["canonical_solution"]
    assert stub.arguments == ("[1, 2.5]", "[]", "[3]")  # each call once, none without a literal
    assert stub.tolerance == 0.001
    assert docstring.reference == DOCSTRING["canonical_solution"]
    assert docstring.arguments == ("(3, 4), (4, 5)", "(), (1,)")


@pytest.mark.parametrize(
    ("number", "arguments", "expected"),
    [
        (63, [[[1, 2], [3]]], ([(1, 2), (3,)],)),
        (75, [[[1, 2]], [3]], ([(1, 2)], [3])),
        (106, [[1], [2]], ([1], (2,))),
        (115, [[[1, 1], []]], ([{1}, {}],)),
        (307, [[1, [2]], 3, [4]], ((1, [2]), 3, [4])),
        (259, [[[1], [2]], [[3]]], (((1,), (2,)), ((3,),))),
        (278, [[1, [2, 3]]], ((1, (2, 3)),)),
        (722, [{"a": [1, 2]}, 3, 4], ({"a": (1, 2)}, 3, 4)),
        (580, [[1, [2, [3]]]], ((1, (2, (3,))),)),
        (11, [[1, 2], "x"], ([1, 2], "x")),
    ],
)
def test_arguments_get_the_types_that_json_lost(tmp_path, number, arguments, expected):
    task = {**DOCSTRING, "task_id": f"Mbpp/{number}", "base_input": [arguments], "plus_input": []}

    (read,) = load_tasks(write(tmp_path / "tasks", task))

    assert ast.literal_eval(f"({read.arguments[0]},)") == expected


@pytest.mark.parametrize("pack", [lambda data: data, gzip.compress])
def test_a_file_that_holds_too_much_is_refused_before_it_fills_the_memory(tmp_path, monkeypatch, pack):
    monkeypatch.setattr(evalplus_file, "_LARGEST_FILE", 1000)
    (tmp_path / "bomb").write_bytes(pack(b" " * 1001))

    with pytest.raises(SettingsError, match="more than 0 MiB"):
        load_tasks(tmp_path / "bomb")


def test_a_device_or_pipe_is_no_file_of_problems(tmp_path):
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(SettingsError, match="no regular file"):
        load_tasks(tmp_path / "pipe")


def test_expected_values_come_from_the_reference_in_the_sandbox(tmp_path, sandbox):
    stub, docstring = (make_problem(task, sandbox) for task in load_tasks(write(tmp_path / "t", STUB, DOCSTRING)))

    assert stub is not None
    assert docstring is not None
    assert [test.expected for test in stub.tests] == [[0.5, 1.25], [], [1.5]]
    assert [test.expected for test in docstring.tests] == [(4,), ()]
    assert (stub.name, docstring.name) == ("HumanEval/900", "Mbpp/2")
    assert "def halves" in stub.prompt
    assert "`shared`" in docstring.prompt
    assert "return" not in stub.prompt
    wrong = "def halves(numbers):\n    return [n // 2 for n in numbers]"
    nearly = "def halves(numbers):\n    return [n / 2 + 0.0005 for n in numbers]"
    assert sandbox.judge(stub, stub_solution()).verdict is Verdict.PASSED
    assert sandbox.judge(stub, nearly).verdict is Verdict.PASSED
    assert sandbox.judge(stub, wrong).verdict is Verdict.WRONG


def stub_solution() -> str:
    return str(STUB["prompt"] + STUB["canonical_solution"])


def test_a_task_whose_results_cannot_be_compared_is_left_out(tmp_path, sandbox):
    lazy = {**STUB, "task_id": "HumanEval/901", "canonical_solution": "    return (n for n in numbers)\n"}
    complex_numbers = {**DOCSTRING, "task_id": "Mbpp/124", "base_input": [["1", "2j"]]}
    path = write(tmp_path / "t", lazy, STUB, complex_numbers)

    problems = choose_problems(EvaluationSettings(problem_file=str(path)), sandbox)

    assert [problem.name for problem in problems] == ["HumanEval/900"]
    assert count_problems(EvaluationSettings(problem_file=str(path))) == 3
    assert count_problems(EvaluationSettings(problem_file=str(path), problems=2)) == 2
    assert count_problems(EvaluationSettings(problems=7)) == 7
    with pytest.raises(SettingsError, match="2 coding problems are asked for and 1 of the 3 in the file can be asked"):
        choose_problems(EvaluationSettings(problem_file=str(path), problems=2), sandbox)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "holds no problem"),
        (b"{", "line 1 is no task"),
        (b"\n[1]\n", "line 2 is no task"),
        (json.dumps({**STUB, "entry_point": "a b"}).encode(), "line 1 is no task"),
        (
            json.dumps({key: value for key, value in STUB.items() if key != "base_input"}).encode(),
            "KeyError 'base_input'",
        ),
        (json.dumps({**STUB, "base_input": 3}).encode(), "line 1 is no task"),
        (b"\xff\xfe", "cannot be read"),
        (b"\x1f\x8bnonsense", "cannot be read"),
    ],
)
def test_another_file_is_refused_by_its_line(tmp_path, content, message):
    path = tmp_path / "file"
    path.write_bytes(content)

    with pytest.raises(SettingsError, match=message):
        load_tasks(path)


def test_a_missing_file_is_said(tmp_path):
    with pytest.raises(SettingsError, match=r"cannot be read: .*No such file"):
        load_tasks(tmp_path / "missing")
