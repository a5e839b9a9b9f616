"""Which server-sent events does a byte stream hold, and when did each one arrive?

The decoder is incremental and pure: the same events come out however the bytes are cut, and an event carries the
arrival time of the byte that completed it.
"""

from __future__ import annotations

from typing import NamedTuple

_BOM = b"\xef\xbb\xbf"


class SseEvent(NamedTuple):
    """One event.

    Attributes:
        data: the ``data:`` lines joined by newlines; bytes, because the server's text need not be valid UTF-8.
        at_s: arrival time of the byte that ended the event.
        name: the ``event:`` field; empty when there was none.
    """

    data: bytes
    at_s: float
    name: str = ""


class SseDecoder:
    """Turns reads into events; lines may end in LF, CRLF or CR, comments and unknown fields are skipped.

    Memory is bounded by what one event holds; whoever feeds the decoder bounds the whole body.
    """

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._data: list[bytes] = []
        self._name = ""
        self._skip_lf = False
        self._at_start = True

    def feed(self, data: bytes, at_s: float) -> list[SseEvent]:
        """Take one read and return the events that it completed.

        Args:
            data: any number of bytes.
            at_s: when they arrived.
        """
        if not data:
            return []
        if (  # most reads are one whole event of one line
            data.endswith(b"\n\n")
            and data.startswith(b"data: ")
            and data.find(b"\n") == len(data) - 2
            and b"\r" not in data
            and not (self._parts or self._data or self._name or self._skip_lf or self._at_start)
        ):
            return [SseEvent(data[6:-2], at_s)]
        if self._skip_lf or b"\r" in data:
            data = self._normalise(data)
        if b"\n" not in data:
            self._parts.append(data)
            return []
        if self._parts:
            self._parts.append(data)
            data = b"".join(self._parts)
            self._parts = []
        if self._at_start:
            self._at_start = False
            data = data.removeprefix(_BOM)
        lines = data.split(b"\n")
        rest = lines.pop()
        if rest:
            self._parts.append(rest)
        events: list[SseEvent] = []
        for line in lines:
            if line:
                self._take(line)
            elif self._data or self._name:
                self._dispatch(at_s, events)
        return events

    def finish(self, at_s: float) -> list[SseEvent]:
        """Return what was pending when the stream ended.

        The specification drops an event that no blank line ended; servers leave that line out before closing, so an
        event of whole lines counts. A line without its end is dropped.
        """
        events: list[SseEvent] = []
        self._dispatch(at_s, events)
        self._parts = []
        return events

    def _normalise(self, data: bytes) -> bytes:
        """Make every line end LF, at once: a CR ends its line although an LF may follow in the next read."""
        if self._skip_lf:
            data = data.removeprefix(b"\n")
            if not data:
                self._skip_lf = False
                return data
        self._skip_lf = data.endswith(b"\r")
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _take(self, line: bytes) -> None:
        """Take one field line; a colon at its start makes it a comment."""
        field, _, value = line.partition(b":")
        if field == b"data":
            self._data.append(value[1:] if value[:1] == b" " else value)
        elif field == b"event":
            self._name = value.strip().decode("utf-8", "replace")

    def _dispatch(self, at_s: float, events: list[SseEvent]) -> None:
        if self._data:
            data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
            events.append(SseEvent(data, at_s, self._name))
        self._data = []
        self._name = ""
