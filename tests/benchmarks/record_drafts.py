"""Records what the drafter proposes at every position of known texts, and what trees really accept on the same texts.

::

    python -m tests.benchmarks.record_drafts --weights build/large --device cuda --dtype bfloat16 --name h200_large_drafts

Texts are the greedy answers of plain decoding. ``NAME.npz`` holds, for the two windows of ``WINDOWS``, the drafter's best
``TOPK`` tokens and their log-probabilities at every position (one teacher-forced pass), and the texts; ``NAME.json`` the
accept lengths that an engine of the same weights reached on the same prompts, configuration by configuration. A replay of
the drafts is right when it predicts those.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autotune.ddtree.engine import Engine
from autotune.ddtree.model import Drafter, Target, rotary_tables
from autotune.ddtree.request import EngineOptions, GenerationRequest
from autotune.ddtree.tokenizer import END
from autotune.ddtree.weights import load_drafter, load_target, load_tokenizer
from tests.benchmarks.record_table import build_prompts

TOPK = 8
BLOCK = 16
CONTEXT = 256
PROMPTS = 16
TOKENS = 256
WINDOWS = (64, None)
CONFIGURATIONS = (
    (2, 1, 16), (4, 1, 16), (8, 1, 16), (16, 1, 16), (4, 4, 16), (8, 4, 16), (12, 4, 16), (16, 4, 16), (32, 4, 16),
    (64, 4, 16), (16, 2, 16), (16, 8, 16), (64, 8, 16), (4, 1, 8), (8, 4, 8), (16, 4, 8), (32, 4, 8),
)  # fmt: skip
"""Budget, topk and block."""


def run_engine(engine: Engine, prompts: Sequence[Sequence[int]]) -> tuple[list[list[int]], float]:
    """Answer all prompts together.

    Returns:
        Answers, and tokens per verification over all of them.
    """
    engine.reset_counters()
    answers: dict[str, list[int]] = {}
    for number, ids in enumerate(prompts):
        answers[str(number)] = []
        engine.submit(GenerationRequest(str(number), tuple(ids), TOKENS, ignore_eos=True))
    while engine.has_work():
        for delta in engine.step():
            answers[delta.request_id] += delta.token_ids
    stats = engine.stats()
    return list(answers.values()), stats.generated_tokens / stats.verify_calls


@torch.inference_mode()
def draft_everywhere(target: Target, drafter: Drafter, texts: Tensor, window: int | None) -> tuple[Tensor, Tensor]:
    """Draft after every token of the answers.

    Args:
        target: on the device of ``texts``.
        drafter: likewise.
        texts: prompts and answers ``[B, CONTEXT + TOKENS]``.
        window: context positions that the drafter sees; ``None`` is all.

    Returns:
        Tokens and log-probabilities ``[B, TOKENS, BLOCK - 1, TOPK]``; entry ``i`` follows the answer's token ``i``.
    """
    length = texts.shape[1]
    cosine, sine = rotary_tables(target.config, texts.device, torch.float32)
    _, features = target(texts, (cosine[:length], sine[:length]))
    chosen, scores = [], []
    for first in range(CONTEXT, length, 32):
        at = torch.arange(first, min(first + 32, length), device=texts.device).expand(len(texts), -1)
        embeddings = target.embedding(texts.gather(1, at))
        hidden = drafter(features, embeddings, at, BLOCK, window or length, (cosine, sine))
        best, tokens = target.head(hidden).float().log_softmax(-1).topk(TOPK, -1)
        chosen.append(tokens)
        scores.append(best)
    return torch.cat(chosen, 1), torch.cat(scores, 1)


def main(words: Sequence[str] | None = None) -> int:
    """Record texts, drafts and accept lengths."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--folder", type=Path, default=Path("studies/tables"))
    parser.add_argument("--name", required=True)
    arguments = parser.parse_args(words)
    torch.backends.cuda.enable_cudnn_sdp(enabled=False)
    target = load_target(arguments.weights).to(arguments.device)
    drafter = load_drafter(arguments.weights).to(arguments.device)
    prompts = build_prompts(load_tokenizer(arguments.weights), PROMPTS, CONTEXT, seed=11)
    place: dict[str, Any] = {"device": arguments.device, "dtype": arguments.dtype, "max_running_requests": PROMPTS}
    texts, _ = run_engine(Engine(target, None, EngineOptions(**place), END), prompts)
    rows = []
    for window in WINDOWS:
        for budget, topk, block in CONFIGURATIONS:
            options = EngineOptions(budget=budget, topk=topk, block=block, window=window, **place)
            answers, accept_length = run_engine(Engine(target, drafter, options, END), prompts)
            equal = sum(mine == plain for mine, plain in zip(answers, texts, strict=True))
            row = {"budget": budget, "topk": topk, "block": block, "window": window}
            rows.append(row | {"accept_length": round(accept_length, 4), "texts_equal_to_plain": equal})
            sys.stdout.write(f"{rows[-1]}\n")
            sys.stdout.flush()
    whole = torch.tensor([[*ids, *text] for ids, text in zip(prompts, texts, strict=True)], device=arguments.device)
    arrays: dict[str, Any] = {"texts": whole.cpu().numpy().astype(np.uint16)}
    for window in WINDOWS:
        tokens, scores = draft_everywhere(target, drafter, whole, window)
        arrays[f"tokens_window_{window or 'none'}"] = tokens.cpu().numpy().astype(np.uint16)
        arrays[f"logprobs_window_{window or 'none'}"] = scores.cpu().numpy().astype(np.float16)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(arguments.folder / f"{arguments.name}.npz", **arrays)
    record: dict[str, Any] = {
        "context": CONTEXT,
        "output_tokens": TOKENS,
        "prompts": PROMPTS,
        "topk": TOPK,
        "block": BLOCK,
    }
    record |= {"dtype": arguments.dtype, "accept_lengths": rows}
    (arguments.folder / f"{arguments.name}.json").write_text(json.dumps(record, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
