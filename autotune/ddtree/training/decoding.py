"""Plain greedy answers of a target for many prompts at once, with a cache; used to make and to judge weights."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from autotune.ddtree.model import Target, rms_norm, rotary_tables, rotate
from autotune.ddtree.tokenizer import END, PAD


def _run(
    target: Target,
    ids: Tensor,
    rotary: tuple[Tensor, Tensor],
    cache: list[tuple[Tensor, Tensor]],
    first: int,
    mask: Tensor,
) -> Tensor:
    """Run columns ``first ...`` of the cache; return the next token of each row after the last column."""
    x = target.embedding(ids)
    last = first + ids.shape[1]
    for layer, (keys, values) in zip(target.layers, cache, strict=True):
        q, k, v = layer.project(x)  # type: ignore[operator]
        keys[:, :, first:last] = rotate(k, *rotary)
        values[:, :, first:last] = v
        attended = F.scaled_dot_product_attention(
            rotate(q, *rotary), keys[:, :, :last], values[:, :, :last], attn_mask=mask
        )
        x = layer.finish(x, attended)  # type: ignore[operator]
    return target.head(rms_norm(x[:, -1], target.norm)).argmax(-1)


@torch.inference_mode()
def greedy_answers(target: Target, prompts: Sequence[Sequence[int]], new_tokens: int) -> list[list[int]]:
    """Continue every prompt greedily.

    Args:
        target: on any device; CUDA computes in bfloat16.
        prompts: token sequences of similar length, because they are padded to the longest.
        new_tokens: how many tokens each continuation may have; decoding ends early when all rows have ended.

    Returns:
        Continuations, each all that was generated: nothing is cut after an end token.
    """
    device = target.embedding.weight.device
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    longest = max(map(len, prompts))
    pads = torch.tensor([longest - len(prompt) for prompt in prompts], device=device)
    ids = torch.tensor([[PAD] * (longest - len(prompt)) + list(prompt) for prompt in prompts], device=device)
    cosine, sine = rotary_tables(target.config, device, dtype)
    shape = (len(prompts), target.config.heads, longest + new_tokens, target.config.head_width)
    cache = [
        (torch.zeros(shape, device=device, dtype=dtype), torch.zeros(shape, device=device, dtype=dtype))
        for _ in target.layers
    ]
    columns = torch.arange(longest + new_tokens, device=device)
    real = columns >= pads[:, None]
    square = columns[:longest]
    # A padding column sees itself: a row without any visible key would be undefined.
    mask = (real[:, None, :longest] & (square[:, None] >= square)) | (square[:, None] == square)
    positions = (columns - pads[:, None]).clamp(min=0)
    rotary = (cosine[positions[:, :longest]][:, None], sine[positions[:, :longest]][:, None])
    ended = torch.zeros(len(prompts), dtype=torch.bool, device=device)
    answers = []
    with torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type == "cuda"):
        token = _run(target, ids, rotary, cache, 0, mask[:, None])
        for column in range(longest, longest + new_tokens):
            answers.append(token)
            ended |= token == END
            if column == longest + new_tokens - 1 or (len(answers) % 16 == 0 and bool(ended.all())):
                break
            rotary = (cosine[positions[:, column]][:, None, None], sine[positions[:, column]][:, None, None])
            token = _run(target, token[:, None], rotary, cache, column, real[:, None, None, : column + 1])
    rows: list[list[int]] = torch.stack(answers, 1).tolist()
    return rows


def cut_at_end(answer: Sequence[int]) -> list[int]:
    """The answer up to its end token, that token included; all of it when there is none."""
    tokens = list(answer)
    return tokens[: tokens.index(END) + 1] if END in tokens else tokens
