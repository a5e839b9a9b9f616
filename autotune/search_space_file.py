"""What does a file of ``search_spaces/`` say? Its schema, checked when the file is read, unknown keys refused by name."""

from __future__ import annotations

import difflib
import re
import tomllib
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from autotune.errors import SearchSpaceError
from autotune.packaged import find_packaged, list_packaged
from autotune.trial import ParameterValue

NONE_WORD: Final = "none"
"""TOML has no null: this word stands for ``None`` wherever a value is written."""

FLAG_PATTERN: Final = r"^--[a-z0-9][a-z0-9-]*$"
VARIABLE_PATTERN: Final = r"^[A-Z_][A-Z0-9_]*$"
WORD_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9_.:/-]*$"
NAME_PATTERN: Final = r"^[a-z][a-z0-9_]*$"


def read_none(value: object) -> object:
    """Turn the word ``none`` into ``None`` and leave everything else."""
    return None if value == NONE_WORD else value


Name = Annotated[str, Field(pattern=NAME_PATTERN)]
Word = Annotated[str, Field(pattern=WORD_PATTERN)]
Value = Annotated[int | Word | None, BeforeValidator(read_none)]


class _Table(BaseModel):
    """A table of the file: frozen, and a key it does not know is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Delivery(_Table):
    """How a value reaches the server and comes back.

    Attributes:
        flag: command-line flag that takes the value.
        also_spelled: other names of the flag; a command that is changed loses them too, none of them is ever written.
        environment: variable that takes it.
        flags_beside: arguments written together with it.
        needs: another parameter that must be written for this one to mean anything.
        reported_as: its name in ``/server_info``.
        reported_beside: what else the server then reports.
        unset: what the server takes where it is needed and nothing is written; left out when nobody knows.
    """

    flag: str | None = Field(None, pattern=FLAG_PATTERN)
    also_spelled: list[Annotated[str, Field(pattern=FLAG_PATTERN)]] = []
    environment: str | None = Field(None, pattern=VARIABLE_PATTERN)
    flags_beside: list[str] = []
    needs: Name | None = None
    reported_as: str | None = None
    reported_beside: dict[str, Value] = {}
    unset: Value | Literal[False] = False

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.flag is None) == (self.environment is None):
            raise ValueError("needs exactly one of flag and environment")
        if self.flag is None and self.also_spelled:
            raise ValueError("also_spelled needs a flag")
        return self


class IntParameter(Delivery):
    """A whole number between two bounds, both included."""

    kind: Literal["int"]
    summary: str = ""
    low: int
    high: int
    step: Annotated[int, Field(ge=1)] = 1
    default: int
    omit: int | None = None

    @model_validator(mode="after")
    def _default_is_inside(self) -> Self:
        if self.default not in self.domain:
            raise ValueError(f"the default {self.default} is not one of {self.low} to {self.high} step {self.step}")
        if self.omit is not None and self.omit not in self.domain:
            raise ValueError(f"omit {self.omit} is not one of {self.low} to {self.high} step {self.step}")
        return self

    @property
    def domain(self) -> range:
        """Its values, ascending."""
        return range(self.low, self.high + 1, self.step)

    @property
    def size(self) -> int:
        """How many values there are, also where Python's own count would overflow."""
        return max(0, (self.high - self.low) // self.step + 1)

    def is_omitted(self, value: ParameterValue) -> bool:
        """Whether nothing is written for this value."""
        return self.omit is not None and value == self.omit


class ChoiceParameter(Delivery):
    """One of a few values, in the order that is meant."""

    kind: Literal["choice"]
    summary: str = ""
    choices: Annotated[list[Value], Field(min_length=1)]
    default: Value
    omit: Value | Literal[False] = False

    @model_validator(mode="after")
    def _default_is_inside(self) -> Self:
        numbers = [choice for choice in self.choices if isinstance(choice, str) and re.fullmatch("[0-9]+", choice)]
        if numbers:
            raise ValueError(f"the choice {numbers[0]!r} is a text that reads as a number: write it without quotes")
        if len(set(self.choices)) != len(self.choices):
            raise ValueError("a choice is listed twice")
        if self.default not in self.choices:
            raise ValueError(f"the default {self.default} is not one of the choices")
        if self.omit is not False and self.omit not in self.choices:
            raise ValueError(f"omit {self.omit} is not one of the choices")
        return self

    @property
    def domain(self) -> list[int | str | None]:
        """Its values, in the file's order."""
        return list(self.choices)

    @property
    def size(self) -> int:
        """How many values there are."""
        return len(self.choices)

    def is_omitted(self, value: ParameterValue) -> bool:
        """Whether nothing is written for this value."""
        return self.omit is not False and value == self.omit


class DerivedValue(Delivery):
    """A value that follows from the others: a constant or an expression. Never tuned, always stated."""

    value: int | str


class Rule(_Table):
    """What every configuration must meet, checked before anything is restarted."""

    require: str
    because: str


class Equivalence(_Table):
    """Configurations that are the same on servers with a stated property; the canonical form sets the given values."""

    name: str
    when: str
    set: Annotated[dict[Name, int | str], Field(min_length=1)]
    proven_by: str
    because: str


class Arm(_Table):
    """A named part of the space."""

    name: str
    when: str


class SearchSpaceFile(_Table):
    """One file, as written."""

    name: Name
    summary: str = ""
    parameters: Annotated[
        dict[Name, Annotated[IntParameter | ChoiceParameter, Field(discriminator="kind")]], Field(min_length=1)
    ]
    derived: dict[Name, DerivedValue] = {}
    rules: list[Rule] = []
    arms: list[Arm] = []
    equivalences: list[Equivalence] = []


def load_search_space_file(name: str) -> SearchSpaceFile:
    """Read a packaged search space by name, or any file by path.

    Raises:
        SearchSpaceError: there is no such file, it is not TOML, a key is unknown or a value is wrong.
    """
    path = Path(name) if name.endswith(".toml") else find_packaged("search_spaces", f"{name}.toml")
    if path is None or not path.is_file():
        known = list_packaged("search_spaces")
        near = difflib.get_close_matches(name, known, n=1)
        raise SearchSpaceError(
            f"there is no search space {name!r}" + (f", did you mean {near[0]!r}?" if near else ""),
            hint=f"name a path ending .toml, or one of: {', '.join(known)}",
        )
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SearchSpaceError(f"cannot be read: {error}", where=str(path)) from error
    return parse_search_space_file(text, str(path))


def parse_search_space_file(text: str, where: str) -> SearchSpaceFile:
    """Turn the text of a search space into its schema.

    Raises:
        SearchSpaceError: the text is not TOML, a key is unknown or a value is wrong.
    """
    try:
        return SearchSpaceFile.model_validate(tomllib.loads(text))
    except RecursionError as error:
        raise SearchSpaceError("its tables and lists are nested too deeply", where=where) from error
    except tomllib.TOMLDecodeError as error:
        raise SearchSpaceError(f"not valid TOML: {error}", where=where) from error
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(str(part) for part in item['loc'])}: {item['msg']}" for item in error.errors())
        raise SearchSpaceError(problems, where=where, hint="compare with search_spaces/ddtree.toml") from error
