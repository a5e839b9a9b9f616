"""Continuous batching over one target and an optional drafter: which requests are decoded in which step?

One engine belongs to one thread: no method may be called while another runs.
"""

from __future__ import annotations

from autotune.ddtree.model import Drafter, Target
from autotune.ddtree.request import EngineOptions, EngineStats, GenerationRequest, TokenDelta


class RequestRejected(ValueError):
    """This engine can never serve the request; the message says why and fits an answer with status 400."""


class Engine:
    """Decodes requests together, plainly or with draft trees.

    Args:
        target: the model whose distribution every answer follows.
        drafter: proposes the trees; ``None`` exactly when ``options.budget`` is ``None``.
        options: fixed for the life of the engine.
        eos_token_id: the end token.
    """

    def __init__(self, target: Target, drafter: Drafter | None, options: EngineOptions, eos_token_id: int) -> None:
        self.options = options
        self.eos_token_id = eos_token_id

    def submit(self, request: GenerationRequest) -> None:
        """Queue a request; it is admitted in a later :meth:`step`.

        Raises:
            RequestRejected: empty or unknown tokens, a parameter out of range, an id in flight, or prompt plus answer
                longer than ``options.context_length``.
        """
        raise NotImplementedError

    def abort(self, request_id: str) -> None:
        """Free the slot of a request now; the next :meth:`step` reports ``"abort"``. Unknown ids are ignored."""
        raise NotImplementedError

    def step(self) -> list[TokenDelta]:
        """Admit waiting requests (their first token comes from prefill), then decode one step of the whole batch."""
        raise NotImplementedError

    def has_work(self) -> bool:
        """Whether a request runs or waits, or an abort is still to be reported."""
        raise NotImplementedError

    def is_idle(self) -> bool:
        """Whether nothing runs and nothing waits."""
        return not self.has_work()

    def stats(self) -> EngineStats:
        """Load of this moment and counters since :meth:`reset_counters`."""
        raise NotImplementedError

    def reset_counters(self) -> None:
        """Set every counter of :meth:`stats` to zero."""
        raise NotImplementedError
