"""What does the chosen block of an answer need from the other blocks? Pure.

Models like to give an import or a helper in a fence of its own. A program that uses a name which it binds nowhere, and
which Python does not have, gets the top-level statement that binds it: the last one in any other block, and whatever
that one needs in turn. Nothing else of those blocks is taken, so that examples in them do not run.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Sequence

_BUILT_IN = frozenset(dir(builtins)) | {"__name__", "__file__", "__doc__", "__builtins__", "__annotations__"}
_MOST_PARTS = 200
"""How many statements a program may take from elsewhere."""


def add_missing_parts(code: ast.Module, others: Sequence[ast.Module], name: str) -> str | None:
    r"""Return source of the statements that the code needs from other blocks; ``None`` when there are none.

    Args:
        code: the chosen block.
        others: the other blocks of the answer, in its order.
        name: the required name; a block's other definition of it is never taken.

    >>> add_missing_parts(ast.parse("def f(x): return g(x)"), [ast.parse("def g(x): return x\nprint(g(1))")], "f")
    'def g(x):\n    return x'
    """
    places = {
        bound: (block, index)
        for block, module in enumerate(others)
        for index, statement in enumerate(module.body)
        for bound in _bound_by(statement)
        if bound != name
    }
    needed: set[tuple[int, int]] = set()
    pending = list(_missing_in([code]))
    seen = set(pending)
    while pending and len(needed) < _MOST_PARTS:
        place = places.get(pending.pop())
        if place is None or place in needed:
            continue
        needed.add(place)
        statement = others[place[0]].body[place[1]]
        fresh = set(_missing_in([statement])) - seen
        seen |= fresh
        pending += fresh
    if not needed:
        return None
    try:
        return "\n".join(ast.unparse(others[block].body[index]) for block, index in sorted(needed))
    except RecursionError:  # nested so deeply that it parses but cannot be written
        return None


def _bound_by(statement: ast.stmt) -> Iterator[str]:
    """Names that a statement defines for whoever comes after it; loops and expressions are examples, not parts."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        for alias in statement.names:
            yield alias.asname or alias.name.partition(".")[0]
    elif isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for target in targets:
            yield from (node.id for node in ast.walk(target) if isinstance(node, ast.Name) and _is_stored(node))


def _missing_in(parts: Sequence[ast.AST]) -> Iterator[str]:
    """Names that are read and bound nowhere in the parts, in any scope."""
    read: dict[str, None] = {}
    bound: set[str] = set()
    for node in (node for part in parts for node in ast.walk(part)):
        if isinstance(node, ast.Name):
            if _is_stored(node):
                bound.add(node.id)
            else:
                read[node.id] = None
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.alias):
            bound.add(node.asname or node.name.partition(".")[0])
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name is not None:
            bound.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest is not None:
            bound.add(node.rest)
    return (name for name in read if name not in bound and name not in _BUILT_IN)


def _is_stored(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)
