"""How fast is the embedded server over HTTP: plain decoding against a grid of trees, interleaved.

::

    python -m tests.benchmarks.server_speed --concurrency 1 32 --context 128 --rounds 5

All servers are started first and idle while one of them is measured. Every round measures every server once with the
load generator of the studies, in an order that changes from round to round. The figure is decode tokens/s; a ratio is
taken within a round, and its interval is Student's over the logs of the rounds.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from autotune.benchmark.benchmark import Benchmark
from autotune.interval import mean_log
from autotune.settings import BenchmarkSettings, CellSettings, StageSettings

GRID = (
    "plain",
    "2/1/none/16",
    "4/1/none/16",
    "8/1/none/16",
    "8/4/none/16",
    "16/4/none/16",
    "32/4/none/16",
    "64/8/none/16",
)
"""Configurations as ``budget/topk/window/block``."""


@dataclass(slots=True)
class Contender:
    """One running server and what its rounds gave, by concurrency."""

    name: str
    port: int
    process: subprocess.Popen[bytes]
    speeds: dict[int, list[float]] = field(default_factory=dict)
    accept_lengths: dict[int, list[float]] = field(default_factory=dict)


def start(name: str, threads: int, log: Path) -> Contender:
    """Start one server on a free port; it may still be loading when this returns."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    command = [
        sys.executable,
        "-m",
        "autotune",
        "serve",
        "--port",
        str(port),
        "--cpu-threads",
        str(threads),
        "--enable-metrics",
    ]
    environment = dict(os.environ)
    if name != "plain":
        budget, topk, window, block = name.split("/")
        command += ["--speculative-algorithm", "DDTREE", "--speculative-ddtree-budget", budget]
        command += ["--speculative-num-draft-tokens", block]
        command += [] if window == "none" else ["--speculative-draft-window-size", window]
        environment["SGLANG_DDTREE_MAX_TOPK"] = topk
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)
    return Contender(name, port, process)


def wait(contender: Contender, deadline_s: float = 120.0) -> None:
    """Wait until a server is ready."""
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        if contender.process.poll() is not None:
            raise RuntimeError(f"{contender.name} ended with {contender.process.returncode}")
        try:
            if httpx.get(f"http://127.0.0.1:{contender.port}/health", timeout=30).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.2)
    raise RuntimeError(f"{contender.name} was not ready after {deadline_s:.0f} s")


def measure(contender: Contender, cell: CellSettings, output_tokens: int, records: Path) -> None:
    """Measure one cell of one server and keep its figures."""
    settings = BenchmarkSettings(
        stages=(StageSettings(name="speed", cells=(cell,)),), output_tokens=output_tokens, repeats=1
    )
    benchmark = Benchmark(
        f"http://127.0.0.1:{contender.port}", settings, records, speculative=contender.name != "plain"
    )
    measurement = benchmark.measure_cell(cell)
    contender.speeds.setdefault(cell.concurrency, []).append(measurement.decode_tokens_per_s.value)
    if measurement.accept_length is not None:
        contender.accept_lengths.setdefault(cell.concurrency, []).append(measurement.accept_length.value)


def report(contenders: Sequence[Contender], concurrency: int) -> None:
    """Print one table; the first contender is what the others are compared with."""
    base = contenders[0].speeds[concurrency]
    print(
        f"\nC={concurrency}: {'budget/topk/window/block':<24} {'tokens/s':>9} {'accept':>7}  ratio (95 % interval, rounds)"
    )
    for contender in contenders:
        speeds = contender.speeds[concurrency]
        ratio = mean_log([math.log(ours / theirs) for ours, theirs in zip(speeds, base, strict=True)])
        spread = (
            ""
            if ratio.low is None or ratio.high is None
            else f"({math.exp(ratio.low):.2f} to {math.exp(ratio.high):.2f}, n={len(speeds)})"
        )
        lengths = contender.accept_lengths.get(concurrency, [])
        accept = f"{statistics.fmean(lengths):.2f}" if lengths else "-"
        print(
            f"      {contender.name:<24} {statistics.median(speeds):>9.0f} {accept:>7}  {math.exp(ratio.value):.2f} {spread}"
        )


def main() -> None:
    """Run the campaign."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 32])
    parser.add_argument("--context", type=int, default=128)
    parser.add_argument("--output-tokens", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--grid", nargs="+", default=list(GRID))
    arguments = parser.parse_args()
    source = random.Random(0)  # noqa: S311 - a reproducible order
    with tempfile.TemporaryDirectory() as folder:
        contenders = []
        try:
            for number, name in enumerate(arguments.grid):
                contenders.append(start(name, arguments.threads, Path(folder, f"{number}.log")))
                wait(contenders[-1])
            for number in range(arguments.rounds):
                for concurrency in arguments.concurrency:
                    cell = CellSettings(
                        context=arguments.context, concurrency=concurrency, requests=max(8, concurrency)
                    )
                    for contender in source.sample(contenders, len(contenders)):
                        measure(contender, cell, arguments.output_tokens, Path(folder, "records.jsonl"))
                print(f"round {number + 1} of {arguments.rounds}", file=sys.stderr)
            for concurrency in arguments.concurrency:
                report(contenders, concurrency)
        finally:
            for contender in contenders:
                contender.process.terminate()
            for contender in contenders:
                contender.process.wait()


if __name__ == "__main__":
    main()
