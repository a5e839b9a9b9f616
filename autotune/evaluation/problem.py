"""Which coding problems are asked, and what counts as solving one?"""

from __future__ import annotations

import ast
import hashlib
import json
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from autotune.errors import SettingsError

PROBLEMS_FILE = Path(__file__).parent / "problems" / "problems.toml"
DIFFICULTIES = ("easy", "medium", "hard")
_ARROW = " => "


@dataclass(frozen=True, slots=True)
class HiddenTest:
    """One call and its result.

    Attributes:
        arguments: source of the arguments, literals only, as they stand between the brackets of a call.
        expected: a plain built-in value.
    """

    arguments: str
    expected: object


@dataclass(frozen=True, slots=True)
class Problem:
    """One request for one function.

    Attributes:
        entry_point: name of the function.
        difficulty: ``easy``, ``medium`` or ``hard``; ``unknown`` where a file does not say.
        topic: group of problems.
        prompt: the whole user message.
        tests: never sent to a server.
        family: family of the embedded model's corpus that does the same; ``None`` for a problem outside that corpus.
        task: what the file that it comes from calls it; ``None`` for our own problems.
        tolerance: numbers are compared by value and may differ by this; ``None`` compares by type and value.
    """

    entry_point: str
    difficulty: str
    topic: str
    prompt: str
    tests: tuple[HiddenTest, ...]
    family: str | None = None
    task: str | None = None
    tolerance: float | None = None

    @property
    def name(self) -> str:
        """Name of the problem in records."""
        return self.task or self.entry_point


def parse_problems(text: str, where: str) -> tuple[Problem, ...]:
    """Read problems from TOML, in the order in which they stand.

    Raises:
        SettingsError: the text is not TOML, or a problem lacks something or has a test that is no pair of literals.
    """
    try:
        tables = tomllib.loads(text)["problem"]
        return tuple(
            Problem(
                entry_point=table["entry_point"],
                difficulty=table["difficulty"],
                topic=table["topic"],
                prompt=table["prompt"],
                tests=tuple(_parse_test(line) for line in table["tests"].splitlines() if line.strip()),
                family=table.get("family"),
            )
            for table in tables
        )
    except (tomllib.TOMLDecodeError, KeyError, ValueError, SyntaxError) as error:
        raise SettingsError(f"not a list of problems: {error}", where=where, hint="restore the file") from error


def load_problems(count: int | None = None) -> tuple[Problem, ...]:
    """Load the first ``count`` problems that come with this package, all of them by default.

    Raises:
        SettingsError: fewer exist than are asked for, or the file is damaged.
    """
    problems = parse_problems(PROBLEMS_FILE.read_text(encoding="utf-8"), str(PROBLEMS_FILE))
    if count is not None and count > len(problems):
        raise SettingsError(
            f"{count} coding problems are asked for and {len(problems)} exist",
            where="evaluation.problems",
            hint=f"at most {len(problems)}",
        )
    return problems[:count]


def hash_problems(problems: Sequence[Problem]) -> str:
    """Return a hash of everything that decides a verdict: names, prompts and tests, in their order.

    >>> hash_problems([]) == hash_problems(())
    True
    """
    content = [
        [item.name, item.prompt, [[test.arguments, repr(test.expected)] for test in item.tests]] for item in problems
    ]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


def _parse_test(line: str) -> HiddenTest:
    arguments, arrow, expected = line.partition(_ARROW)
    if not arrow or _ARROW in expected:
        raise ValueError(f"a test reads 'arguments{_ARROW}expected', not {line!r}")
    ast.literal_eval(f"({arguments},)")
    return HiddenTest(arguments, ast.literal_eval(expected))
