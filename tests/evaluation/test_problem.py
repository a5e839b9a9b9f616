from __future__ import annotations

import ast
import json
import random
import re
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autotune.ddtree.corpus import families
from autotune.ddtree.corpus.chats import REQUESTS
from autotune.ddtree.corpus.paraphrase import paraphrase
from autotune.errors import SettingsError
from autotune.evaluation.isolated_program import encode
from autotune.evaluation.problem import (
    DIFFICULTIES,
    HiddenTest,
    Problem,
    hash_problems,
    load_problems,
    parse_problems,
)
from autotune.evaluation.result_code import is_equal
from autotune.evaluation.sandbox import Sandbox
from autotune.trial import Verdict

SOLUTIONS_TEXT = (Path(__file__).parent / "solutions.py").read_text(encoding="utf-8")
STUDY_COUNT = 40
"""Problems that the embedded study asks."""
PARAPHRASES = 40
"""Rewordings of each corpus description that the prompts are compared with."""
SHORTEST = 3
"""Words that make a description; the corpus says `returns x` somewhere, as anybody would."""

EXAMPLE = """
[[problem]]
entry_point = "double"
difficulty = "easy"
topic = "numbers"
prompt = "Write `double(x)`."
tests = '''
2 => 4
"a" => 'aa'
'''
"""


def _split_solutions() -> dict[str, str]:
    functions = [node for node in ast.parse(SOLUTIONS_TEXT).body if isinstance(node, ast.FunctionDef)]
    return {node.name: ast.get_source_segment(SOLUTIONS_TEXT, node) or "" for node in functions}


SOLUTIONS = _split_solutions()
"""Source of each function of ``solutions.py`` by its name."""


def is_plain(value: object) -> bool:
    if isinstance(value, list | tuple | set):
        return all(is_plain(item) for item in value)
    if isinstance(value, dict):
        return all(is_plain(item) for pair in value.items() for item in pair)
    return value is None or type(value) in (bool, int, float, str)


def signature(problem: Problem) -> tuple[str, ...]:
    """Names between the brackets of the signature in the prompt."""
    found = re.search(rf"`{problem.entry_point}\(([\w, ]+)\)`", problem.prompt)
    assert found is not None, problem.prompt
    return tuple(name.strip() for name in found[1].split(","))


def words(text: str, names: tuple[str, ...] = ()) -> str:
    """Lower-case words with one space around each; names and placeholders become ``_``."""
    text = re.sub(r"\$[a-d]\b", " _ ", text)
    found = re.findall(r"\w+", text.lower())
    return f" {' '.join('_' if word in names else word for word in found)} "


def corpus_wordings() -> set[str]:
    """Every description of every family, as it is and reworded as training rewords it."""
    rng = random.Random(1)  # noqa: S311 - rewordings, not secrets
    wordings = set()
    for family in families():
        for description in family.descriptions:
            wordings.add(words(description))
            for _ in range(PARAPHRASES):
                wordings.add(words(paraphrase(rng, description, family.parameters)))
    return wordings


def test_there_are_eighty_problems_with_names_of_their_own():
    problems = load_problems()

    assert len(problems) == 80
    assert len({problem.entry_point for problem in problems}) == 80
    assert len({problem.prompt for problem in problems}) == 80


def test_every_prefix_is_balanced_in_difficulty():
    problems = load_problems()

    for count in range(3, len(problems) + 1):
        counted = Counter(problem.difficulty for problem in problems[:count])
        assert set(DIFFICULTIES) == set(counted)
        assert max(counted.values()) - min(counted.values()) <= 1


def test_the_problems_of_the_embedded_study_lie_inside_and_outside_its_corpus():
    held_out = {family.name for family in families() if family.held_out}
    kinds = Counter(
        "outside" if problem.family is None else "held out" if problem.family in held_out else "trained"
        for problem in load_problems(STUDY_COUNT)
    )

    assert dict(kinds) == {"trained": 24, "held out": 8, "outside": 8}


def test_a_named_family_exists():
    known = {family.name for family in families()}

    assert not [problem.family for problem in load_problems() if problem.family and problem.family not in known]


@pytest.mark.parametrize("problem", load_problems(), ids=lambda problem: problem.entry_point)
def test_a_problem_says_its_signature_and_has_hidden_tests_of_plain_values(problem):
    names = signature(problem)

    assert len(problem.tests) >= 4
    assert len({test.arguments for test in problem.tests}) == len(problem.tests)
    for test in problem.tests:
        arguments = ast.literal_eval(f"({test.arguments},)")
        assert len(names) == len(arguments)
        assert is_plain(arguments)
        assert is_plain(test.expected)
    assert len({repr(test.expected) for test in problem.tests}) > 1, "one constant answer must not pass"


def test_no_prompt_shares_a_template_with_the_corpus():
    """No prompt contains a whole corpus description, nor begins like a corpus request, nor asks for a corpus name.

    Compared are lower-case words with names and placeholders made equal: each description of each family, as it stands
    and in 40 of the rewordings that training draws, must not occur in the prompt if it has three words or more, and the
    words up to the description must not be those of any request that training uses.
    """
    wordings = corpus_wordings()
    beginnings = {re.split(r"\$[A-Z]", request.replace("$s", " _ ").replace("$f", " _ "))[0] for request in REQUESTS}
    frames = {words(beginning) for beginning in beginnings if beginning.strip()}
    taken = {name for family in families() for name in family.names}

    shared = []
    for problem in load_problems():
        text = re.sub(rf"`{problem.entry_point}\([\w, ]+\)`", " _ ", problem.prompt)
        prompt = words(text, signature(problem))
        shared += [
            (problem.entry_point, wording)
            for wording in wordings
            if wording in prompt and len(wording.split()) >= SHORTEST
        ]
        shared += [(problem.entry_point, frame) for frame in frames if prompt.startswith(frame)]
        shared += [(problem.entry_point, "its name")] if problem.entry_point in taken else []

    assert not shared


