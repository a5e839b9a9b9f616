"""What does a rule of a search space say of one configuration? A small language of arithmetic and comparisons.

An expression is parsed once, refused unless every part of it is on a short list, and then evaluated by walking it: no
text of a file is ever run. ``none`` is the value *none*.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from autotune.errors import SearchSpaceError
from autotune.trial import ParameterValue

MAX_LENGTH: Final = 400
"""Longest expression in characters: enough for any rule, too short to exhaust the parser."""

WORDS: Final[Mapping[str, ParameterValue]] = {"none": None, "true": True, "false": False}
"""Names that are values, so no parameter may be called so."""

_FUNCTIONS: Final[Mapping[str, Callable[..., ParameterValue]]] = {"min": min, "max": max}
_ARITHMETIC: Final[Mapping[type[ast.operator], Callable[[int, int], int]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARISONS: Final[Mapping[type[ast.cmpop], Callable[[Any, Any], bool]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


@dataclass(frozen=True, slots=True)
class Expression:
    """One parsed expression.

    >>> parse_expression("window == none or window >= block").evaluate({"window": 32, "block": 16})
    True

    Attributes:
        text: as written.
        names: the parameters it speaks of.
    """

    text: str
    names: frozenset[str]
    _tree: ast.expr = field(repr=False, compare=False)

    def evaluate(self, values: Mapping[str, ParameterValue]) -> ParameterValue:
        """Return the value of the expression.

        Raises:
            SearchSpaceError: it compares or computes what cannot be, for example a number with ``none``.
        """
        try:
            return _evaluate(self._tree, values)
        except (TypeError, ZeroDivisionError) as error:
            given = ", ".join(f"{name}={values.get(name)}" for name in sorted(self.names))
            raise SearchSpaceError(
                f"{self.text!r} cannot be evaluated for {given}: {error}",
                hint="test for none before comparing: window == none or window >= 8",
            ) from error

    def holds(self, values: Mapping[str, ParameterValue]) -> bool:
        """Return whether the expression is true.

        Raises:
            SearchSpaceError: as :meth:`evaluate`, or the value is neither true nor false.
        """
        value = self.evaluate(values)
        if not isinstance(value, bool):
            raise SearchSpaceError(
                f"{self.text!r} is {value}, neither true nor false", hint="compare it with something"
            )
        return value


def parse_expression(text: str) -> Expression:
    """Parse one expression.

    Raises:
        SearchSpaceError: the text is not an expression, or uses more than names, whole numbers, words in quotes,
            ``+ - * // %``, comparisons, ``and or not``, ``min`` and ``max``.
    """
    hint = "allowed: names, whole numbers, quoted words, + - * // %, comparisons, and, or, not, min, max"
    if len(text) > MAX_LENGTH:
        raise SearchSpaceError(f"an expression of {len(text)} characters is too long", hint=f"at most {MAX_LENGTH}")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise SearchSpaceError(f"{text!r} is not an expression: {error}", hint=hint) from error
    names: set[str] = set()
    if not _is_allowed(tree, names):
        raise SearchSpaceError(f"{text!r} uses something that expressions may not", hint=hint)
    return Expression(text, frozenset(names), tree)


def _is_allowed(node: ast.expr, names: set[str]) -> bool:
    """Whether a part and all its parts are on the list; collects the names on the way."""
    match node:
        case ast.Constant(value=value):
            return isinstance(value, int | str)
        case ast.Name(id=name):
            if name not in WORDS:
                names.add(name)
            return True
        case ast.BoolOp(values=values):
            return all(_is_allowed(value, names) for value in values)
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            return _is_allowed(operand, names)
        case ast.BinOp(left=left, op=op, right=right):
            return type(op) in _ARITHMETIC and _is_allowed(left, names) and _is_allowed(right, names)
        case ast.Compare(left=left, ops=ops, comparators=others):
            return all(type(op) in _COMPARISONS for op in ops) and all(
                _is_allowed(other, names) for other in (left, *others)
            )
        case ast.Call(func=ast.Name(id=function), args=arguments, keywords=[]):
            return function in _FUNCTIONS and len(arguments) > 1 and all(_is_allowed(item, names) for item in arguments)
        case _:
            return False


def _evaluate(node: ast.expr, values: Mapping[str, ParameterValue]) -> ParameterValue:
    """Evaluate a part that :func:`_is_allowed` has let through."""
    match node:
        case ast.Constant(value=value):
            return cast("int | str", value)
        case ast.Name(id=name):
            return WORDS[name] if name in WORDS else values[name]
        case ast.BoolOp(op=ast.And(), values=parts):
            return all(_truth(part, values) for part in parts)
        case ast.BoolOp(values=parts):
            return any(_truth(part, values) for part in parts)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _truth(operand, values)
        case ast.UnaryOp(operand=operand):
            return -_number(operand, values)
        case ast.BinOp(left=left, op=op, right=right):
            return _ARITHMETIC[type(op)](_number(left, values), _number(right, values))
        case ast.Compare(left=left, ops=ops, comparators=others):
            operands = [_evaluate(item, values) for item in (left, *others)]
            return all(_COMPARISONS[type(op)](operands[i], operands[i + 1]) for i, op in enumerate(ops))
        case ast.Call(func=ast.Name(id=function), args=arguments):
            return _FUNCTIONS[function](*(_number(item, values) for item in arguments))
        case _:
            raise TypeError(f"{ast.unparse(node)} is not allowed")


def _truth(node: ast.expr, values: Mapping[str, ParameterValue]) -> bool:
    value = _evaluate(node, values)
    if not isinstance(value, bool):
        raise TypeError(f"{ast.unparse(node)} is {value}, neither true nor false")
    return value


def _number(node: ast.expr, values: Mapping[str, ParameterValue]) -> int:
    value = _evaluate(node, values)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{ast.unparse(node)} is {'none' if value is None else value!r}, not a number")
    return cast("int", value)
