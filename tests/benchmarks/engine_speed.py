"""How fast is the engine alone, without HTTP: plain decoding against a grid of trees, interleaved.

::

    python -m tests.benchmarks.engine_speed --concurrency 1 32 --context 128 --rounds 3

Every round runs every configuration once on the same prompts (modules of several functions, as the studies send them), in
an order that changes from round to round, so that load from elsewhere falls on all alike (``--cpu-time --threads 1`` is
less disturbed still, but blind to what a second core gives). A figure is the median over
rounds of output tokens per second while the whole batch is decoding; prefill is left out. The ratio is taken within a round.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

from autotune.benchmark.workload import build_prompts
from autotune.ddtree.engine import Engine
from autotune.ddtree.prompt import Prompter
from autotune.ddtree.request import EngineOptions, GenerationRequest
from autotune.ddtree.tokenizer import END
from autotune.ddtree.weights import TOKENIZER_FILE, default_weights_directory, load_drafter, load_target
from autotune.trial import Cell

DEFAULT_GRID = (
    "plain", "2/1/none/16", "4/1/none/16", "4/4/none/16", "6/4/none/16", "8/1/none/16", "8/4/none/16", "8/4/64/8",
    "12/4/none/16", "16/4/none/16", "16/4/64/16", "32/4/none/16", "64/8/none/16",
)  # fmt: skip


@dataclass(slots=True)
class Figures:
    """What the rounds of one configuration gave."""

    tokens_per_s: list[float] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)
    accept_lengths: list[float] = field(default_factory=list)
    step_ms: list[float] = field(default_factory=list)


def parse_configuration(text: str, concurrency: int) -> EngineOptions:
    """Read ``budget/topk/window/block`` or ``plain``."""
    if text == "plain":
        return EngineOptions(max_running_requests=concurrency)
    budget, topk, window, block = text.split("/")
    return EngineOptions(
        budget=int(budget),
        topk=int(topk),
        window=None if window == "none" else int(window),
        block=int(block),
        max_running_requests=concurrency,
    )


def make_requests(
    prompter: Prompter, context: int, concurrency: int, output_tokens: int, repeat: int
) -> list[GenerationRequest]:
    """The prompts of one round."""
    cell = Cell(context=context, concurrency=concurrency)
    prompts = build_prompts(cell, repeat, concurrency, seed=1, output_tokens=output_tokens)
    return [
        GenerationRequest(
            prompt.prompt_id,
            tuple(prompter.encode_messages([{"role": role, "content": text} for role, text in prompt.messages])),
            output_tokens,
        )
        for prompt in prompts
    ]


def measure(
    engine: Engine, requests: Sequence[GenerationRequest], clock: Callable[[], float]
) -> tuple[float, float, float]:
    """Decode a batch while it is whole.

    Returns:
        Output tokens per second, accept length and milliseconds per step.
    """
    for request in requests:
        engine.submit(request)
    engine.step()
    engine.reset_counters()
    start = clock()
    while engine.stats().running == len(requests):
        engine.step()
    seconds = clock() - start
    stats = engine.stats()
    for request in requests:
        engine.abort(request.request_id)
    engine.step()
    return (
        stats.generated_tokens / seconds,
        stats.generated_tokens / stats.verify_calls,
        seconds / stats.decode_steps * 1e3,
    )


def main() -> None:
    """Print one table per concurrency."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 32])
    parser.add_argument("--context", type=int, default=128)
    parser.add_argument("--output-tokens", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--prompts", type=int, default=4, help="batches per round at concurrency 1")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--cpu-time", action="store_true", help="CPU seconds instead of wall seconds")
    parser.add_argument("--grid", nargs="+", default=DEFAULT_GRID, help="plain, or budget/topk/window/block")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    directory = default_weights_directory()
    target, drafter = load_target(directory), load_drafter(directory)
    prompter = Prompter.load(directory / TOKENIZER_FILE, target.config.vocabulary, 2048)
    for concurrency in arguments.concurrency:
        engines: dict[str, Engine] = {}
        for name in arguments.grid:
            options = parse_configuration(name, concurrency)
            engines[name] = Engine(target, None if options.budget is None else drafter, options, END)
        figures = {name: Figures() for name in engines}
        batches = arguments.prompts if concurrency == 1 else 1
        for repeat in range(-1, arguments.rounds):
            names = list(engines)
            random.Random(repeat).shuffle(names)  # noqa: S311 - reproducible order
            speeds = {}
            for name in names:
                results = [
                    measure(
                        engines[name],
                        make_requests(
                            prompter, arguments.context, concurrency, arguments.output_tokens, repeat * batches + number
                        ),
                        time.process_time if arguments.cpu_time else time.perf_counter,
                    )
                    for number in range(batches)
                ]
                speed, accept_length, step_ms = (statistics.fmean(part) for part in zip(*results, strict=True))
                speeds[name] = speed
                if repeat >= 0:
                    figures[name].tokens_per_s.append(speed)
                    figures[name].accept_lengths.append(accept_length)
                    figures[name].step_ms.append(step_ms)
            if repeat >= 0 and "plain" in speeds:
                for name, speed in speeds.items():
                    figures[name].ratios.append(speed / speeds["plain"])
        print(
            f"\nC={concurrency}, context {arguments.context}, {arguments.output_tokens} tokens, {arguments.threads} threads"
        )
        print(f"{'budget/topk/window/block':26}{'tokens/s':>10}{'x plain':>9}{'accept':>8}{'ms/step':>9}")
        for name, row in figures.items():
            ratio = f"{statistics.median(row.ratios):9.2f}" if row.ratios else f"{'':9}"
            print(
                f"{name:26}{statistics.median(row.tokens_per_s):10.0f}{ratio}"
                f"{statistics.fmean(row.accept_lengths):8.2f}{statistics.median(row.step_ms):9.2f}"
            )


if __name__ == "__main__":
    main()
