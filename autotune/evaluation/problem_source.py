"""Which problems does an evaluation ask: those that come with this package, or those of a file that the user has?"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from autotune.errors import SettingsError
from autotune.evaluation.evalplus_file import EvalPlusTask, load_tasks
from autotune.evaluation.problem import HiddenTest, Problem, load_problems
from autotune.evaluation.result_code import decode
from autotune.evaluation.sandbox import Sandbox
from autotune.settings import EvaluationSettings

_TOLERANCE = 1e-9
_PROMPT = """\
Write the Python function `{name}` that is described here. Answer with one fenced block that holds the whole function \
and everything it needs.

```python
{text}
```"""


def choose_problems(settings: EvaluationSettings, sandbox: Sandbox) -> tuple[Problem, ...]:
    """Return the problems that the settings ask for.

    Raises:
        SettingsError: more are asked for than exist, or the file cannot be read or has no problem that can be asked.
        SandboxUnavailable: the reference solutions of a file could not be run.
    """
    if settings.problem_file is None:
        return load_problems(settings.problems)
    tasks = load_tasks(Path(settings.problem_file).expanduser())
    with ThreadPoolExecutor(max_workers=2) as pool:
        found = list(pool.map(lambda task: make_problem(task, sandbox), tasks))
    problems = tuple(problem for problem in found if problem is not None)
    count = settings.problems
    if (count is not None and count > len(problems)) or not problems:
        raise SettingsError(
            f"{count or 'all'} coding problems are asked for and {len(problems)} of the {len(tasks)} in the file can be asked",
            where="evaluation.problems",
            hint=f"at most {len(problems)}" if problems else "name another file",
        )
    return problems[:count]


def count_problems(settings: EvaluationSettings) -> int:
    """How many problems will be asked; of a file some may be left out when it is read with its reference solutions.

    Raises:
        SettingsError: as :func:`choose_problems`.
    """
    if settings.problem_file is None:
        return len(load_problems(settings.problems))
    tasks = len(load_tasks(Path(settings.problem_file).expanduser()))
    return tasks if settings.problems is None else min(tasks, settings.problems)


def make_problem(task: EvalPlusTask, sandbox: Sandbox) -> Problem | None:
    """Run the reference solution for the expected values; ``None`` when it gives none that can be compared.

    Raises:
        SandboxUnavailable: it could not be run.
    """
    tests = []
    for arguments, result in zip(
        task.arguments, sandbox.collect(task.reference, task.entry_point, task.arguments), strict=False
    ):
        try:
            tests.append(HiddenTest(arguments, decode(result)))
        except ValueError:  # a generator, an iterator, an object: the task compares in a way of its own
            continue
    if not tests:
        return None
    return Problem(
        entry_point=task.entry_point,
        difficulty="unknown",
        topic=task.task_id.partition("/")[0],
        prompt=_PROMPT.format(name=task.entry_point, text=task.prompt.strip()),
        tests=tuple(tests),
        task=task.task_id,
        tolerance=max(task.tolerance, _TOLERANCE),
    )
