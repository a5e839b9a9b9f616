"""Is this request body what the API allows? Typed access to its fields, with a reason when it is not."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping
from typing import Any, Final

import orjson

_REPR: Final = reprlib.Repr()
"""Shows a value of any size and depth in bounded time."""
_REPR.maxstring = 200


class BodyError(ValueError):
    """A request is refused with status 400; the message says which field and why.

    Attributes:
        field: the field at fault; ``None`` when it is the whole body.
    """

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


def parse_body(data: bytes) -> Body:
    """Read a request body.

    Raises:
        BodyError: it is no JSON object in UTF-8.
    """
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise BodyError(f"The body is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise BodyError(f"The body must be a JSON object, not {_kind(value)}.")
    return Body(value)


class Body:
    """The fields of a JSON object. A field that is ``null`` counts as missing.

    Args:
        fields: the object.
        prefix: where it lies in the request, for messages.
    """

    def __init__(self, fields: Mapping[str, Any], prefix: str = "") -> None:
        self._fields = fields
        self._prefix = prefix

    def names(self) -> list[str]:
        """Return the fields that are not ``null``."""
        return [name for name, value in self._fields.items() if value is not None]

    def raw(self, name: str) -> Any:
        """Return a field as it came."""
        return self._fields.get(name)

    def error(self, name: str, rule: str) -> BodyError:
        """Return the error for a field that breaks a rule, with the value it has."""
        text = _REPR.repr(self._fields.get(name))
        shown = text if len(text) <= 80 else text[:77] + "..."
        return BodyError(f"{self._prefix}{name} {rule}, got {shown}.", self._prefix + name)

    def text(self, name: str) -> str | None:
        """Return a string field."""
        value = self._fields.get(name)
        if value is not None and not isinstance(value, str):
            raise self.error(name, "must be a string")
        return value

    def switch(self, name: str, *, default: bool = False) -> bool:
        """Return a true-or-false field."""
        value = self._fields.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.error(name, "must be true or false")
        return value

    def integer(self, name: str, *, minimum: int | None = None, maximum: int | None = None) -> int | None:
        """Return a whole number inside its bounds."""
        value = self._fields.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(name, "must be a whole number")
        if minimum is not None and value < minimum:
            raise self.error(name, f"must be at least {minimum}")
        if maximum is not None and value > maximum:
            raise self.error(name, f"must be at most {maximum}")
        return value

    def number(self, name: str) -> float | None:
        """Return a finite number."""
        value = self._fields.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise self.error(name, "must be a number")
        return float(value)

    def record(self, name: str) -> Body:
        """Return an object field; empty when missing."""
        value = self._fields.get(name)
        if value is None:
            return Body({}, f"{self._prefix}{name}.")
        if not isinstance(value, dict):
            raise self.error(name, "must be an object")
        return Body(value, f"{self._prefix}{name}.")

    def strings(self, name: str) -> tuple[str, ...]:
        """Return a field that is one string or a list of strings; empty strings are refused."""
        value = self._fields.get(name)
        if value is None:
            return ()
        items = [value] if isinstance(value, str) else value
        if not isinstance(items, list) or not all(isinstance(item, str) and item for item in items):
            raise self.error(name, "must be a non-empty string or a list of such")
        return tuple(items)

    def refuse(self, name: str, neutral: tuple[object, ...], reason: str) -> None:
        """Refuse a field unless it is missing or has a value that asks for nothing.

        Args:
            name: the field.
            neutral: values that ask for nothing; compared with their type, so that ``True`` is not 1.
            reason: why anything else is refused.
        """
        value = self._fields.get(name)
        if value is None or any(type(value) is type(harmless) and value == harmless for harmless in neutral):
            return
        raise self.error(name, f"is not supported: {reason}")


def is_token_list(value: object) -> bool:
    """True for a non-empty list of whole numbers."""
    return isinstance(value, list) and set(map(type, value)) == {int}


def _kind(value: object) -> str:
    """Name the JSON type of a value."""
    if value is None:
        return "null"
    return {list: "a list", str: "a string", bool: "a truth value", int: "a number", float: "a number"}[type(value)]
