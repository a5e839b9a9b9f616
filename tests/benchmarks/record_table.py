"""Records what every configuration of the embedded engine does on this device, as a table to replay studies on.

::

    python -m autotune.ddtree.train --large --output build/large        # a GPU, about eight minutes
    python -m tests.benchmarks.record_table --weights build/large --device cuda --dtype bfloat16 --name h200_large
    python -m tests.benchmarks.record_table --grid small --name cpu_small   # the embedded server's model, a quarter of an hour

A pass boots an engine for each configuration, in an order of its own, and measures every cell in it. One row of
``NAME.csv`` is one cell of one boot, so spread between boots and the order of time are kept. ``NAME.json`` says where the
rows come from. Rows are written as they come, and a pass that reaches ``--limit-s`` ends there and says what is missing.
Prompts are chats of the model's own kind, cut to exactly ``context`` tokens, the same for every configuration.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import hashlib
import json
import platform
import random
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from autotune.ddtree.corpus.catalogue import trained_families
from autotune.ddtree.corpus.chats import draw_chat, prompt, render_chat
from autotune.ddtree.engine import Engine
from autotune.ddtree.model import Drafter, Target, count_parameters
from autotune.ddtree.request import EngineOptions, GenerationRequest
from autotune.ddtree.tokenizer import END
from autotune.ddtree.weights import TARGET_FILE, default_weights_directory, load_drafter, load_target, load_tokenizer

OUTPUT_TOKENS = 192


@dataclasses.dataclass(frozen=True, slots=True)
class Grid:
    """What is recorded.

    Attributes:
        budgets, topks, blocks, windows: every combination that exists is a configuration; no window is ``None``.
        contexts: tokens of a prompt.
        sweep: concurrencies that only plain decoding and the trees of topk 4, block 16 and no window are measured at,
            beside 1 and 32.
    """

    budgets: tuple[int, ...]
    topks: tuple[int, ...]
    blocks: tuple[int, ...]
    windows: tuple[int | None, ...]
    contexts: tuple[int, ...]
    sweep: tuple[int, ...] = ()

    @property
    def requests(self) -> int:
        """Most requests at once."""
        return max(32, *self.sweep)

    @property
    def length(self) -> int:
        """Tokens that a request may come to, its draft included."""
        return max(self.contexts) + OUTPUT_TOKENS + 64


GRIDS = {
    "large": Grid(
        (2, 4, 6, 8, 12, 16, 24, 32, 48, 64), (1, 2, 4, 8), (8, 16), (64, 512, None), (256, 1536), (2, 4, 8, 16, 64)
    ),
    "small": Grid((2, 4, 8, 12, 16, 32, 64), (1, 4, 8), (16,), (64, None), (128, 512), (2, 8)),
}
"""For a GPU and for two cores of a processor."""


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One cell of one boot.

    Attributes:
        number: of the pass.
        second: since the pass began.
        budget, topk, window, block: the configuration; a budget of 0 decodes plainly, a window of 0 is none.
        concurrency, context: the cell; ``context`` is tokens of every prompt.
        tokens_per_s: of the whole batch while it is whole, decoding only.
        accept_length: tokens per verification and request.
        step_ms: milliseconds per step of the batch.
        steps: steps measured.
        prefill_ms: from submitting the batch to the end of its first decode step.
        boot_s: seconds that making the engine took (weights are in memory already).
    """

    number: int
    second: float
    budget: int
    topk: int
    window: int
    block: int
    concurrency: int
    context: int
    tokens_per_s: float
    accept_length: float
    step_ms: float
    steps: int
    prefill_ms: float
    boot_s: float


def list_configurations(grid: Grid) -> list[EngineOptions]:
    """Every configuration once: a chain cannot be longer than its block."""
    found = [EngineOptions()]
    for block in grid.blocks:
        for topk in grid.topks:
            for budget in grid.budgets:
                if topk > 1 or budget < block:
                    found += [EngineOptions(budget=budget, topk=topk, block=block, window=w) for w in grid.windows]
    return found


def list_cells(grid: Grid, options: EngineOptions) -> list[tuple[int, int]]:
    """Concurrency and context of every cell that a configuration is measured in."""
    is_swept = options.budget is None or (options.topk, options.block, options.window) == (4, 16, None)
    concurrencies = sorted({1, 32, *(grid.sweep if is_swept else ())})
    return [(concurrency, context) for context in grid.contexts for concurrency in concurrencies]


def build_prompts(tokenizer: Tokenizer, count: int, context: int, seed: int) -> list[tuple[int, ...]]:
    """Make prompts of exactly ``context`` tokens: earlier chats, cut on the left, and one request."""
    rng = random.Random(f"{seed}/{context}")  # noqa: S311 - reproducible prompts
    families = trained_families()
    prompts = []
    for _ in range(count):
        ids: list[int] = tokenizer.encode(prompt(draw_chat(rng, families)[-1].request)).ids
        while len(ids) < context:
            ids = tokenizer.encode(render_chat(draw_chat(rng, families))).ids + ids
        prompts.append(tuple(ids[-context:]))
    return prompts


