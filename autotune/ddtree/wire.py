"""How the HTTP process and the engine process talk: frames of JSON on one stream socket.

A frame is four bytes of length, then one JSON array whose first element names the message. One frame carries what a whole
engine step produced, so the cost does not grow with the number of streams.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any, Final

import orjson

from autotune.ddtree.request import EngineStats, GenerationRequest, TokenDelta

_LENGTH: Final = struct.Struct("<I")

START: Final = "start"
"""To the engine, first of all: the effective flags."""
GENERATE: Final = "generate"
"""To the engine: a request, see :func:`pack_request`."""
ABORT: Final = "abort"
"""To the engine: the id of a request to drop."""
STATE: Final = "state"
"""To the engine: a ticket; the answer holds counters, throughput, accept length."""
FLUSH: Final = "flush"
"""To the engine: a ticket; the answer says whether the counters were set to zero."""
READY: Final = "ready"
"""From the engine, once: what it has loaded."""
DELTAS: Final = "deltas"
"""From the engine: what one step produced, see :func:`pack_deltas`."""
REJECTED: Final = "rejected"
"""From the engine: the id of a request it can never serve, and why."""
ANSWER: Final = "answer"
"""From the engine: a ticket and the values asked for."""


def render_frame(*message: Any) -> bytes:
    """Turn a message into the bytes of one frame."""
    body = orjson.dumps(message)
    return _LENGTH.pack(len(body)) + body


class FrameReader:
    """Collects bytes and gives back whole messages, wherever the cuts between reads fall."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[list[Any]]:
        """Add bytes and return the messages they complete, oldest first."""
        self._buffer += data
        messages = []
        start = 0
        while len(self._buffer) - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer, start)
            end = start + _LENGTH.size + length
            if len(self._buffer) < end:
                break
            messages.append(orjson.loads(memoryview(self._buffer)[start + _LENGTH.size : end]))
            start = end
        del self._buffer[:start]
        return messages


def pack_request(request: GenerationRequest) -> list[Any]:
    """Turn a request into the arguments of a ``generate`` message."""
    return [
        request.request_id,
        request.prompt_ids,
        request.max_new_tokens,
        request.temperature,
        request.top_p,
        request.top_k,
        request.seed,
        request.ignore_eos,
        request.min_new_tokens,
    ]


def unpack_request(fields: list[Any]) -> GenerationRequest:
    """Read the arguments of a ``generate`` message."""
    request_id, prompt_ids, *rest = fields
    return GenerationRequest(request_id, tuple(prompt_ids), *rest)


def pack_deltas(deltas: Iterable[TokenDelta]) -> list[Any]:
    """Turn what a step produced into the argument of a ``deltas`` message."""
    return [
        (d.request_id, d.token_ids, d.finish_reason, d.completion_tokens, d.verify_steps, d.accepted_histogram)
        for d in deltas
    ]


def unpack_deltas(rows: list[list[Any]]) -> list[TokenDelta]:
    """Read the argument of a ``deltas`` message."""
    return [
        TokenDelta(request_id, tuple(tokens), finish, completion, verify, tuple(histogram))
        for request_id, tokens, finish, completion, verify, histogram in rows
    ]


def pack_stats(stats: EngineStats) -> dict[str, int]:
    """Turn the engine's counters into JSON."""
    return {name: getattr(stats, name) for name in EngineStats.__slots__}


def unpack_stats(fields: dict[str, int]) -> EngineStats:
    """Read the engine's counters."""
    return EngineStats(**fields)
