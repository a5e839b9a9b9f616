"""How words of the command line become durations, clock times and configurations."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, time, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from autotune.settings import Value

Parsed = TypeVar("Parsed")

_SECONDS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def parse_duration(text: str) -> float:
    """Return the seconds of a duration like ``90s``, ``20m``, ``8h`` or ``1h30m``.

    >>> [parse_duration(text) for text in ("90s", "20m", "1.5h", "1h30m")]
    [90.0, 1200.0, 5400.0, 5400.0]

    Raises:
        ValueError: it is not one, or not longer than nothing.
    """
    parts = re.findall(r"([0-9]+(?:[.][0-9]+)?)(min|[smh])", text.strip())
    if not parts or "".join(number + unit for number, unit in parts) != text.strip():
        raise ValueError(f"{text!r} is not a duration; write for example 90s, 20m, 8h or 1h30m")
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    if seconds <= 0:
        raise ValueError(f"{text!r} is no time at all")
    return seconds


def parse_clock(text: str, now: datetime) -> datetime:
    """Return the next moment at which a local clock shows ``HH:MM``.

    Args:
        text: the time of day.
        now: what the local clock shows now, without a time zone; the result has none either, so that a night in which
            the clocks change is as long as it is.

    Raises:
        ValueError: it is not a time of day.
    """
    match = re.fullmatch(r"([0-9]{1,2}):([0-9]{2})", text.strip())
    if match is None or int(match[1]) > 23 or int(match[2]) > 59:
        raise ValueError(f"{text!r} is not a time of day; write for example 06:30")
    moment = datetime.combine(now.date(), time(int(match[1]), int(match[2])))
    return moment if moment > now else moment + timedelta(days=1)


def parse_boots(text: str) -> int:
    """Return how many boots a confirmation may have: none, or enough to decide something.

    >>> parse_boots("6"), parse_boots("0")
    (6, 0)

    Raises:
        ValueError: it is no such number.
    """
    from autotune.settings import FEWEST_CONFIRMATION_BOOTS  # noqa: PLC0415 - help loads no schema

    if not re.fullmatch(r"[0-9]{1,4}", text.strip()):
        raise ValueError(f"{text!r} is no number of boots")
    boots = int(text)
    if 0 < boots < FEWEST_CONFIRMATION_BOOTS:
        raise ValueError(
            f"{boots} boots decide nothing: at least {FEWEST_CONFIRMATION_BOOTS}, two of the baseline and two of a leader, or 0"
        )
    return boots


def parse_assignments(text: str) -> dict[str, Value]:
    """Return the values of a list like ``budget=16,topk=4,window=none``; the search space checks them.

    >>> parse_assignments("budget=16, window=none, clip=true")
    {'budget': 16, 'window': 'none', 'clip': True}

    Raises:
        ValueError: a part is not ``name=value``, or a name stands twice.
    """
    values: dict[str, Value] = {}
    for part in text.split(","):
        name, separator, value = (piece.strip() for piece in part.partition("="))
        if not (name and separator and value):
            raise ValueError(f"{part.strip()!r} is not name=value; write for example budget=16,topk=4,window=none")
        if name in values:
            raise ValueError(f"{name} stands twice in {text!r}")
        values[name] = _parse_value(value)
    return values


def parse_counts(text: str) -> tuple[int, ...]:
    """Return the whole numbers of a list like ``1,8,32``, each once.

    >>> parse_counts("1, 8,32,8")
    (1, 8, 32)

    Raises:
        ValueError: a part is no whole number of at least 1.
    """
    parts = [part.strip() for part in text.split(",")]
    wrong = next((part for part in parts if not re.fullmatch(r"[0-9]{1,7}", part) or int(part) < 1), None)
    if wrong is not None:
        raise ValueError(f"{wrong!r} is no whole number from 1; write for example 1,8,32")
    return tuple(dict.fromkeys(map(int, parts)))


def parse_mix(text: str) -> dict[str, float]:
    """Return the shares of a list like ``code=2,chat=1``.

    >>> parse_mix("code=2,chat=1")
    {'code': 2.0, 'chat': 1.0}

    Raises:
        ValueError: a part is not ``kind=share``, there is no such kind, or a share is not above 0.
    """
    from autotune.settings import PROMPT_KINDS  # noqa: PLC0415 - help loads no schema

    shares: dict[str, float] = {}
    for name, value in parse_assignments(text).items():
        if name not in PROMPT_KINDS:
            raise ValueError(f"{name!r} is no kind of prompt; choose of {', '.join(PROMPT_KINDS)}")
        if isinstance(value, bool | str) or not 0 < value <= 1e6:
            raise ValueError(f"{name}={value} is no share above 0; write for example code=2,chat=1")
        shares[name] = float(value)
    return shares


def _parse_value(text: str) -> Value:
    if text in {"true", "false"}:
        return text == "true"
    if re.fullmatch(r"[+-]?[0-9]{1,20}", text):
        return int(text)
    if re.fullmatch(r"[+-]?([0-9]+[.][0-9]*|[.]?[0-9]+)([eE][+-]?[0-9]+)?", text):
        return float(text)
    return text


def checked(parse: Callable[[str], Parsed]) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """Make a parser the callback of an option, of one that may be repeated too; what it refuses is a wrong command."""

    def convert(ctx: click.Context, param: click.Parameter, value: str | tuple[str, ...] | None) -> Any:
        try:
            if isinstance(value, tuple):
                return tuple(parse(word) for word in value)
            return None if value is None else parse(value)
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from error

    return convert