def test_every_solution_passes_in_the_sandbox():
    programs = [(problem, SOLUTIONS[problem.entry_point]) for problem in load_problems()]

    results = list(Sandbox(30.0, 512 << 20).judge_all(programs))

    assert not [result for result in results if result.verdict is not Verdict.PASSED]


def test_a_function_that_returns_its_first_argument_passes_nowhere():
    programs = [(problem, f"def {problem.entry_point}(x, *rest):\n    return x") for problem in load_problems()]

    results = list(Sandbox(30.0, 512 << 20).judge_all(programs))

    assert {Verdict.WRONG} == {result.verdict for result in results}


SWAPPED: dict[type[ast.AST], Any] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv, ast.Div: ast.Mult,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


class OneChange(ast.NodeTransformer):
    """Changes one operator or number of a solution, or leaves out one condition."""

    def __init__(self, place: int) -> None:
        self.place = place
        self.seen = 0

    def visit(self, node: ast.AST) -> ast.AST:
        changed = self.generic_visit(node)
        if isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign) and type(node.op) in SWAPPED:
            if self.is_here():
                node.op = SWAPPED[type(node.op)]()
        elif isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPPED:
            if self.is_here():
                node.ops[0] = SWAPPED[type(node.ops[0])]()
        elif isinstance(node, ast.Constant) and type(node.value) is int:
            if self.is_here():
                return ast.Constant(node.value + 1)
        elif isinstance(node, ast.Return) and node.value is not None and self.is_here():
            return ast.Return(ast.Constant(None))
        return changed

    def is_here(self) -> bool:
        self.seen += 1
        return self.seen - 1 == self.place


def mutants(source: str) -> Iterator[str]:
    """Wrong versions of a solution, one change each; a few change nothing that can be seen."""
    for place in range(100):
        change = OneChange(place)
        tree = change.visit(ast.parse(source))
        if change.seen <= place:
            return
        yield ast.unparse(ast.fix_missing_locations(tree))


class TooLong(Exception):
    pass


def fails(problem: Problem, source: str) -> bool:
    """Whether a wrong version of our own solution fails a hidden test, or does not end."""

    def stop(_number: int, _frame: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, stop)
    scope: dict[str, Any] = {}
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        exec(source, scope)  # noqa: S102 - written above
        for test in problem.tests:
            result = scope[problem.entry_point](*ast.literal_eval(f"({test.arguments},)"))
            if not is_equal(test.expected, json.loads(encode(result))):
                return True
    except Exception:  # noqa: BLE001 - however it fails, it fails
        return True
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return False


def test_the_hidden_tests_fail_nearly_every_solution_with_one_mistake():
    """Each problem fails most of the solutions with one operator, number or result changed, all of them over nineteen in twenty."""
    killed: dict[str, list[bool]] = {
        problem.entry_point: [fails(problem, mutant) for mutant in mutants(SOLUTIONS[problem.entry_point])]
        for problem in load_problems()
    }

    every = [is_killed for found in killed.values() for is_killed in found]
    assert len(every) > 400
    assert sum(every) / len(every) > 0.95
    assert [name for name, found in killed.items() if not found or sum(found) < len(found) / 2] == []


def test_solutions_and_problems_are_the_same_names():
    assert {problem.entry_point for problem in load_problems()} == set(SOLUTIONS)


def test_a_problem_is_read_with_its_tests():
    (problem,) = parse_problems(EXAMPLE, "example")

    assert (HiddenTest("2", 4), HiddenTest('"a"', "aa")) == problem.tests


def test_a_test_without_an_arrow_is_refused():
    with pytest.raises(SettingsError, match="example: not a list of problems"):
        parse_problems(EXAMPLE.replace("2 => 4", "2 = 4"), "example")


def test_a_test_that_is_no_literal_is_refused():
    with pytest.raises(SettingsError):
        parse_problems(EXAMPLE.replace("2 => 4", "open('x') => 4"), "example")


def test_more_problems_than_exist_are_refused():
    with pytest.raises(SettingsError, match="81 coding problems are asked for and 80 exist"):
        load_problems(81)


def test_a_prefix_is_the_first_problems():
    assert load_problems()[:5] == load_problems(5)


@pytest.mark.parametrize(
    "change",
    [{"prompt": "other"}, {"entry_point": "other"}, {"tests": (HiddenTest("1", 1),)}],
    ids=lambda c: next(iter(c)),
)
def test_the_hash_changes_with_what_decides_a_verdict(change):
    problems = load_problems(3)

    assert hash_problems(problems) != hash_problems((replace(problems[0], **change), *problems[1:]))


def test_the_hash_depends_on_order_and_count_and_not_on_labels():
    problems = load_problems(3)

    assert hash_problems(problems) != hash_problems(problems[::-1])
    assert hash_problems(problems) != hash_problems(problems[:2])
    assert hash_problems(problems) == hash_problems((replace(problems[0], topic="x", family=None), *problems[1:]))
