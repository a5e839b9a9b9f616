"""How a generation is told to a client: the interface of the two protocols, and the figures both report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Protocol

from autotune.ddtree.generation import Generation
from autotune.ddtree.request import GenerationRequest

DONE: Final = b"data: [DONE]\n\n"


class Rendering(Protocol):
    """Turns one generation into the bytes of its answer."""

    def render_piece(self, generation: Generation, text: str) -> bytes:
        """Return the events for text that came while the generation goes on."""

    def render_end(self, generation: Generation, text: str) -> bytes:
        """Return the last events, ``[DONE]`` included, with the text that came last."""

    def render_whole(self, generation: Generation, text: str) -> bytes:
        """Return the body of an answer that is not streamed."""

    def render_refusal(self, message: str) -> bytes:
        """Return the body of a refusal."""


@dataclass(frozen=True, slots=True)
class Order:
    """A parsed request: what to generate and how to answer."""

    request: GenerationRequest
    stop: tuple[str, ...]
    stream: bool
    rendering: Rendering


def render_meta_info(generation: Generation, block: int | None, now_s: float) -> dict[str, Any]:
    """Return SGLang's ``meta_info`` of a generation.

    Args:
        generation: running or finished.
        block: block size, by which the accept rate is defined; ``None`` while decoding plainly.
        now_s: monotonic time.
    """
    info: dict[str, Any] = {
        "id": generation.request.request_id,
        "finish_reason": None if generation.finish is None else generation.finish.native,
        "prompt_tokens": len(generation.request.prompt_ids),
        "weight_version": "default",
        "completion_tokens": generation.completion_tokens,
        "cached_tokens": 0,
    }
    if block is not None and generation.verify_steps > 0:
        correct = sum(length * count for length, count in enumerate(generation.histogram))
        proposed = generation.verify_steps * (block - 1)
        info |= {
            "spec_accept_length": generation.completion_tokens / generation.verify_steps,
            "spec_accept_rate": correct / proposed,
            "spec_verify_ct": generation.verify_steps,
            "spec_num_correct_drafts": correct,
            "spec_num_proposed_drafts": proposed,
            "spec_correct_drafts_histogram": generation.histogram,
        }
    if generation.finish is not None:
        info["e2e_latency"] = now_s - generation.started_s
    return info
