"""What does one chunk of a streamed chat completion say: text, reasoning, finish reason, token counts, an error?

Chunks are untrusted: whatever is not what it should be is left out, and nothing here raises.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

import orjson

DONE = b"[DONE]"
"""Data of the event that ends a stream."""

_LONGEST_ERROR = 300
_LONGEST_HISTOGRAM = 1024
"""Far beyond any block."""
_TITLE, _LONGEST_HEAD = re.compile(r"<title>\s*([^<]{1,200}?)\s*</title>", re.IGNORECASE), 4000
"""What a web page is called, and where that stands."""


class Usage(NamedTuple):
    """Token counts of one request, as the server reports them; ``None`` is not reported."""

    prompt_tokens: int | None
    completion_tokens: int | None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class ChatChunk(NamedTuple):
    """One chunk.

    Attributes:
        content: answer text; empty when the chunk holds none.
        reasoning: text of the reasoning channel.
        tool_text: text of tool calls (names and arguments).
        finish_reason: why the answer ended; ``None`` while it goes on.
        usage: token counts so far (continuous) or in the end.
        error: what went wrong, in words; the chunk then holds nothing else. Untrusted text.
        verify_steps: verify steps of this answer so far, by its ``meta_info``; ``None`` when it has none.
        accepted: how many of its steps accepted 0, 1, 2 ... drafted tokens, in the last chunk; empty when nobody says.
    """

    content: str = ""
    reasoning: str = ""
    tool_text: str = ""
    finish_reason: str | None = None
    usage: Usage | None = None
    error: str | None = None
    verify_steps: int | None = None
    accepted: tuple[int, ...] = ()

    @property
    def is_token(self) -> bool:
        """True when the model generated something in this chunk, in whatever channel."""
        return bool(self.content or self.reasoning or self.tool_text)


def parse_chunk(data: bytes) -> ChatChunk:
    """Read the data of one event that is not :data:`DONE`.

    Invalid UTF-8 and halves of surrogate pairs are replaced, missing or empty ``choices`` are fine, only the first choice counts. What is not a JSON
    object becomes a chunk with ``error``.
    """
    try:
        value: Any = orjson.loads(data)
    except orjson.JSONDecodeError as failure:
        try:
            value = _replace_surrogates(json.loads(data.decode("utf-8", "replace")))
        except (ValueError, RecursionError):
            return ChatChunk(error=f"chunk is not JSON: {failure}"[:_LONGEST_ERROR])
    if not isinstance(value, dict):
        return ChatChunk(error=f"chunk is not a JSON object but {type(value).__name__}")
    error = value.get("error")
    if error:
        return ChatChunk(error=render_error(error))
    usage = value.get("usage")
    usage = parse_usage(usage) if usage else None
    choices = value.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        if value.get("object") == "error" and "message" in value:
            return ChatChunk(error=render_error(value))
        return ChatChunk(usage=usage)
    choice = choices[0]
    finish_reason = choice.get("finish_reason")
    if finish_reason is not None and not isinstance(finish_reason, str):
        finish_reason = str(finish_reason)[:_LONGEST_ERROR]
    meta_info = choice.get("meta_info") or value.get("meta_info")
    steps = parse_verify_steps(meta_info) if meta_info is not None else None
    delta = choice.get("delta")
    if not isinstance(delta, dict):
        return ChatChunk(finish_reason=finish_reason, usage=usage, verify_steps=steps)
    content = delta.get("content")
    if len(delta) == 1 and type(content) is str:  # most chunks
        return ChatChunk(content, "", "", finish_reason, usage, None, steps)
    reasoning = delta.get("reasoning_content") or delta.get("reasoning")
    if isinstance(content, list):
        content, thoughts = (_join_parts(content, kind) for kind in ("text", "thinking"))
        reasoning = reasoning or thoughts
    return ChatChunk(
        content if isinstance(content, str) else "",
        reasoning if isinstance(reasoning, str) else "",
        _tool_text(delta["tool_calls"]) if delta.get("tool_calls") else "",
        finish_reason,
        usage,
        verify_steps=steps,
    )


def parse_verify_steps(meta_info: Any) -> int | None:
    """Read how many verify steps an answer took from SGLang's ``meta_info`` of it; ``None`` when it does not say."""
    return _count(meta_info.get("spec_verify_ct")) if isinstance(meta_info, dict) else None


def parse_accepted(meta_info: Any) -> tuple[int, ...]:
    """Read how many steps accepted 0, 1, 2 ... drafted tokens from SGLang's ``meta_info``; empty when it does not say."""
    counts = meta_info.get("spec_correct_drafts_histogram") if isinstance(meta_info, dict) else None
    if not isinstance(counts, list) or len(counts) > _LONGEST_HISTOGRAM:
        return ()
    known = [count for each in counts if (count := _count(each)) is not None]
    return tuple(known) if len(known) == len(counts) else ()


def parse_usage(value: Any) -> Usage | None:
    """Read a usage object; ``None`` when it is no object or counts neither prompt nor answer."""
    if not isinstance(value, dict):
        return None
    get = value.get  # called for every chunk of a server that counts as it goes
    prompt, completion, inner = get("prompt_tokens"), get("completion_tokens"), get("prompt_tokens_details")
    prompt = prompt if type(prompt) is int and prompt >= 0 else None  # a boolean is no number
    completion = completion if type(completion) is int and completion >= 0 else None
    if prompt is None and completion is None:
        return None
    cached = _count(inner.get("cached_tokens")) if isinstance(inner, dict) else None
    inner = get("completion_tokens_details")
    reasoning = (inner.get("reasoning_tokens") if isinstance(inner, dict) else None) or get("reasoning_tokens")
    return Usage(prompt, completion, cached, None if reasoning is None else _count(reasoning))


def render_error(value: Any) -> str:
    """Put a server's error object into one short line."""
    if isinstance(value, dict):
        value = value.get("message") or value
    return " ".join(str(value).split())[:_LONGEST_ERROR] or "error without a message"


def explain_error(body: bytes) -> str:
    """The reason in the body of an error: its JSON message, the title of a web page, else its text, in one short line."""
    try:
        value: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        value = body.decode("utf-8", "replace")
        title = _TITLE.search(value[:_LONGEST_HEAD])
        value = value if title is None else f"a web page, {' '.join(title[1].split())!r}"
    if isinstance(value, dict):
        value = value.get("error") or value.get("detail") or value
    return render_error(value)


def _replace_surrogates(value: Any) -> Any:
    """Make every text inside a JSON value one that can be written as UTF-8."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_replace_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {key: _replace_surrogates(item) for key, item in value.items()}
    return value


def _count(value: Any) -> int | None:
    """A number of tokens, or ``None`` for everything else (a boolean is no number)."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _join_parts(parts: list[Any], kind: str) -> str:
    """Text of the parts of one kind, where a server sends parts; what is thought may be parts itself, of text."""
    found = [part[kind] for part in parts if isinstance(part, dict) and part.get("type") == kind and kind in part]
    return "".join(each if isinstance(each, str) else _join_texts(each) for each in found)


def _join_texts(parts: Any) -> str:
    if not isinstance(parts, list):
        return ""
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return "".join(text for text in texts if isinstance(text, str))


def _tool_text(calls: Any) -> str:
    if not isinstance(calls, list):
        return ""
    functions = [call.get("function") for call in calls if isinstance(call, dict)]
    texts = [
        text
        for function in functions
        if isinstance(function, dict)
        for text in (function.get("name"), function.get("arguments"))
        if isinstance(text, str)
    ]
    return "".join(texts)
