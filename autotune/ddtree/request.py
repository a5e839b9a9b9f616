"""What the HTTP process and the engine tell each other: requests in, token deltas out."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How one engine decodes; fixed for the life of the process, as on a real server.

    Attributes:
        device: ``"cpu"`` or ``"cuda"``.
        dtype: ``"float32"`` or ``"bfloat16"``.
        budget: nodes of the draft tree; ``None`` decodes plainly and loads no drafter.
        topk: tokens kept per drafted position.
        block: positions drafted per step plus the committed token in slot 0 (paths have at most ``block - 1`` tokens).
        window: context positions the drafter sees; ``None`` is the whole context.
        max_running_requests: requests decoded together; others wait.
        context_length: longest prompt plus answer, in tokens.
        threshold_single: a drafted token is accepted when its target probability exceeds this; 1.0 is lossless.
        threshold_acc: accept probability p becomes min(1, p / threshold_acc); 1.0 is lossless.
        clip_width: use the open pull request's effective width min(max(budget // (block - 1) + 1, 2), topk).
        draft_log: file that receives the drafter's top-k tokens and log-probabilities of each step.
        draft_log_every_token: commit one token a step, so that a draft is logged after every token; never faster.
        draft_log_windows: windows whose drafts are logged beside, each smaller than ``window``.
        random_seed: seed of requests that state none.
    """

    device: str = "cpu"
    dtype: str = "float32"
    budget: int | None = None
    topk: int = 6
    block: int = 16
    window: int | None = None
    max_running_requests: int = 48
    context_length: int = 2048
    threshold_single: float = 1.0
    threshold_acc: float = 1.0
    clip_width: bool = False
    draft_log: str | None = None
    draft_log_every_token: bool = False
    draft_log_windows: tuple[int, ...] = ()
    random_seed: int = 0


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One prompt to be continued.

    Attributes:
        request_id: unique among the requests in flight.
        prompt_ids: at least one token.
        max_new_tokens: at least one.
        temperature: 0 is greedy.
        top_p: nucleus of the target's distribution, 1.0 is all of it.
        top_k: number of likeliest tokens kept; -1 is all.
        seed: the sampled text is a function of (prompt, seed, sampling parameters) alone, whatever the tree.
        ignore_eos: go on past the end token.
        min_new_tokens: the end token is not allowed before this many.
    """

    request_id: str
    prompt_ids: tuple[int, ...]
    max_new_tokens: int
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = -1
    seed: int | None = None
    ignore_eos: bool = False
    min_new_tokens: int = 0


@dataclass(frozen=True, slots=True)
class TokenDelta:
    """What one step produced for one request.

    A step may produce two deltas for one request, in order: the first token, which prefill chose, and what the decode
    step that follows committed.

    Attributes:
        request_id: whose tokens these are.
        token_ids: one to ``block`` new tokens; may be empty when finished. The end token that ends a request is not among
            them; under ``ignore_eos`` end tokens are tokens like any other.
        finish_reason: ``None`` while running, else ``"stop"``, ``"length"`` or ``"abort"``.
        completion_tokens: tokens generated so far, an end token counted as SGLang does.
        verify_steps: verify steps so far (decode steps when decoding plainly).
        accepted_histogram: how many steps accepted 0, 1, 2 ... drafted tokens; empty when decoding plainly.
    """

    request_id: str
    token_ids: tuple[int, ...]
    finish_reason: str | None
    completion_tokens: int
    verify_steps: int
    accepted_histogram: tuple[int, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class EngineStats:
    """What the decode log line and ``/metrics`` need; counters since the last flush.

    Attributes:
        running: requests being decoded.
        queued: requests waiting for a slot.
        cache_tokens: context tokens held in the KV cache.
        cache_capacity: context tokens it can hold.
        decode_steps: steps of the whole batch.
        verify_calls: steps summed over requests.
        generated_tokens: tokens committed by decode steps, summed over requests.
        accepted_tokens: drafted tokens accepted, summed over requests.
        prompt_tokens: prompt tokens prefilled.
    """

    running: int
    queued: int
    cache_tokens: int
    cache_capacity: int
    decode_steps: int
    verify_calls: int
    generated_tokens: int
    accepted_tokens: int
    prompt_tokens: int