def measure(engine: Engine, prompts: Sequence[Sequence[int]], tokens: int) -> tuple[float, float, int, float, float]:
    """Decode a batch while it is whole.

    Returns:
        Output tokens/s, accept length, steps, ms a step, and ms until the end of the first step.
    """
    for number, ids in enumerate(prompts):
        engine.submit(GenerationRequest(str(number), tuple(ids), tokens, ignore_eos=True))
    begin = time.perf_counter()
    engine.step()
    prefill_ms = (time.perf_counter() - begin) * 1e3
    engine.reset_counters()
    begin = time.perf_counter()
    while engine.stats().running == len(prompts):
        engine.step()  # its results are read by the host, so no device work is left over when it returns
    seconds = time.perf_counter() - begin
    stats = engine.stats()
    for number in range(len(prompts)):
        engine.abort(str(number))
    engine.step()
    return (
        stats.generated_tokens / seconds,
        stats.generated_tokens / stats.verify_calls,
        stats.decode_steps,
        seconds / stats.decode_steps * 1e3,
        prefill_ms,
    )


def play_pass(
    number: int, grid: Grid, target: Target, drafter: Drafter, tokenizer: Tokenizer, base: EngineOptions, until: float
) -> Iterator[Row]:
    """Boot every configuration in random order and measure its cells, until the monotonic second ``until``."""
    start = time.monotonic()
    prompts = {context: build_prompts(tokenizer, grid.requests, context, seed=7) for context in grid.contexts}
    configurations = list_configurations(grid)
    random.Random(number).shuffle(configurations)  # noqa: S311 - reproducible order
    for chosen in configurations:
        options = dataclasses.replace(
            chosen,
            device=base.device,
            dtype=base.dtype,
            max_running_requests=grid.requests,
            context_length=grid.length,
        )
        begin = time.monotonic()
        engine = Engine(target, None if options.budget is None else drafter, options, END)
        boot_s = time.monotonic() - begin
        for concurrency, context in list_cells(grid, options):
            if time.monotonic() > until:
                return
            batch = prompts[context][:concurrency]
            measure(engine, batch, 24)
            speed, accept_length, steps, step_ms, prefill_ms = measure(engine, batch, OUTPUT_TOKENS)
            yield Row(
                number,
                round(time.monotonic() - start, 2),
                options.budget or 0,
                options.topk if options.budget else 0,
                options.window or 0,
                options.block if options.budget else 1,
                concurrency,
                context,
                round(speed, 1),
                round(accept_length, 4),
                round(step_ms, 4),
                steps,
                round(prefill_ms, 3),
                round(boot_s, 3),
            )
        engine.close()


def describe(arguments: argparse.Namespace, target: Target, drafter: Drafter) -> dict[str, Any]:
    """Say where the rows come from."""
    weights = arguments.weights / TARGET_FILE
    return {
        "recorded_by": f"python -m tests.benchmarks.record_table --grid {arguments.grid}",
        "recorded_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "device": torch.cuda.get_device_name() if arguments.device == "cuda" else platform.machine(),
        "threads": torch.get_num_threads(),
        "dtype": arguments.dtype,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "target_parameters": count_parameters(target),
        "drafter_parameters": count_parameters(drafter),
        "target_config": dataclasses.asdict(target.config),
        "weights_sha256": hashlib.sha256(weights.read_bytes()).hexdigest(),
        "output_tokens": OUTPUT_TOKENS,
        "sampling": "greedy, end token ignored",
        "columns": [field.name for field in dataclasses.fields(Row)],
    }


def main(words: Sequence[str] | None = None) -> int:
    """Record one or more passes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", type=Path, default=default_weights_directory())
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--grid", choices=sorted(GRIDS), default="large", help="what is recorded (default: large)")
    parser.add_argument("--folder", type=Path, default=Path("studies/tables"))
    parser.add_argument("--name", required=True, help="of the table")
    parser.add_argument("--passes", type=int, nargs="+", default=[0, 1], help="numbers of the passes; each boots all")
    parser.add_argument("--limit-s", type=float, default=3600.0, help="end after so many seconds")
    arguments = parser.parse_args(words)
    torch.backends.cuda.enable_cudnn_sdp(enabled=False)
    target, drafter = load_target(arguments.weights), load_drafter(arguments.weights)
    if arguments.device == "cuda":
        target, drafter = target.cuda(), drafter.cuda()
    tokenizer = load_tokenizer(arguments.weights)
    until = time.monotonic() + arguments.limit_s
    arguments.folder.mkdir(parents=True, exist_ok=True)
    path = arguments.folder / f"{arguments.name}.csv"
    record = describe(arguments, target, drafter) | {"rows": {}}
    grid = GRIDS[arguments.grid]
    expected = sum(len(list_cells(grid, options)) for options in list_configurations(grid))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(record["columns"])
        for number in arguments.passes:
            rows = 0
            base = EngineOptions(device=arguments.device, dtype=arguments.dtype)
            for row in play_pass(number, grid, target, drafter, tokenizer, base, until):
                writer.writerow(dataclasses.astuple(row))
                file.flush()
                rows += 1
                if rows % 50 == 0:
                    sys.stdout.write(f"pass {number}: {rows} of {expected} cells, {row.second:.0f} s\n")
                    sys.stdout.flush()
            record["rows"][str(number)] = f"{rows} of {expected}"
            path.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n")
    sys.stdout.write(f"{path}: {record['rows']}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
