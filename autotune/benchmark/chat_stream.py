"""From the bytes of one streamed answer to its record: what was said, how many tokens came when, is it whole?

Pure: bytes and arrival times go in, a record comes out, the same for every way of cutting the bytes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from autotune.benchmark.chat_chunk import DONE, ChatChunk, Usage, explain_error, parse_chunk
from autotune.benchmark.request_record import Outcome, RequestRecord
from autotune.benchmark.sse import SseDecoder, SseEvent


class ChatStream:
    """Collects one answer.

    Args:
        read_chunk: reads the data of one event.

    Attributes:
        first_token_at_s: arrival of the first generated text; ``None`` until then.
        last_event_at_s: arrival of the last event of any kind; ``None`` until then.
        error: the first error the server reported, or unreadable data.
    """

    def __init__(self, read_chunk: Callable[[bytes], ChatChunk] = parse_chunk) -> None:
        self._read_chunk = read_chunk
        self._sse = SseDecoder()
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._at_s: list[float] = []
        self._characters: list[int] = []
        self._counts: list[int | None] = []
        self._usage: Usage | None = None
        self._finish_reason: str | None = None
        self._verify_steps: int | None = None
        self._accepted: tuple[int, ...] = ()
        self._done = False
        self.first_token_at_s: float | None = None
        self.last_event_at_s: float | None = None
        self.error: str | None = None

    @property
    def is_complete(self) -> bool:
        """True when the server said that the answer is whole, so nothing that follows matters."""
        return self._done or (
            self._finish_reason is not None and self._usage is not None and self._usage.completion_tokens is not None
        )

    @property
    def has_ended(self) -> bool:
        """True once the end mark was seen."""
        return self._done

    def feed(self, data: bytes, at_s: float) -> None:
        """Take one read that arrived at ``at_s``."""
        for event in self._sse.feed(data, at_s):
            self._take(event)

    def close(
        self,
        *,
        prompt_id: str,
        repeat: int,
        seed: int,
        sent_at_s: float,
        ended_at_s: float,
        stopped: tuple[Outcome, str] | None = None,
        max_tokens: int | None = None,
    ) -> RequestRecord:
        """Say how the request ended.

        Args:
            prompt_id: goes into the record.
            repeat: goes into the record.
            seed: goes into the record.
            sent_at_s: goes into the record.
            ended_at_s: when the body ended or reading stopped.
            stopped: why reading stopped before the body ended; ignored when the answer was already whole.
            max_tokens: goes into the record.
        """
        for event in self._sse.finish(ended_at_s):
            self._take(event)
        notes: list[str] = []
        outcome, error = self._judge(stopped, notes)
        tokens, estimated = self._count_tokens()
        return RequestRecord(
            prompt_id=prompt_id,
            repeat=repeat,
            seed=seed,
            sent_at_s=sent_at_s,
            ended_at_s=ended_at_s,
            outcome=outcome,
            error=error,
            finish_reason=self._finish_reason,
            usage=self._usage,
            chunk_at_s=tuple(self._at_s),
            chunk_tokens=tokens,
            chunk_tokens_estimated=estimated,
            text="".join(self._text),
            reasoning="".join(self._reasoning),
            notes=tuple(notes),
            max_tokens=max_tokens,
            verify_steps=self._verify_steps,
            accepted=self._accepted,
        )

    def _take(self, event: SseEvent) -> None:
        if self._done or self.error is not None or not event.data:
            return
        self.last_event_at_s = event.at_s
        if event.data == DONE:
            self._done = True
            return
        if event.name == "error":
            self.error = explain_error(event.data)
            return
        chunk = self._read_chunk(event.data)
        if chunk.error is not None:
            self.error = chunk.error
            return
        self._take_chunk(chunk, event.at_s)

    def _take_chunk(self, chunk: ChatChunk, at_s: float) -> None:
        usage = chunk.usage
        if usage is not None:
            self._usage = usage
        if chunk.finish_reason is not None:
            self._finish_reason = chunk.finish_reason
        if chunk.verify_steps is not None:
            self._verify_steps = chunk.verify_steps
        if chunk.accepted:
            self._accepted = chunk.accepted
        content, reasoning, tool_text = chunk[:3]
        if content or reasoning or tool_text:
            if self.first_token_at_s is None:
                self.first_token_at_s = at_s
            self._at_s.append(at_s)
            self._characters.append(len(content) + len(reasoning) + len(tool_text))
            self._counts.append(usage.completion_tokens if usage is not None else None)
            self._text.append(content)
            self._reasoning.append(reasoning)

    def _judge(self, stopped: tuple[Outcome, str] | None, notes: list[str]) -> tuple[Outcome, str | None]:
        if self.error is not None:
            return Outcome.FAILED, self.error
        if self._finish_reason in ("abort", "error"):
            return Outcome.FAILED, f"the server ended the answer with finish reason {self._finish_reason!r}"
        if self.is_complete:
            if not self._done:
                notes.append("the stream ended without [DONE]")
            if self._finish_reason is None:
                notes.append("no finish reason")
            if self._at_s and self._usage is not None and self._usage.completion_tokens == 0:
                notes.append("the server counted 0 tokens for an answer with text")
            elif self._usage is not None and 0 < (self._usage.completion_tokens or 0) < len(self._at_s):
                notes.append("the server counted fewer tokens than chunks with text, so its count is in doubt")
            return Outcome.OK, None
        if stopped is not None:
            return stopped
        return Outcome.TRUNCATED, f"the stream ended after {len(self._at_s)} chunks without finish reason and usage"

    def _count_tokens(self) -> tuple[tuple[int, ...] | None, bool]:
        """Tokens up to each chunk: by continuous usage where that is sound, else spread by text length."""
        total = self._usage.completion_tokens if self._usage else None
        if not total or not self._at_s:
            return None, False
        counts = [count for count in self._counts if count is not None]
        if len(counts) == len(self._at_s) and _is_sound(counts, total):
            return tuple(counts), False
        return spread_tokens(total, self._characters), True


def spread_tokens(total: int, characters: Sequence[int]) -> tuple[int, ...]:
    """Spread ``total`` tokens over chunks in proportion to their text.

    >>> spread_tokens(10, [2, 2, 2, 2])
    (3, 5, 8, 10)
    """
    whole = sum(characters)
    counts, so_far = [], 0
    for length in characters:
        so_far += length
        counts.append((total * so_far * 2 + whole) // (whole * 2))
    return tuple(counts)


def _is_sound(counts: Sequence[int], total: int) -> bool:
    """True for counts that start at one or more, never fall, and end at most at the total."""
    rises = all(before <= after for before, after in itertools.pairwise(counts))
    return rises and counts[0] >= 1 and counts[-1] <= total and (len(counts) == 1 or counts[0] < counts[-1])
