"""What runs in the child process: confine it, run one program, call its function, report what came back.

The report holds results only. Expected values never enter this process, so whatever the program reads, patches or
forges, it passes only by knowing the right results. Few imports: each costs every judged program its time.
"""

# ruff: noqa: PTH120, SIM105 - importing pathlib or contextlib takes longer than the rest of this module
# ruff: noqa: A004, UP029 - built-in names are bound here, so that a program that replaces them breaks only itself

from __future__ import annotations

import marshal
import os
import sys
from _json import encode_basestring_ascii as quote
from builtins import (
    BaseException,
    ValueError,
    bytes,
    dict,
    enumerate,
    float,
    frozenset,
    int,
    isinstance,
    list,
    set,
    str,
    tuple,
    type,
)
from sys import setprofile, settrace

from autotune.evaluation import own_world
from autotune.evaluation.confinement import confine, die_with_parent, is_below, shown_paths

MODULE = "answer"
CONFINED = b"+"
"""First byte of the report of a process that gave up its rights; the layers follow, all before the program is loaded."""
DEEPEST = 60
"""Levels of nesting that a result may have."""
_LONGEST_REASON = 300
_ModuleType = type(sys)


def main() -> None:
    """Read the task from the first descriptor named in the arguments, write the report to the second, and end."""
    task_fd, report_fd = int(sys.argv[1]), int(sys.argv[2])
    with os.fdopen(task_fd, "rb") as pipe:
        task = marshal.loads(pipe.read())  # noqa: S302 - written by the process that started this one
    # Looked up before the program runs: what it does to these names in their modules comes too late.
    write, leave = os.write, os._exit
    del sys.path[0], sys.argv[1:]
    os.umask(0o022)
    os.chdir(task["folder"])
    library = os.path.dirname(os.__file__)
    secret = os.path.dirname(os.path.realpath(__file__))
    is_inside = is_below(secret, library)
    try:
        die_with_parent()
        layers = own_world.enter(task["root"], shown_paths())
        if own_world.PROCESSES in layers:
            own_world.run_inside(report_fd)
        is_moved = own_world.FILES in layers
        if not is_moved:
            os.chdir(task["folder"])
        has_own_user = own_world.become_nobody(library)
        layers += [own_world.USER] if has_own_user else []
        layers += confine(
            cpu_s=task["cpu_s"],
            memory_bytes=task["memory_bytes"],
            folder="/box" if is_moved else os.path.dirname(task["folder"]),
            secret=None if is_moved and not is_inside else secret,
            has_own_user=has_own_user,
            accept_gaps=task["accept_gaps"],
        )
        # From here on "unavailable" is not believed: the program that follows could claim it.
        write(report_fd, CONFINED + ";".join(layers).encode() + b"\n")
    except OSError as error:
        report = f'"unavailable": {quote(error.strerror or str(error))}'
    else:
        report = run(task["code"], task["entry_point"], task["arguments"])
    data = f'{{"secret": {quote(task["secret"])}, {report}}}'.encode()
    while data:
        data = data[write(report_fd, data) :]
    leave(0)


def run(code: str, entry_point: str, arguments: list[str]) -> str:
    """Load a program and call its function once for each set of arguments, until the first exception.

    Args:
        code: source of the program; it sees another ``__name__`` than ``__main__``.
        entry_point: name of the function.
        arguments: our own literals, each the inside of a call's brackets.

    Returns:
        Inside of a JSON object: ``results``, and ``error`` with the place and the reason when something was raised.
    """
    calls = [eval(f"({text},)", {"__builtins__": {}}) for text in arguments]  # noqa: S307 - the problem's own literals
    module = _ModuleType(MODULE)
    sys.modules[MODULE] = module
    results: list[str] = []
    hooks = (setprofile, settrace)
    place = "while loading"
    try:
        exec(compile(code, f"{MODULE}.py", "exec"), module.__dict__)  # noqa: S102 - that is what the sandbox is for
        function = module.__dict__[entry_point]
        for number, call in enumerate(calls, 1):
            place = f"test {number}"
            for stop in hooks:
                try:  # not a function: a tracer would be called on entering it
                    stop(None)
                except BaseException:  # noqa: BLE001, S110 - a hook that raises is gone
                    pass
            results.append(encode(function(*call)))
    except BaseException as error:  # noqa: BLE001 - SystemExit too is only a failed program
        return f'"results": [{", ".join(results)}], "error": {quote(f"{place}: {_describe(error)}")}'
    return f'"results": [{", ".join(results)}]'


def encode(value: object, depth: int = DEEPEST) -> str:
    """Render a plain value as JSON that keeps its type; a subclass counts as the plain type it derives from.

    Raises:
        ValueError: the value is nested deeper than ``depth``.

    >>> encode((1, 2.0, {"a": None}))
    '{"tuple": [1, 2.0, {"dict": [["a", null]]}]}'
    """
    if depth == 0:
        raise ValueError(f"the result is nested more than {DEEPEST} deep")
    if value is None:
        return "null"
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, int):
        return int.__repr__(value) if -(1 << 63) <= value < 1 << 63 else f'{{"int": "{value:x}"}}'
    if isinstance(value, float):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(float.__repr__(value)) or float.__repr__(
            value
        )
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, bytes):
        return f'{{"bytes": "{value.hex()}"}}'
    if isinstance(value, dict):
        pairs = (f"[{encode(key, depth - 1)}, {encode(item, depth - 1)}]" for key, item in value.items())
        return f'{{"dict": [{", ".join(pairs)}]}}'
    for kind in (list, tuple, set, frozenset):
        if isinstance(value, kind):
            return f'{{"{kind.__name__}": [{", ".join(encode(item, depth - 1) for item in value)}]}}'
    return f'{{"other": {quote(type(value).__name__)}}}'


def _describe(error: BaseException) -> str:
    """Name of the exception and the first line of its message, without trusting either to be printable."""
    try:
        lines = str(error).splitlines()
        return f"{type(error).__name__}: {lines[0] if lines else ''}"[:_LONGEST_REASON].rstrip(": ")
    except BaseException:  # noqa: BLE001 - its __str__ is the program's own
        return type(error).__name__[:_LONGEST_REASON]
