"""What does one event of SGLang's own ``/generate`` say, in the words of a chat chunk? Untrusted; nothing here raises.

Each event carries ``meta_info`` with exact counts so far: tokens, and verify steps where the server speculates. Its text
is all text so far, or with ``--incremental-streaming-output`` only what is new.
"""

from __future__ import annotations

from typing import Any

import orjson

from autotune.benchmark.chat_chunk import (
    ChatChunk,
    Usage,
    parse_accepted,
    parse_chunk,
    parse_verify_steps,
    render_error,
)

_LONGEST_REASON = 300


class NativeReader:
    """Reads the events of one answer, in order."""

    def __init__(self) -> None:
        self._characters = 0

    def read(self, data: bytes) -> ChatChunk:
        """Read the data of one event that is not the end mark; what is no answer of ``/generate`` is an error."""
        try:
            value: Any = orjson.loads(data)
        except orjson.JSONDecodeError:
            return parse_chunk(data)  # says what is wrong with it
        if not isinstance(value, dict):
            return parse_chunk(data)
        if value.get("error"):
            return ChatChunk(error=render_error(value["error"]))
        info = value.get("meta_info")
        if not isinstance(info, dict):
            return ChatChunk(error="the event has no meta_info, so it is none of /generate")
        reason = _read_reason(info.get("finish_reason"))
        usage = Usage(*(_count(info.get(name)) for name in ("prompt_tokens", "completion_tokens", "cached_tokens")))
        return ChatChunk(
            content=self._take_new(value, usage),
            finish_reason=reason,
            usage=usage,
            verify_steps=parse_verify_steps(info),
            accepted=() if reason is None else parse_accepted(info),
        )

    def _take_new(self, value: dict[str, Any], usage: Usage) -> str:
        """The text that this event adds."""
        text, ids = value.get("text"), value.get("output_ids")
        if not isinstance(text, str):
            return ""
        is_new_only = (
            isinstance(ids, list) and usage.completion_tokens is not None and len(ids) < usage.completion_tokens
        )
        if is_new_only:
            return text
        new = text[self._characters :]
        self._characters = max(self._characters, len(text))
        return new


def _read_reason(value: Any) -> str | None:
    if isinstance(value, dict):
        value = value.get("type")
    return value[:_LONGEST_REASON] if isinstance(value, str) else None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
