"""A server that has only what OpenAI's own API has: no counters, no flags, no flush, and unknown fields are refused."""

from __future__ import annotations

import re
from typing import Any

from tests.benchmark.scripted_server import DONE, ROLE, STOP, Script, Scripts, content, usage

FIELDS = {
    "model", "messages", "temperature", "top_p", "seed", "max_tokens", "max_completion_tokens", "stream", "stream_options",
}  # fmt: skip


def count_tokens(messages: list[dict[str, str]]) -> int:
    """Words, groups of three digits and other characters; three more for each message."""
    texts = [message["content"] for message in messages]
    return sum(3 + len(re.findall(r" ?[A-Za-z]+|\d{1,3}|\n+|[^A-Za-z\d]", text)) for text in texts)


def refuse(request: dict[str, Any]) -> str | None:
    """Why OpenAI's API would not take a request."""
    unknown = sorted(set(request) - FIELDS) + sorted(set(request["stream_options"]) - {"include_usage"})
    return f"Unrecognized request argument supplied: {unknown[0]}" if unknown else None


def answer(chunk_s: float = 0.004, tokens_per_chunk: int = 3) -> Any:
    """Chunks without usage at a steady pace, usage once in the end."""

    def script(_scripts: Scripts, request: dict[str, Any]) -> Script:
        limit = request.get("max_tokens") or request["max_completion_tokens"]
        chunks = -(-limit // tokens_per_chunk)
        pieces: Script = [(0.0, ROLE)]
        for index in range(chunks):
            size = min(tokens_per_chunk, limit - index * tokens_per_chunk)
            pieces.append((chunk_s, content("word " * size)))
        return [*pieces, (0.0, STOP + usage(limit, count_tokens(request["messages"])) + DONE)]

    return script


def plain_server(**changes: Any) -> Scripts:
    """Such a server, not yet running."""
    values: dict[str, Any] = {"answer": answer(), "offers_flush": False, "refuses": refuse}
    return Scripts(**(values | changes))
