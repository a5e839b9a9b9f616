"""Which token does the target itself choose? Greedy or sampled, a function of logits, seed and position alone.

A sampled token is the inverse of the distribution at one uniform number, and that number depends only on the request's
seed and the token's absolute position. Whether a tree, a batch or plain decoding produced the logits does not matter,
so speculation is lossless token for token when sampling too.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from autotune.ddtree.request import GenerationRequest

_MASK = (1 << 64) - 1
_LIKELIEST = 128


def uniform(seed: int, position: int, stream: int = 0) -> float:
    """Return a number strictly between 0 and 1 that depends on nothing but the arguments (a splitmix64 hash)."""
    state = (seed * 0x9E3779B97F4A7C15 + position * 0xD1B54A32D192ED03 + stream * 0x8CB92BA72F3D8DD7) & _MASK
    for _ in range(2):
        state = (state + 0x9E3779B97F4A7C15) & _MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        state ^= state >> 31
    return ((state >> 16) + 0.5) / (1 << 48)


def probabilities(logits: Tensor, requests: Sequence[GenerationRequest]) -> Tensor:
    """Distribution after temperature, then top-k, then top-p of what is left.

    Args:
        logits: ``[R, S, vocabulary]``.
        requests: one for each of the ``R`` rows, all with a temperature above 0.

    Returns:
        Float32 ``[R, S, vocabulary]``; a nucleus is never empty.
    """
    temperatures = torch.tensor([request.temperature for request in requests], device=logits.device)
    result = (logits.float() / temperatures[:, None, None]).softmax(-1)
    vocabulary = logits.shape[-1]
    limits = [request.top_k if 0 < request.top_k < vocabulary else vocabulary for request in requests]
    nuclei = [min(request.top_p, 1.0) for request in requests]
    cut = [row for row in range(len(requests)) if limits[row] < vocabulary or nuclei[row] < 1.0]
    if not cut:
        return result
    index = torch.tensor(cut, device=logits.device)
    slots = result.shape[1]
    whole = result[index].flatten(0, 1)
    kept = torch.tensor([limits[row] for row in cut], device=logits.device).repeat_interleave(slots)[:, None]
    nucleus = torch.tensor([nuclei[row] for row in cut], device=logits.device).repeat_interleave(slots)[:, None]
    weights, complete = _cut_to_likeliest(whole, kept, nucleus, min(_LIKELIEST, vocabulary))
    rest = complete.logical_not().nonzero()[:, 0]
    if len(rest):
        weights[rest], _ = _cut_to_likeliest(whole[rest], kept[rest], nucleus[rest], vocabulary)
    result[index] = weights.reshape(len(cut), slots, vocabulary)
    return result


def _cut_to_likeliest(whole: Tensor, kept: Tensor, nucleus: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Apply top-k and top-p, looking at the ``count`` likeliest tokens of each row and at nothing of other rows.

    Args:
        whole: distributions ``[N, vocabulary]``.
        kept: top-k of each row, the vocabulary when all are kept, ``[N, 1]``.
        nucleus: top-p of each row, ``[N, 1]``.
        count: tokens looked at.

    Returns:
        Weights ``[N, vocabulary]``, and ``[N]``: whether ``count`` tokens were enough for the row.
    """
    vocabulary = whole.shape[-1]
    ordered, tokens = whole.topk(count, -1)
    ordered = ordered.masked_fill(torch.arange(count, device=whole.device) >= kept, 0.0)
    cumulated = ordered.cumsum(-1)
    mass = cumulated.gather(-1, kept.clamp(max=count) - 1).masked_fill(kept == vocabulary, 1.0)
    outside = cumulated - ordered >= nucleus * mass
    complete = (kept <= count) | ((kept == vocabulary) & outside[:, -1:])
    outside[:, 0] = False
    return torch.zeros_like(whole).scatter_(-1, tokens, ordered.masked_fill(outside, 0.0)), complete[:, 0]


def inverse_distribution(weights: Tensor, uniforms: Tensor) -> Tensor:
    """Token at which the cumulated weights pass ``uniforms`` of their sum.

    Args:
        weights: not negative, not all zero, ``[..., vocabulary]``.
        uniforms: ``[...]``, strictly between 0 and 1.
    """
    cumulated = weights.double().cumsum(-1)
    goal = (uniforms.double() * cumulated[..., -1])[..., None]
    return torch.searchsorted(cumulated, goal, right=True)[..., 0].clamp_(max=weights.shape[-1] - 1)


def seed_of(request: GenerationRequest, random_seed: int) -> int:
    """The request's seed, or the engine's where it states none."""
    return random_seed if request.seed is None else request.seed


def choose_tokens(
    logits: Tensor,
    requests: Sequence[GenerationRequest],
    seeds: Sequence[int],
    positions: Sequence[int],
    depths: Tensor,
) -> Tensor:
    """Token that the target chooses after every slot of every row.

    Args:
        logits: ``[B, S, vocabulary]``.
        requests: one per row.
        seeds: one per row.
        positions: absolute position of the token chosen after slots of depth 0, per row.
        depths: ``[B, S]`` or ``[S]``; deeper slots choose later tokens.

    Returns:
        Tokens ``[B, S]``.
    """
    choices = logits.argmax(-1)
    sampled = [index for index, request in enumerate(requests) if request.temperature > 0]
    if not sampled:
        return choices
    index = torch.tensor(sampled, device=logits.device)
    weights = probabilities(logits[index], [requests[row] for row in sampled])
    choices[index] = inverse_distribution(
        weights, uniforms_of_slots([seeds[row] for row in sampled], [positions[row] for row in sampled], depths, index)
    )
    return choices


def uniforms_of_slots(seeds: Sequence[int], positions: Sequence[int], depths: Tensor, rows: Tensor) -> Tensor:
    """Uniform numbers ``[R, S]`` of the slots of ``rows``: slots of one depth share theirs."""
    slots = depths.shape[-1]
    table = [
        [uniform(seed, position + depth) for depth in range(slots)]
        for seed, position in zip(seeds, positions, strict=True)
    ]
    numbers = torch.tensor(table, dtype=torch.float64, device=depths.device)
    return numbers.gather(1, depths[rows] if depths.dim() == 2 else depths.expand(len(table), -1))
