"""What do a server's log lines say about decoding? Pure; the log is not an interface, so fields are read by name.

A line counts only when it begins as a record of the server does, bare ``Decode batch`` or a bracketed prefix before it,
and names running requests: text of users may be logged too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]")
_RECORD = re.compile(
    r"^(?:\[(?:\d{4}-\d\d-\d\d[ T])?\d\d:\d\d:\d\d[^\]]{0,80}\] ?"  # since 2024; the date came late in that year
    r"|\[gpu=\d+\] ?"  # before
    r"|\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)? )?"  # of a container's log
    r"(?:(?:DEBUG|INFO|WARNING)[: ] ?)?"
    r"(?:\[(?:\d{4}-\d\d-\d\d[ T])?\d\d:\d\d:\d\d[^\]]{0,80}\] ?|\[[A-Z]{2}\d+(?: [A-Z]{2}\d+)*\] ?)?"
    r"Decode batch(?: ?\[\d+\])?[.,] ?(?P<fields>.*)$"
)
_LONGEST_LINE = 4096


@dataclass(frozen=True, slots=True)
class DecodeLine:
    """One decode log line; ``None`` is a field that it lacks or that is no finite number.

    Attributes:
        running: requests being decoded.
        accept_length: tokens per verify step since the line before.
        accept_rate: accepted over proposed drafted tokens.
        tokens_per_s: since the line before; far too low on the first line after idling.
        queued: requests waiting.
    """

    running: int | None
    accept_length: float | None
    accept_rate: float | None
    tokens_per_s: float | None
    queued: int | None


def parse_message(value: Any) -> str:
    """Turn a journal's MESSAGE, text or array of bytes, into clean text: no escapes, no trailing CR or newline.

    >>> parse_message([27, 91, 51, 50, 109, 104, 105, 13])
    'hi'
    """
    if isinstance(value, list):
        value = bytes(byte for byte in value if isinstance(byte, int) and 0 <= byte < 256)
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if not isinstance(value, str):
        return ""
    return _ESCAPES.sub("", value).rstrip("\r\n")


def parse_line(line: str | bytes) -> DecodeLine | None:
    """Read one line of a log: plain, with escapes, or a JSON object of a journal; ``None`` when it is no decode line.

    Bytes that are no UTF-8 are replaced, in a journal's line too.
    """
    if isinstance(line, bytes):
        line = line.decode("utf-8", "replace")
    text = parse_message(line)[:_LONGEST_LINE]
    if text.lstrip(" \t").startswith("{"):
        try:
            entry: Any = json.loads(line)
        except (ValueError, RecursionError):
            return None
        text = parse_message(entry.get("MESSAGE"))[:_LONGEST_LINE] if isinstance(entry, dict) else ""
    found = _RECORD.match(text)
    if found is None:
        return None
    fields: dict[str, str] = {}
    for part in found["fields"].split(","):
        name, colon, value = part.partition(":")
        if colon:
            fields.setdefault(name.strip(), value.strip())
    if "#running-req" not in fields:
        return None
    return DecodeLine(
        running=_count(fields.get("#running-req")),
        accept_length=_number(fields.get("accept len")),
        accept_rate=_number(fields.get("accept rate")),
        tokens_per_s=_number(fields.get("gen throughput (token/s)")),
        queued=_count(fields.get("#queue-req")),
    )


def parse_lines(lines: Iterable[str | bytes]) -> list[DecodeLine]:
    """Read all decode lines of a log, in order."""
    return [found for found in map(parse_line, lines) if found is not None]


def mean_accept_length(lines: Sequence[DecodeLine]) -> float | None:
    """Mean over lines that state one of at least 1, weighted by running requests; ``None`` when none does.

    Every line covers the same number of decode steps, so a line stands for that many steps of each running request.
    """
    pairs = [
        (line.accept_length, max(line.running or 1, 1))
        for line in lines
        if line.accept_length is not None and line.accept_length >= 1
    ]
    if not pairs:
        return None
    return sum(length * weight for length, weight in pairs) / sum(weight for _length, weight in pairs)


def _number(text: str | None) -> float | None:
    """A plain decimal number; ``None`` for anything else, infinity and NaN among it."""
    return float(text) if text is not None and re.fullmatch(r"-?\d{1,15}(\.\d{1,15})?", text, re.ASCII) else None


def _count(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"\d{1,15}", text, re.ASCII) else None
