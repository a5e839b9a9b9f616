"""What does a load generator cost a chunk, and does it tell the truth? Ours and its peers against one server.

::

    python -m tests.benchmarks.load_generators ~/.cache/load-generators

The first run installs the peers below the named folder (see :mod:`tests.benchmarks.load_peers`). Every load generator gets
the same prompts and the same stream of bytes from :mod:`tests.benchmarks.token_server`, one process of requests each,
token counts from the server's usage. CPU time is that of all its processes, sampled by psutil, between the first request
and the last token; what its imports and its report take is shown apart. Results are kept: a run that was interrupted goes
on, ``--again`` measures anew. The table goes to stdout, and with ``--write docs/benchmarks.md`` into that page.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import math
import os
import subprocess
import sys
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil

from autotune.interval import student_quantile
from tests.benchmarks.load_peers import (
    PEERS,
    InstallError,
    Load,
    Peer,
    environment_of,
    export_tokenizer,
    install,
    python_of,
)

TOKENS = 128
SLICES = 8
SAMPLE_S = 0.1
LONGEST_RUN_S = 240.0
BEGIN = "<!-- table of tests.benchmarks.load_generators -->"
END = "<!-- end of the table -->"


@dataclass(frozen=True, slots=True)
class Cell:
    """One load: streams, chunks a second on each, requests."""

    concurrency: int
    rate: float
    requests: int

    @property
    def name(self) -> str:
        """For example ``c32-200``."""
        return f"c{self.concurrency}-{self.rate:g}"


CELLS = (Cell(1, 200, 10), Cell(32, 30, 64), Cell(32, 200, 256))


@dataclass(frozen=True, slots=True)
class Row:
    """One load generator in one cell; unknown is ``None``.

    ``cpu_us`` is CPU time a chunk while streaming with its 95 % interval over slices of time, ``core_share`` the share of one
    core it took, ``start_cpu_s`` and ``report_cpu_s`` the CPU time before and after.
    """

    peer: str
    version: str
    cell: str
    succeeded: int
    requests: int
    chunks: int
    connections: int
    most_in_flight: int
    processes: int
    cpu_us: float
    cpu_low_us: float
    cpu_high_us: float
    core_share: float
    start_cpu_s: float
    report_cpu_s: float
    true_tokens_per_s: float
    tokens_per_s: float
    true_ttft_s: float
    ttft_s: float
    median_error_us: float | None
    p99_error_us: float | None
    machine_load: float
    notes: str


class CpuMeter(threading.Thread):
    """Samples the CPU time of a process and everything below it."""

    def __init__(self, process: psutil.Process) -> None:
        super().__init__(daemon=True)
        self._process = process
        self._stop_event = threading.Event()
        self._cpu_s: dict[psutil.Process, float] = {}
        self.samples: list[tuple[float, float]] = []

    @property
    def processes(self) -> int:
        """How many processes were seen."""
        return len(self._cpu_s)

    def run(self) -> None:
        """Sample until told to stop; a process that has ended keeps its last sample."""
        while not self._stop_event.wait(SAMPLE_S):
            with contextlib.suppress(psutil.NoSuchProcess):
                for process in [self._process, *self._process.children(recursive=True)]:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        times = process.cpu_times()
                        self._cpu_s[process] = times.user + times.system
                self.samples.append((time.perf_counter(), sum(self._cpu_s.values())))

    def finish(self) -> None:
        """Stop sampling, and end what the process has left behind."""
        self._stop_event.set()
        self.join()
        for process in self._cpu_s:
            with contextlib.suppress(psutil.NoSuchProcess):
                if process.is_running():  # and no other process that got its number
                    process.kill()

    def at(self, moment_s: float) -> float:
        """CPU seconds until a moment, between two samples on a line."""
        index = min(max(1, bisect_left(self.samples, (moment_s, 0.0))), len(self.samples) - 1)
        (early_s, low), (late_s, high) = self.samples[index - 1], self.samples[index]
        share = (moment_s - early_s) / (late_s - early_s)
        return low + (high - low) * min(1.0, max(0.0, share))


@contextlib.contextmanager
def serving(rate: float) -> Iterator[str]:
    """Run the server of tokens in a process of its own; yields its URL."""
    command = [sys.executable, "-m", "tests.benchmarks.token_server", "--rate", str(rate), "--tokens", str(TOKENS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


def run_peer(peer: Peer, cell: Cell, url: str, cache: Path, version: str) -> Row:
    """Run one load generator once and compare what it says with what was sent.

    Raises:
        RuntimeError: it failed; the message holds the end of its output.
    """
    folder = cache / "runs" / f"{peer.name}-{cell.name}"
    folder.mkdir(parents=True, exist_ok=True)
    load = Load(
        url,
        write_prompts(cache, cell, peer.column),
        cell.requests,
        cell.concurrency,
        TOKENS,
        cache / "tokenizer",
        folder,
    )
    httpx.post(f"{url}/forget", trust_env=False)
    machine_load = os.getloadavg()[0]
    command = [str(python_of(peer, cache)), *peer.command(load)]
    with (
        (folder / "output.txt").open("w") as output,
        subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env=environment_of(peer), stdin=subprocess.DEVNULL
        ) as process,
    ):
        meter = CpuMeter(psutil.Process(process.pid))
        meter.start()
        try:
            code = process.wait(LONGEST_RUN_S)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            meter.finish()
    if code != 0:
        tail = (folder / "output.txt").read_text(errors="replace")[-1500:]
        raise RuntimeError(f"{peer.name} ended with {code}: {' '.join(command)}\n{tail}")
    truth = httpx.get(f"{url}/truth", trust_env=False, timeout=30).json()
    return judge(peer, cell, version, truth, meter, load, machine_load)


def judge(
    peer: Peer, cell: Cell, version: str, truth: dict[str, Any], meter: CpuMeter, load: Load, machine_load: float
) -> Row:
    """Make the row of one run."""
    reported = peer.read(load)
    first_s, last_s = truth["first_at_s"], truth["last_at_s"]
    sent_s = sorted(at_s for stream in truth["streams"].values() for at_s in stream)
    cost_us, half_us = cpu_per_chunk(meter, sent_s, first_s, last_s)
    ttft_s = [truth["streams"][name][0] - asked_s for name, asked_s in truth["asked_at_s"].items()]
    errors_us = chunk_errors_us(load.folder / "own.json", truth) if peer.name == "ours" else []
    return Row(
        peer=peer.name,
        version=version,
        cell=cell.name,
        succeeded=reported.succeeded,
        requests=truth["requests"],
        chunks=truth["chunks"],
        connections=truth["connections"],
        most_in_flight=truth["most_in_flight"],
        processes=meter.processes,
        cpu_us=cost_us,
        cpu_low_us=max(0.0, cost_us - half_us),
        cpu_high_us=cost_us + half_us,
        core_share=(meter.at(last_s) - meter.at(first_s)) / (last_s - first_s),
        start_cpu_s=meter.at(first_s),
        report_cpu_s=meter.samples[-1][1] - meter.at(last_s),
        true_tokens_per_s=truth["chunks"] / (last_s - first_s),
        tokens_per_s=reported.tokens_per_s,
        true_ttft_s=sum(ttft_s) / len(ttft_s),
        ttft_s=reported.ttft_s,
        median_error_us=quantile(errors_us, 0.5),
        p99_error_us=quantile(errors_us, 0.99),
        machine_load=machine_load,
        notes=reported.notes,
    )


def cpu_per_chunk(meter: CpuMeter, sent_s: Sequence[float], first_s: float, last_s: float) -> tuple[float, float]:
    """CPU microseconds a chunk, and half of its 95 % interval from the ratio in each slice of time."""
    borders = [first_s + (last_s - first_s) * index / SLICES for index in range(SLICES + 1)]
    pairs = []
    for early_s, late_s in itertools.pairwise(borders):
        count = bisect_left(sent_s, late_s) - bisect_left(sent_s, early_s)
        pairs.append((1e6 * (meter.at(late_s) - meter.at(early_s)), count))
    cost = sum(cpu_us for cpu_us, _count in pairs) / len(sent_s)
    squares = sum((cpu_us - cost * count) ** 2 for cpu_us, count in pairs)
    error = math.sqrt(squares * SLICES / (SLICES - 1)) / len(sent_s)
    return cost, student_quantile(SLICES - 1) * error


def chunk_errors_us(path: Path, truth: dict[str, Any]) -> list[float]:
    """How far each of our chunk times is from the moment when the server had written it: both read the same clock."""
    ours = json.loads(path.read_text())["chunk_at_s"]
    return sorted(
        1e6 * (seen_s - sent_s)
        for name, stream in truth["streams"].items()
        for seen_s, sent_s in zip(ours.get(name, ()), stream, strict=False)
    )


def quantile(ascending: Sequence[float], share: float) -> float | None:
    """The value at a share of sorted values; ``None`` without any."""
    return ascending[min(len(ascending) - 1, int(share * len(ascending)))] if ascending else None


def write_prompts(cache: Path, cell: Cell, column: str) -> Path:
    """The prompts of a cell, as JSON lines under the name that a load generator reads."""
    path = cache / f"prompts-{cell.requests}-{column}.jsonl"
    lines = [json.dumps({column: f"Request {index}: say the. " + "word " * 80}) for index in range(cell.requests)]
    path.write_text("\n".join(lines) + "\n")
    return path


def render(rows: Sequence[Row], failures: Sequence[str]) -> str:
    """The table as Markdown, one row each, failures below."""
    lines = [
        (
            "| cell | load generator | requests ok | chunks | µs of CPU a chunk (95 %) | chunks/CPU-s | of one core "
            "| connections | processes | tokens/s said (off) | TTFT said − true | CPU s to start / to report |"
        ),
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        off = row.tokens_per_s / row.true_tokens_per_s - 1
        lines.append(
            f"| {row.cell} | {row.peer} {row.version} | {row.succeeded}/{row.requests} | {row.chunks} "
            f"| {row.cpu_us:.0f} ({row.cpu_low_us:.0f} to {row.cpu_high_us:.0f}) | {1e6 / row.cpu_us:,.0f} "
            f"| {row.core_share:.1%} | {row.connections} | {row.processes} | {row.tokens_per_s:,.0f} ({off:+.1%}) "
            f"| {1e3 * (row.ttft_s - row.true_ttft_s):+.1f} ms | {row.start_cpu_s:.1f} / {row.report_cpu_s:.1f} |"
        )
    for row in rows:
        if row.median_error_us is not None and row.p99_error_us is not None:
            lines += [
                "",
                f"{row.cell}: our chunk times are {row.median_error_us:.0f} µs (median) and {row.p99_error_us:.0f} µs "
                f"(99th percentile) after the server's write. {row.notes}".rstrip(),
            ]
    loads = [row.machine_load for row in rows]
    if loads:
        lines += [
            "",
            f"Load average of the machine ({os.cpu_count()} cores) before the runs: {min(loads):.1f} to {max(loads):.1f}.",
        ]
    return "\n".join([*lines, *(f"\n{failure}" for failure in failures)])


def load_row(path: Path) -> Row | None:
    """Read a result that was kept; ``None`` when there is none, or one of another version of this program."""
    try:
        return Row(**json.loads(path.read_text()))
    except (FileNotFoundError, TypeError, ValueError):
        return None


def write_table(path: Path, table: str) -> None:
    """Put a table in the place of the last one of a page.

    Raises:
        ValueError: the page has no place for it.
    """
    before, begin, rest = path.read_text().partition(BEGIN)
    _old, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{path} has no {BEGIN} ... {END}")
    path.write_text(f"{before}{begin}\n{table}\n{end}{after}")


def main() -> None:
    """Install what is missing, run what is missing, print everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cache", type=Path, help="folder for the peers' environments and all results")
    parser.add_argument("--only", nargs="+", choices=[peer.name for peer in PEERS], default=None)
    parser.add_argument("--cells", nargs="+", choices=[cell.name for cell in CELLS], default=None)
    parser.add_argument("--again", action="store_true", help="measure anew what was measured before")
    parser.add_argument("--write", type=Path, help="a page whose table is replaced, if nothing failed")
    parser.add_argument("--install-only", action="store_true")
    parser.add_argument("--torch-index", help="where a CPU build of torch is found, if not on the usual index")
    arguments = parser.parse_args()
    cache: Path = arguments.cache.expanduser().absolute()
    (cache / "results").mkdir(parents=True, exist_ok=True)
    export_tokenizer(cache / "tokenizer")
    peers = [peer for peer in PEERS if arguments.only is None or peer.name in arguments.only]
    failures: list[str] = []
    versions: dict[str, str] = {}
    for peer in peers:
        print(f"{peer.name}: installing where it is not there", file=sys.stderr, flush=True)
        try:
            versions[peer.name] = install(peer, cache, arguments.torch_index)
        except InstallError as error:
            failures.append(f"{peer.name} could not be installed:\n{error}")
    if arguments.install_only:
        print("\n".join([*(f"{name} {version}" for name, version in versions.items()), *failures]))
        return
    rows: list[Row] = []
    for cell in CELLS:
        if arguments.cells is not None and cell.name not in arguments.cells:
            continue
        with serving(cell.rate) as url:
            for peer in peers:
                if peer.name not in versions:
                    continue
                path = cache / "results" / f"{peer.name}-{cell.name}.json"
                kept = None if arguments.again else load_row(path)
                if kept is None:
                    print(f"{cell.name}: {peer.name}", file=sys.stderr, flush=True)
                    try:
                        kept = run_peer(peer, cell, url, cache, versions[peer.name])
                    except (RuntimeError, OSError, KeyError, ValueError) as error:
                        failures.append(f"{cell.name}, {peer.name} failed: {type(error).__name__}: {error}")
                        continue
                    path.write_text(json.dumps(asdict(kept)))
                rows.append(kept)
    print(render(rows, failures))
    if arguments.write is not None and not failures:
        write_table(arguments.write, render(rows, failures))


if __name__ == "__main__":
    main()
