"""What does a result that came back from a judged program say, and is it the expected value? Pure; untrusted input.

Results are JSON that keeps the types of Python (:func:`autotune.evaluation.isolated_program.encode`).
"""

from __future__ import annotations

import math
from typing import Any

from autotune.evaluation.isolated_program import DEEPEST

_LONGEST_VALUE = 120
_RELATIVE_TOLERANCE = 1e-9
_ABSOLUTE_TOLERANCE = 1e-12


def is_equal(expected: object, result: Any, tolerance: float | None = None, depth: int = DEEPEST) -> bool:
    """Compare a plain value with an encoded result, by type and value; floats to nine digits.

    With a tolerance all numbers are compared by value alone, as ``==`` does, and may differ by it. The shape of ``expected`` leads, and no key of the result is ever hashed, so a hostile result costs nothing.

    >>> is_equal((1, [2.0]), {"tuple": [1, {"list": [2.0000000001]}]}), is_equal(1, True), is_equal(1, 1.0)
    (True, False, False)
    """
    if depth == 0:
        return False
    if tolerance is not None and isinstance(expected, int | float):
        return _is_near(expected, result, tolerance)
    if expected is None or isinstance(expected, bool):
        return result is expected
    if isinstance(expected, float):
        return type(result) is float and _is_close(expected, result)
    if isinstance(expected, int):
        if isinstance(result, dict):
            return bool(result == {"int": f"{expected:x}"})
        return type(result) is int and result == expected
    if isinstance(expected, str):
        return type(result) is str and result == expected
    if not isinstance(result, dict) or len(result) != 1:
        return False
    kind = type(expected).__name__
    content = result.get(kind)
    if isinstance(expected, bytes):
        return bool(content == expected.hex())
    if not isinstance(content, list) or not isinstance(expected, list | tuple | set | frozenset | dict):
        return False
    if len(content) != len(expected):
        return False
    if isinstance(expected, list | tuple):
        return all(is_equal(one, other, tolerance, depth - 1) for one, other in zip(expected, content, strict=True))
    wanted: list[object] = (
        [[key, item] for key, item in expected.items()] if isinstance(expected, dict) else [*expected]
    )
    found = [{"list": pair} for pair in content] if isinstance(expected, dict) else content
    return all(any(is_equal(one, other, tolerance, depth - 1) for other in found) for one in wanted)


def render_result(result: Any, depth: int = 6) -> str:
    """Show an encoded result roughly as Python would, cut short where it is long or deep.

    >>> render_result({"tuple": [1, "a", {"dict": [["k", None]]}]})
    "(1, 'a', {'k': None})"
    """
    if depth == 0:
        return "..."
    if not isinstance(result, dict):
        return crop(repr(result))
    kind, content = next(iter(result.items()), ("nothing", None))
    if kind == "dict" and isinstance(content, list):
        pairs = [pair for pair in content[:_LONGEST_VALUE] if isinstance(pair, list) and len(pair) == 2]
        inside = ", ".join(f"{render_result(key, depth - 1)}: {render_result(item, depth - 1)}" for key, item in pairs)
        return f"{{{inside}}}"
    brackets = {"list": "[]", "tuple": "()", "set": "{}"}.get(kind)
    if brackets and isinstance(content, list):
        inside = ", ".join(render_result(item, depth - 1) for item in content[:_LONGEST_VALUE])
        return f"{brackets[0]}{inside}{brackets[1]}"
    return crop(f"an object of type {content}" if kind == "other" else f"{kind} {content}")


def decode(result: Any, depth: int = DEEPEST) -> object:
    """Make an encoded result the plain value that it stands for.

    >>> decode({"tuple": [1, {"dict": [["a", {"set": [2]}]]}]})
    (1, {'a': {2}})

    Raises:
        ValueError: it stands for none: an object of another type, or noise.
    """
    if depth == 0:
        raise ValueError("nested too deeply")
    if result is None or isinstance(result, bool | int | float | str):
        return result
    if not isinstance(result, dict) or len(result) != 1:
        raise ValueError("no encoded value")
    ((kind, content),) = result.items()
    try:
        if kind == "int":
            return int(content, 16)
        if kind == "bytes":
            return bytes.fromhex(content)
        if kind == "dict":
            return {decode(key, depth - 1): decode(item, depth - 1) for key, item in content}
        make = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}[kind]
        return make(decode(item, depth - 1) for item in content)
    except (TypeError, KeyError) as error:
        raise ValueError(f"no value of type {kind}") from error


def _is_close(expected: float, result: float) -> bool:
    if math.isnan(expected):
        return math.isnan(result)
    return math.isclose(expected, result, rel_tol=_RELATIVE_TOLERANCE, abs_tol=_ABSOLUTE_TOLERANCE)


def _is_near(expected: float, result: Any, tolerance: float) -> bool:
    """Compare numbers of any type; integers of any size exactly where both are."""
    if isinstance(result, dict) and list(result) == ["int"]:
        return is_equal(expected, result) if isinstance(expected, int) else False
    if not isinstance(result, int | float):
        return False
    if isinstance(expected, int) and isinstance(result, int):
        return expected == result
    try:
        one, other = float(expected), float(result)
    except OverflowError:
        return False
    return _is_close(one, other) or abs(one - other) <= tolerance


def crop(text: str) -> str:
    """Cut text short that is too long for a reason."""
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 3]}..."
