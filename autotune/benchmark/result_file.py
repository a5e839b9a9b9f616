"""How is a saved result written whole and read with every doubt said? JSON that names its kind and format."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import orjson
from pydantic import TypeAdapter, ValidationError

from autotune.errors import UserError

ResultT = TypeVar("ResultT")


def write_result(path: Path, values: Any) -> None:
    """Write JSON values so that the file is the old one or the new one, never a part; a link goes on to lead to it.

    Raises:
        UserError: the file cannot be written.
    """
    target = Path(os.path.realpath(path))
    draft = target.with_name(f".{target.name}.{os.getpid()}.new")
    try:
        check_result_path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            draft.write_bytes(orjson.dumps(values, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise UserError(
            f"the result cannot be written: {error.strerror}", where=str(path), hint="name another file with --save"
        ) from error


def check_result_path(path: Path) -> None:
    """Refuse a place that must not be replaced by a file: a device, a pipe, a folder.

    Raises:
        UserError: it is one.
    """
    if path.name == "-" or (path.exists() and not path.is_file()):
        raise UserError(
            "a result is written to a regular file",
            where=str(path),
            hint="name one with --save; --json prints the result instead",
        )


def read_result(
    path: Path,
    adapter: TypeAdapter[ResultT],
    *,
    kind: str,
    version: int,
    command: str,
    again: str,
    find_impossible: Callable[[ResultT], Iterator[str]],
) -> ResultT:
    """Read a result.

    Args:
        path: the file.
        adapter: of the result.
        kind: that the file must name.
        version: format that the file must have.
        command: that writes such files.
        again: what else gives one in this format.
        find_impossible: yields the places of figures that nothing can measure.

    Raises:
        UserError: the file cannot be read, or holds something else.
    """
    hint = f"name a file that `autotune {command} --save FILE` has written"
    try:
        data: Any = orjson.loads(path.read_bytes())
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", where=str(path), hint=hint) from error
    except orjson.JSONDecodeError as error:
        raise UserError(f"is no JSON: {error}", where=str(path), hint=hint) from error
    if not isinstance(data, dict) or data.get("kind") != kind:
        article = "an" if kind[0] in "aeiou" else "a"
        raise UserError(f"is no result of {article} {kind}", where=str(path), hint=hint)
    if data.get("format") != version:
        raise UserError(
            f"is a result in format {data.get('format')!r}, this version reads format {version}",
            where=str(path),
            hint=f"read it with the version of autotune that wrote it, or {again}",
        )
    try:
        result = adapter.validate_python(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise UserError(f"is damaged at {place}: {first['msg']}", where=str(path), hint=hint) from error
    impossible = next(find_impossible(result), None)
    if impossible is not None:
        raise UserError(f"is damaged at {impossible}: nothing measures such a figure", where=str(path), hint=hint)
    return result
