"""What happened to one request: when each piece arrived, how many tokens by usage, and how it ended.

All times are readings of one monotonic clock, in seconds; only differences mean anything.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from autotune.benchmark.chat_chunk import Usage


class Outcome(Enum):
    """How a request ended."""

    OK = "ok"
    """The answer is whole: the end mark was seen, or a finish reason together with usage."""
    FAILED = "failed"
    """Refused, an error status, an error event, an unreadable stream, or aborted by the server."""
    TRUNCATED = "truncated"
    """The stream stopped in the middle: no latency, no answer to judge."""
    TIMED_OUT = "timed out"
    """One of the four limits passed; the error says which."""


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One request of one repeat.

    Attributes:
        prompt_id: names the prompt; the same in every trial.
        repeat: which repeat of the cell, from 0; -1 for warm-up.
        seed: the sampling seed it was sent with.
        sent_at_s: just before the request was written, a connection being open.
        ended_at_s: arrival of the last event of a whole answer, else when the outcome was known.
        outcome: how it ended.
        error: one line, when it did not end ok; untrusted text.
        finish_reason: as the server gave it.
        usage: the last token counts seen; ``None`` when the server gave none.
        chunk_at_s: arrival of each chunk that held generated text, in any channel.
        chunk_tokens: tokens generated up to and including each of these chunks; ``None`` when the server gave no usage.
        chunk_tokens_estimated: True when the server counted only in the end and tokens were spread by text length.
        text: the answer.
        reasoning: text of the reasoning channel.
        notes: oddities that did not make it fail.
        max_tokens: the limit that it was sent with; ``None`` is not known.
        due_at_s: when it was to be sent, where requests arrive at a rate; ``None`` where one follows another.
        verify_steps: verify steps that the answer took, by its ``meta_info``; ``None`` when it has none.
        accepted: how many of them accepted 0, 1, 2 ... drafted tokens; empty when nobody says.
    """

    prompt_id: str
    repeat: int
    seed: int
    sent_at_s: float
    ended_at_s: float
    outcome: Outcome
    error: str | None = None
    finish_reason: str | None = None
    usage: Usage | None = None
    chunk_at_s: tuple[float, ...] = ()
    chunk_tokens: tuple[int, ...] | None = None
    chunk_tokens_estimated: bool = False
    text: str = field(default="", repr=False)
    reasoning: str = field(default="", repr=False)
    notes: tuple[str, ...] = ()
    max_tokens: int | None = None
    verify_steps: int | None = None
    due_at_s: float | None = None
    accepted: tuple[int, ...] = ()

    @property
    def is_ok(self) -> bool:
        """True when the answer is whole."""
        return self.outcome is Outcome.OK

    @property
    def output_tokens(self) -> int | None:
        """Tokens generated, by usage; ``None`` when the server does not say. Never the limit, never the chunks.

        A server that counts 0 tokens for an answer with text does not count, so that is ``None`` too.
        """
        tokens = self.usage.completion_tokens if self.usage else None
        return None if tokens == 0 and self.chunk_at_s else tokens

    @property
    def exceeds_limit(self) -> bool:
        """True when the server counts more tokens than it was allowed to generate, which cannot be."""
        return self.output_tokens is not None and self.max_tokens is not None and self.output_tokens > self.max_tokens

    @property
    def prompt_tokens(self) -> int | None:
        """Tokens of the prompt, by usage."""
        return self.usage.prompt_tokens if self.usage else None

    @property
    def cached_tokens(self) -> int | None:
        """Prompt tokens that a prefix cache answered, by usage."""
        return self.usage.cached_tokens if self.usage else None

    @property
    def ttft_s(self) -> float | None:
        """Seconds from sending, or from when it was due, to the first text of any channel; ``None`` when there was none."""
        asked_at_s = self.sent_at_s if self.due_at_s is None else self.due_at_s
        return self.chunk_at_s[0] - asked_at_s if self.is_ok and self.chunk_at_s else None

    @property
    def prefill_tokens_per_s(self) -> float | None:
        """Prompt tokens that no cache answered over the time from sending to the first text; ``None`` without usage.

        The speed of prefill where the request is alone on the server; among others it also holds their turns.
        """
        if self.prompt_tokens is None or not self.is_ok or not self.chunk_at_s:
            return None
        fresh, prefill_s = self.prompt_tokens - (self.cached_tokens or 0), self.chunk_at_s[0] - self.sent_at_s
        return fresh / prefill_s if fresh > 0 and prefill_s > 0 else None

    @property
    def decode_window_s(self) -> float | None:
        """Seconds from the first to the last chunk with text; ``None`` with fewer than two chunks."""
        return self.chunk_at_s[-1] - self.chunk_at_s[0] if self.is_ok and len(self.chunk_at_s) > 1 else None

    @property
    def tpot_s(self) -> float | None:
        """Decode window over (output tokens minus one); ``None`` for one token, one chunk or no usage.

        An estimate: the first chunk may hold more than one token, whose time lies before the window.
        """
        tokens, window_s = self.output_tokens, self.decode_window_s
        return window_s / (tokens - 1) if tokens is not None and tokens > 1 and window_s else None

    def to_json(self) -> dict[str, Any]:
        """The record as plain data for one JSON line; chunk times are relative to sending, in microseconds."""
        return {
            "type": "request",
            "prompt_id": self.prompt_id,
            "repeat": self.repeat,
            "seed": self.seed,
            "outcome": self.outcome.value,
            "error": self.error,
            "finish_reason": self.finish_reason,
            "max_tokens": self.max_tokens,
            "usage": self.usage._asdict() if self.usage else None,
            "sent_at_s": round(self.sent_at_s, 6),
            "due_at_s": None if self.due_at_s is None else round(self.due_at_s, 6),
            "duration_s": round(self.ended_at_s - self.sent_at_s, 6),
            "ttft_s": self.ttft_s,
            "prefill_tokens_per_s": self.prefill_tokens_per_s,
            "decode_window_s": self.decode_window_s,
            "tpot_s": self.tpot_s,
            "chunk_at_us": [round((at_s - self.sent_at_s) * 1e6) for at_s in self.chunk_at_s],
            "chunk_tokens": self.chunk_tokens,
            "chunk_tokens_estimated": self.chunk_tokens_estimated,
            "text": self.text,
            "reasoning": self.reasoning,
            "verify_steps": self.verify_steps,
            "accepted": self.accepted,
            "notes": self.notes,
        }
