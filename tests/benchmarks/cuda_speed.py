"""How fast is the engine alone on a GPU? Needs no package beside torch, tokenizers, safetensors and numpy.

::

    python -m tests.benchmarks.cuda_speed [--device cpu]
"""

from __future__ import annotations

import argparse
import random
import statistics
import time

import torch

from autotune.ddtree.engine import Engine
from autotune.ddtree.request import EngineOptions, GenerationRequest
from autotune.ddtree.tokenizer import END
from autotune.ddtree.training.answers import draw_prompts
from autotune.ddtree.weights import default_weights_directory, load_drafter, load_target, load_tokenizer

BUDGETS = (None, 4, 8, 16, 32, 64)
TOKENS = 128
ROUNDS = 3


def main() -> None:
    """Print tokens/s and accept length by dtype, concurrency and budget; topk 4, block 16, no window, greedy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    device = parser.parse_args().device
    torch.backends.cuda.enable_cudnn_sdp(enabled=False)
    directory = default_weights_directory()
    tokenizer = load_tokenizer(directory)
    prompts = draw_prompts(random.Random(0), tokenizer, 32, 300)  # noqa: S311 - reproducible prompts
    for dtype in ("float32", "bfloat16"):
        for concurrency in (1, 32):
            for budget in BUDGETS:
                options = EngineOptions(device=device, dtype=dtype, budget=budget, topk=4, block=16)
                drafter = None if budget is None else load_drafter(directory)
                engine = Engine(load_target(directory), drafter, options, END)
                speeds = []
                for _ in range(ROUNDS + 1):
                    engine.reset_counters()
                    for number, prompt in enumerate(prompts[:concurrency]):
                        engine.submit(GenerationRequest(str(number), tuple(prompt), TOKENS, ignore_eos=True))
                    engine.step()
                    begin, tokens = time.perf_counter(), 0
                    while engine.has_work():
                        tokens += sum(len(delta.token_ids) for delta in engine.step())
                    speeds.append(tokens / (time.perf_counter() - begin))
                stats = engine.stats()
                accept = stats.generated_tokens / max(1, stats.verify_calls)
                name = "plain" if budget is None else f"budget {budget}"
                print(
                    f"{dtype} C={concurrency:<3} {name:<10} {statistics.median(speeds[1:]):8.0f} tokens/s {accept:5.2f}"
                )


if __name__ == "__main__":
    main()
