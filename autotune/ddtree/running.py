"""What has one admitted request produced so far, and when does it end?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from autotune.ddtree.request import GenerationRequest, TokenDelta


@dataclass(slots=True)
class RunningRequest:
    """A request that holds a cache row.

    Attributes:
        request: what was asked for.
        seed: the request's own or the engine's.
        length: tokens whose keys and values are cached, which is also the position of ``last_token``.
        last_token: committed but not yet run through the target.
        completion_tokens: tokens produced, an end token included.
        verify_steps: decode steps taken.
        accepted_histogram: steps that accepted 0, 1, 2 ... drafted tokens; empty when decoding plainly.
    """

    request: GenerationRequest
    seed: int
    length: int
    last_token: int
    completion_tokens: int = 0
    verify_steps: int = 0
    accepted_histogram: list[int] = field(default_factory=list)

    def commit(self, tokens: Sequence[int], end_token: int) -> tuple[tuple[int, ...], str | None]:
        """Take tokens up to the first end token or the limit, whichever comes first.

        Returns:
            The tokens to show (an end token that ends the answer is counted but not shown) and the finish reason.
        """
        tokens = tokens[: self.request.max_new_tokens - self.completion_tokens]
        if not self.request.ignore_eos and end_token in tokens:
            shown = tuple(tokens[: tokens.index(end_token)])
            self.completion_tokens += len(shown) + 1
            return shown, "stop"
        self.completion_tokens += len(tokens)
        return tuple(tokens), "length" if self.completion_tokens >= self.request.max_new_tokens else None

    def delta(self, tokens: tuple[int, ...], finish_reason: str | None) -> TokenDelta:
        """Report these tokens with the counts so far."""
        return TokenDelta(
            self.request.request_id,
            tokens,
            finish_reason,
            self.completion_tokens,
            self.verify_steps,
            tuple(self.accepted_histogram),
        )
