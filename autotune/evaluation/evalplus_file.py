"""How is a file of HumanEval+ or MBPP+ read, which a user has? The format is EvalPlus' own; nothing is downloaded.

JSON lines, perhaps gzipped. Used of each task are ``task_id``, ``prompt``, ``entry_point``, ``canonical_solution``,
``base_input`` and ``plus_input`` (lists of argument lists) and ``atol``. Files hold no expected values: EvalPlus runs
the reference solution, and so do we, in the sandbox. JSON knows neither tuples nor sets, so some tasks of MBPP+ have
arguments of another type than their file says; the table below lists them (EvalPlus 0.3, ``evalplus/data/mbpp.py``).
"""

from __future__ import annotations

import ast
import gzip
import json
import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotune.errors import SettingsError

_LARGEST_FILE = 1 << 28
"""Bytes of text; the published files are a tenth of that."""
_WHERE = "evaluation.problem_file"


@dataclass(frozen=True, slots=True)
class EvalPlusTask:
    """One task as its file has it.

    Attributes:
        task_id: for example ``HumanEval/0``.
        entry_point: name of the function.
        prompt: what EvalPlus shows a model: code of a stub, or a docstring with an example.
        reference: a whole program that defines the function rightly.
        arguments: source of each call's arguments, literals only.
        tolerance: absolute, between numbers.
    """

    task_id: str
    entry_point: str
    prompt: str
    reference: str
    arguments: tuple[str, ...]
    tolerance: float


def load_tasks(path: Path) -> tuple[EvalPlusTask, ...]:
    """Read all tasks of a file in their order.

    Raises:
        SettingsError: the file cannot be read, or is not what EvalPlus publishes; the line is named.
    """
    try:
        text = _read(path).decode("utf-8")
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise SettingsError(
            f"the file of problems cannot be read: {error}", where=_WHERE, hint="name a file of HumanEval+ or MBPP+"
        ) from error
    tasks = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                tasks.append(_parse_task(json.loads(line)))
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                raise SettingsError(
                    f"line {number} is no task of HumanEval+ or MBPP+: {type(error).__name__} {error}",
                    where=f"{_WHERE} = {path}",
                    hint="take the file as EvalPlus publishes it, JSON lines with base_input and plus_input",
                ) from error
    if not tasks:
        raise SettingsError("the file holds no problem", where=f"{_WHERE} = {path}", hint="name another file")
    return tuple(tasks)


def _read(path: Path) -> bytes:
    """Return the text of a file, unpacked where it is packed.

    Raises:
        ValueError: it is no regular file, or too large.
    """
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is no regular file")
    with path.open("rb") as file:
        is_packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        data = (gzip.GzipFile(fileobj=file) if is_packed else file).read(_LARGEST_FILE + 1)
    if len(data) > _LARGEST_FILE:
        raise ValueError(f"{path} holds more than {_LARGEST_FILE >> 20} MiB of text")
    return data


def _parse_task(task: Mapping[str, Any]) -> EvalPlusTask:
    task_id, entry_point, prompt = str(task["task_id"]), str(task["entry_point"]), str(task["prompt"])
    if not entry_point.isidentifier():
        raise ValueError(f"entry_point is {entry_point!r}")
    is_stub = task_id.startswith("HumanEval")
    solution = str(task["canonical_solution"])
    convert = _converters(task_id)
    inputs = [*task["base_input"], *(task.get("plus_input") or [])]
    return EvalPlusTask(
        task_id=task_id,
        entry_point=entry_point,
        prompt=prompt,
        reference=prompt + solution if is_stub else solution,
        arguments=tuple(dict.fromkeys(_render_arguments(inputs, convert))),
        tolerance=float(task.get("atol") or 0.0),
    )


def _render_arguments(inputs: Sequence[Sequence[Any]], convert: Callable[[int], Convert] | None) -> Iterator[str]:
    """Yield each call's arguments as literals; a call whose arguments are none is left out."""
    if convert is None:
        return
    for arguments in inputs:
        values = [convert(index)(value) for index, value in enumerate(arguments)]
        text = ", ".join(map(repr, values))
        if all(map(_is_finite, values)):
            ast.literal_eval(f"({text},)")
            yield text


def _is_finite(value: Any) -> bool:
    """False for what has no literal: infinities and NaN, at any depth."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(_is_finite(key) and _is_finite(item) for key, item in value.items())
    return all(map(_is_finite, value)) if isinstance(value, list | tuple | set) else True


Convert = Callable[[Any], Any]


def _as_is(value: Any) -> Any:
    return value


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _list_of_tuples(value: Any) -> Any:
    return [_tuple(item) for item in value]


def _tuple_of_tuples(value: Any) -> Any:
    return tuple(_list_of_tuples(value))


def _list_of_sets(value: Any) -> Any:
    return [set(item) if isinstance(item, list) and item else {} for item in value]


def _dict_of_tuples(value: Any) -> Any:
    return {key: _tuple(item) for key, item in value.items()}


def _all_tuples(value: Any) -> Any:
    return tuple(map(_all_tuples, value)) if isinstance(value, list) else value


_MBPP_ARGUMENTS: tuple[tuple[tuple[int, ...], tuple[Convert, ...]], ...] = (
    (
        (2, 116, 132, 143, 222, 261, 273, 394, 399, 421, 424, 429, 470, 560, 579, 596, 616, 630, 726, 740, 744, 809),
        (_tuple,),
    ),
    ((63, 64, 70, 94, 120, 237, 272, 299, 400, 409, 417, 438, 473, 614, 780), (_list_of_tuples,)),
    ((75, 413, 444, 753), (_list_of_tuples, _as_is)),
    ((106, 750), (_as_is, _tuple)),
    ((115,), (_list_of_sets,)),
    ((250, 405, 446, 617, 720, 763, 808, 307), (_tuple, _as_is)),
    ((259, 401, 445, 278), (_tuple_of_tuples,)),
    ((722,), (_dict_of_tuples, _as_is)),
    ((580, 615, 791), (_all_tuples,)),
)
"""Tasks of MBPP+ and what their arguments are made into; the last entry stands for all arguments after it too."""
_COMPLEX = (124, 252)
"""Tasks about complex numbers, which this evaluation does not compare."""


def _converters(task_id: str) -> Callable[[int], Convert] | None:
    """What each argument of a task is made into, by its position; ``None`` for a task that cannot be asked."""
    name, _, number = task_id.partition("/")
    if name != "Mbpp" or not number.isdigit():
        return lambda _index: _as_is
    if int(number) in _COMPLEX:
        return None
    found = next((kinds for numbers, kinds in _MBPP_ARGUMENTS if int(number) in numbers), (_as_is,))
    return lambda index: found[min(index, len(found) - 1)]
