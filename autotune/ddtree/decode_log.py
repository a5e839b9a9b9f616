"""Which log lines does a server print about its batches, and what is the accept length of the last interval?"""

from __future__ import annotations

from autotune.ddtree.request import EngineStats


class DecodeLog:
    """Turns the engine's counters into SGLang's ``Decode batch`` and ``Prefill batch`` lines.

    Args:
        interval: decode steps between two decode lines.
        block: block size, by which the accept rate is defined; ``None`` while decoding plainly.
        now_s: monotonic time of the start.
    """

    def __init__(self, interval: int, block: int | None, now_s: float) -> None:
        self._interval = interval
        self._block = block
        self._last = EngineStats(0, 0, 0, 0, 0, 0, 0, 0, 0)
        self._last_line_s = now_s
        self._prompt_tokens = 0
        self._last_prefill_s = now_s
        self.throughput_tokens_per_s: float | None = None
        """Generated tokens per second over the last interval; ``None`` before the first line."""
        self.accept_length: float | None = None
        """Tokens per verify since the counters were reset, as of the last line; ``None`` before it or without speculation."""

    def reset(self, stats: EngineStats) -> None:
        """Forget the past after the counters were reset; ``stats`` are the new counters."""
        self._last = stats
        self._prompt_tokens = stats.prompt_tokens
        self.accept_length = None

    def render_prefill(self, stats: EngineStats, new_sequences: int, now_s: float) -> str | None:
        """Return the line of a step that prefilled prompts; ``None`` when it did not."""
        tokens = stats.prompt_tokens - self._prompt_tokens
        if tokens <= 0:
            return None
        self._prompt_tokens = stats.prompt_tokens
        throughput = tokens / max(now_s - self._last_prefill_s, 1e-9)
        self._last_prefill_s = now_s
        return (
            f"Prefill batch, #new-seq: {new_sequences}, #new-token: {tokens}, #cached-token: 0, "
            f"token usage: {_usage(stats):.2f}, #running-req: {stats.running}, #queue-req: {stats.queued}, "
            f"#pending-token: 0, cuda graph: False, input throughput (token/s): {throughput:.2f}"
        )

    def render_decode(self, stats: EngineStats, batch: int, now_s: float) -> str | None:
        """Return the line that is due after this step; ``None`` until the interval is full.

        Args:
            stats: counters after the step.
            batch: requests of the step, those that ended in it included.
            now_s: monotonic time.
        """
        if stats.decode_steps - self._last.decode_steps < self._interval:
            return None
        generated = stats.generated_tokens - self._last.generated_tokens
        verified = stats.verify_calls - self._last.verify_calls
        accepted = stats.accepted_tokens - self._last.accepted_tokens
        self.throughput_tokens_per_s = generated / max(now_s - self._last_line_s, 1e-9)
        self._last, self._last_line_s = stats, now_s
        speculation = ""
        if self._block is not None and verified > 0:
            self.accept_length = stats.generated_tokens / stats.verify_calls
            rate = accepted / (verified * (self._block - 1))
            speculation = f"accept len: {generated / verified:.2f}, accept rate: {rate:.2f}, "
        return (
            f"Decode batch, #running-req: {batch}, #token: {stats.cache_tokens}, token usage: {_usage(stats):.2f}, "
            f"{speculation}cuda graph: False, gen throughput (token/s): {self.throughput_tokens_per_s:.2f}, "
            f"#queue-req: {stats.queued}"
        )


def _usage(stats: EngineStats) -> float:
    """Share of the cache in use."""
    return stats.cache_tokens / stats.cache_capacity if stats.cache_capacity else 0.0
