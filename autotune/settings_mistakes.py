"""What is wrong with a study file? Every mistake in words, with the value as it was written. Pure."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel

_SHORT: Final = 60
_SCALARS: Final = {"int", "float", "str", "bool"}
_NO_SCALAR: Final = "is no number, no text and neither true nor false"
_KINDS: Final = {
    "int": "is no whole number",
    "float": "is no number",
    "string": "is no text; put it into quotes",
    "bool": "is neither true nor false",
    "tuple": "is no list",
    "list": "is no list",
    "dict": "has to be a table",
    "model": "has to be a table",
}
"""What is expected of a value, by the first word of the kind of error."""

_BOUNDS: Final = {
    "greater_than": ("gt", "has to be more than"),
    "greater_than_equal": ("ge", "has to be at least"),
    "less_than": ("lt", "has to be less than"),
    "less_than_equal": ("le", "has to be at most"),
}


def explain_mistakes(
    mistakes: Sequence[Any], model: type[BaseModel], table_tag: str, name_pattern: str
) -> tuple[str, ...]:
    """Say what is wrong, one sentence for each mistake, in the order of the schema.

    Args:
        mistakes: what ``ValidationError.errors()`` returns.
        model: schema of the whole file.
        table_tag: part of a location that stands for no key.
        name_pattern: pattern of names, which is said in words.
    """
    sentences: dict[str, None] = {}
    for item in mistakes:
        location = tuple(part for part in item["loc"] if part != table_tag)
        if item["type"] == "extra_forbidden":
            sentences[_name_nearest(location, model)] = None
        elif item["type"] == "too_short" and len(item["input"]) >= item["ctx"]["min_length"]:
            continue  # it only lacks what another mistake has made unreadable
        elif location and location[-1] in _SCALARS and item["type"].partition("_")[0] in _KINDS:
            sentences[f"{_join(location[:-1])}: {shorten(item['input'])} {_NO_SCALAR}"] = None
        else:
            said = _say(item, name_pattern)
            sentences[f"{_join(location)}: {said}" if location else said] = None
    return tuple(sentences)


def shorten(value: Any) -> str:
    """Write a value as a study file has it, cut where it is long.

    >>> print(shorten("abc"), shorten(True), shorten([1, "x"]), shorten("x" * 99)[-6:])
    'abc' true [1, "x"] xxx...
    """
    text = repr(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHORT else f"{text[: _SHORT - 3]}..."


def _say(item: Any, name_pattern: str) -> str:
    """Say what is wrong with a value without the jargon of the library that found it."""
    kind, value = item["type"], shorten(item["input"])
    if kind == "missing":
        return "is required"
    if kind == "literal_error":
        return f"{value} is not known; write {item['ctx']['expected']}"
    if kind == "string_pattern_mismatch" and item["ctx"]["pattern"] == name_pattern:
        return f"{value} is no name; use letters, digits, '.', '_' and '-', a letter or digit first"
    if kind == "finite_number":
        return f"{item['input']} is no finite number"
    if kind == "too_short":
        return f"{value} is too short; it needs {item['ctx']['min_length']} at least"
    if kind in _BOUNDS:
        key, words = _BOUNDS[kind]
        return f"{value} is out of range: it {words} {item['ctx'][key]:g}"
    expected = _KINDS.get(kind.partition("_")[0])
    if kind.endswith(("_type", "_parsing", "_from_float")) and expected is not None:
        return expected if expected.startswith("has") else f"{value} {expected}"
    if kind == "value_error":
        return str(item["msg"]).removeprefix("Value error, ")
    return f"{value}: {item['msg']}"


def _name_nearest(location: Sequence[int | str], model: type[BaseModel]) -> str:
    """Name an unknown key, and the known one that is nearest."""
    path, known = _join(location), _list_keys(location[:-1], model)
    near = difflib.get_close_matches(str(location[-1]), known, n=1, cutoff=0.5)
    if near:
        return f"unknown key {path!r}, did you mean {near[0]!r}?"
    return f"unknown key {path!r}" + (f"; known keys: {', '.join(known)}" if known else "")


def _list_keys(location: Sequence[int | str], model: Any) -> list[str]:
    """Keys that the table at ``location`` accepts; empty when the location is not a table of the schema."""
    for part in location:
        if isinstance(part, int):
            continue
        field = _fields(model).get(part)
        inner = [] if field is None else list(_find_models(field.annotation))
        if not inner:
            return []
        model = inner[0]
    return sorted(_fields(model))


def _fields(model: Any) -> Mapping[str, Any]:
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _find_models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the tables that an annotation allows, two levels deep at most."""
    for outer in (annotation, *getattr(annotation, "__args__", ())):
        for inner in (outer, *getattr(outer, "__args__", ())):
            if isinstance(inner, type) and issubclass(inner, BaseModel):
                yield inner


def _join(location: Sequence[int | str]) -> str:
    return ".".join(map(str, location))
