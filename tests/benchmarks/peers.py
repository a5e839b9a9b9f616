"""How do other tuners do on the same server and law: what they recommend, what they waste, what they leave behind?

::

    python -m venv OPTIMIZER; OPTIMIZER/bin/pip install vllm-optimizer==0.1.0a21
    python -m venv TUNER; TUNER/bin/pip install 'vllm-tuner[http,report]==0.1.6'
    python -m tests.benchmarks.peers DIRECTORY --optimizer OPTIMIZER --tuner TUNER --runs 8
    python -m tests.benchmarks.peers DIRECTORY --only-table

The peers start ``vllm`` by themselves: here that is ``peer_vllm.py``, a server without a model whose speed follows a law over
three of vLLM's flags. It speaks vLLM's surface, not SGLang's, so this project's own nights run on the simulated machine of
the same law and noise (:mod:`autotune.simulation`), with ``export.rule = "c32"`` and nothing to win or to lose at C=1. All
get the baseline beside their trials. What they leave behind is looked at after a SIGTERM or SIGKILL in the middle of a trial, for
this project with the embedded server. Runs that are in ``runs.jsonl`` are not made again; vllm-tuner cannot be given a seed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Final

from autotune.objectives import CONCURRENCIES
from autotune.search_space import search_space_of
from autotune.settings import SamplerSettings, parse_settings
from autotune.simulation.night import simulate_night
from autotune.simulation.noise import NoiseSettings
from autotune.simulation.regret import follow_night
from autotune.simulation.surface import CellTruth, Obstacle, Surface
from autotune.simulation.truth import Truth, find_truth
from autotune.trial import Cell, Configuration, TrialKind, TrialState
from tests.benchmarks import peer_vllm
from tests.benchmarks.peer_vllm import BASELINE, MEMORY_PERCENT, SEQUENCES, TOKENS, fits, load_s, tokens_per_s

TRIALS: Final = 20
LOOKS: Final = (10, 20)
OURS: Final = ("greybox", "gp", "random")
PEERS: Final = ("vllm-optimizer", "vllm-tuner")
SIGNALS: Final = (signal.SIGTERM, signal.SIGKILL)
_PATIENCE_S: Final = 10.0
_MIDDLE: Final = re.compile("trial 1: (logging drafts|measuring)")
"""What this project says once the server of its first trial is at work."""

_STUDY: Final = f"""
name = "peers"
[export]
rule = "c32"
max_loss = 0.2
[baseline]
sequences = {BASELINE[0]}
tokens = {BASELINE[1]}
memory = {BASELINE[2]}
[server]
command = ["vllm", "serve"]
ready_timeout_s = 1800.0
stall_timeout_s = 300.0
[benchmark]
[[benchmark.stages]]
name = "busy"
cells = [{{ context = 1024, concurrency = 32 }}]
[[benchmark.stages]]
name = "single"
cells = [{{ context = 1024, concurrency = 1 }}]
[evaluation]
enabled = false
[search_space]
name = "vllm"
""" + "".join(
    f"""
[search_space.parameters.{name}]
kind = "int"
low = {values.start}
high = {values[-1]}
step = {values.step}
default = {default}
flag = "--{flag}"
"""
    for name, values, default, flag in zip(
        ("sequences", "tokens", "memory"),
        (SEQUENCES, TOKENS, MEMORY_PERCENT),
        BASELINE,
        ("max-num-seqs", "max-num-batched-tokens", "gpu-memory-utilization"),
        strict=True,
    )
)

_OPTIMIZER: Final = """
schema_version: 1
experiment: {{name: peer, output_dir: runs, seed: {seed}}}
server: {{model: model, port: {port}}}
tune:
  max-num-seqs: {{min: 8, max: 256, step: 8}}
  max-num-batched-tokens: {{min: 1024, max: 16384, step: 1024}}
  gpu-memory-utilization: {{min: 0.70, max: 0.96, step: 0.02}}
benchmark: {{engine: vllm, repeats: 1, min_repeats: 1, runs: [{{name: load, args: {{num-prompts: 50}}}}]}}
optimization: {{maximize: output_tokens_per_second, sampler: tpe, trials: {trials}}}
timeouts: {{startup: 30, benchmark: 30}}
"""
_TUNER: Final = """
study: {{name: peer, storage: "sqlite:///study.db"}}
model: model
optimization: {{objectives: [{{metric: output_tokens_per_sec, direction: maximize}}], sampler: tpe, n_trials: {trials}}}
parameters:
  - {{name: max_num_seqs, min: 8, max: 256, step: 8}}
  - {{name: max_num_batched_tokens, min: 1024, max: 16384, step: 1024}}
  - {{name: gpu_memory_utilization, min: 0.70, max: 0.96, step: 0.02}}
benchmark: {{provider: vllm_benchmark, max_seconds: 5, warmup_requests: 0}}
"""
_MODULE: Final = "import runpy, sys\nsys.argv = ['vllm', 'bench', 'serve', *sys.argv[1:]]\nrunpy.run_path({path!r}, run_name='__main__')\n"


@dataclass(frozen=True, slots=True)
class Run:
    """One study of one tuner.

    Attributes:
        tuner: its name.
        run: number, and the seed where it takes one.
        regrets: share of speed by which the true best is ahead of what it recommends, at each of :data:`LOOKS`.
        infeasible: trials that ran out of memory.
        repeated: trials of a configuration that it had tried before.
        boots: starts of a server, those of the baseline included.
        real_s: from start to end on the clock of the wall; a simulated night waits for nothing.
    """

    tuner: str
    run: int
    regrets: tuple[float, ...]
    infeasible: int
    repeated: int
    boots: int
    real_s: float


@dataclass(frozen=True, slots=True)
class Aftermath:
    """What is left ten seconds after a signal in the middle of a trial.

    Attributes:
        tuner: its name.
        run: number.
        sent: name of the signal.
        is_gone: the tuner itself has ended.
        orphans: servers that still run, and hold their memory.
        is_answering: the server still answers at its port.
    """

    tuner: str
    run: int
    sent: str
    is_gone: bool
    orphans: int
    is_answering: bool


class PeerSurface(Surface):
    """The law of the stand-in at C=32; at C=1 every configuration is the same."""

    name = "peers"
    summary = "three flags of vLLM"

    def __init__(self) -> None:
        self.settings = parse_settings(_STUDY, "peers")
        self.space = search_space_of(self.settings)

    def truth(self, configuration: Configuration, cell: Cell) -> CellTruth:
        """Return what a cell would show."""
        speed = 60.0 if cell.concurrency == CONCURRENCIES[0] else tokens_per_s(*_values(configuration))
        return CellTruth(cell.concurrency / speed, None, 0.1)

    def find_obstacle(self, configuration: Configuration) -> Obstacle | None:
        """Return why a configuration does not serve."""
        return None if fits(*_values(configuration)) else Obstacle.OUT_OF_MEMORY

    def boot_s(self, configuration: Configuration) -> float:
        """Return how long a boot takes: a second of the stand-in is 25 minutes."""
        return 1500.0 * load_s(_values(configuration)[1])


def _values(configuration: Configuration) -> tuple[int, int, int]:
    sequences, tokens, memory = (int(str(configuration[name])) for name in ("sequences", "tokens", "memory"))
    return sequences, tokens, memory


@cache
def best_tokens_per_s() -> float:
    """Return the speed of the best configuration that fits."""
    return max(tokens_per_s(*each) for each in product(SEQUENCES, TOKENS, MEMORY_PERCENT) if fits(*each))


@cache
def _find_surface() -> tuple[PeerSurface, Truth]:
    surface = PeerSurface()
    return surface, find_truth(surface)


def play_ours(sampler: str, run: int) -> Run:
    """Play one simulated night of this project."""
    began_s = time.monotonic()
    surface, truth = _find_surface()
    settings = SamplerSettings.model_validate({"name": sampler, "stop_when_exhausted": False})
    night = simulate_night(surface, settings, run, TRIALS, noise=NoiseSettings())
    standings = follow_night(night.view.trials, night.view.settings, surface.space, truth)
    counted = {standing.counted: standing for standing in standings}
    searched = [trial for trial in night.view.trials if trial.kind is not TrialKind.BASELINE]
    keys = [surface.space.key(trial.configuration) for trial in searched]
    return Run(
        sampler,
        run,
        tuple(counted[look].regret for look in LOOKS),
        sum(trial.state is TrialState.INFEASIBLE for trial in searched),
        len(keys) - len(set(keys)),
        standings[-1].boots,
        round(time.monotonic() - began_s, 1),
    )


def read_run(tuner: str, run: int, lines: Sequence[Mapping[str, object]], real_s: float) -> Run:
    """Judge a peer by what it started and measured: it recommends the configuration with the best measurement.

    The first start is the baseline, which may be recommended too.

    >>> log = [{"event": "start", "configuration": [128, 8192, 90], "fits": True},
    ...        {"event": "measured", "configuration": [128, 8192, 90], "tokens_per_s": 900.0}]
    >>> read_run("peer", 1, log, 5.0).boots
    1
    """
    starts = 0
    infeasible = repeated = 0
    seen: set[str] = set()
    best: tuple[float, list[int]] = (0.0, list(BASELINE))
    regrets: dict[int, float] = {}
    for line in lines:
        configuration = json.loads(json.dumps(line["configuration"]))
        if line["event"] == "start":
            if starts - 1 in LOOKS:
                regrets.setdefault(starts - 1, _regret(best[1]))
            starts += 1
            infeasible += not line["fits"]
            repeated += str(configuration) in seen
            seen.add(str(configuration))
        else:
            best = max(best, (float(str(line["tokens_per_s"])), configuration))
    return Run(
        tuner, run, tuple(regrets.get(look, _regret(best[1])) for look in LOOKS), infeasible, repeated, starts, real_s
    )


def _regret(configuration: Sequence[int]) -> float:
    return 1 - tokens_per_s(*configuration) / best_tokens_per_s()


class Workshop:
    """A folder in which a peer finds the stand-in as ``vllm``.

    Args:
        folder: made anew.
        environments: virtual environment of each peer.
    """

    def __init__(self, folder: Path, environments: Mapping[str, Path]) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        self.folder = folder
        self._environments = environments
        self.log = folder / "log.jsonl"
        package = folder / "package" / "vllm" / "entrypoints" / "openai"
        for each in (package, folder / "bin", folder / "model"):
            each.mkdir(parents=True)
        for each in (package, package.parent, package.parent.parent):
            (each / "__init__.py").touch()
        (package / "run_batch_benchmark.py").write_text(_MODULE.format(path=peer_vllm.__file__), encoding="utf-8")
        (folder / "model" / "config.json").touch()
        vllm = folder / "bin" / "vllm"
        vllm.write_text(f'#!/bin/sh\nexec {sys.executable} {peer_vllm.__file__} "$@"\n', encoding="utf-8")
        vllm.chmod(0o755)
        (folder / "bin" / "python").symlink_to(sys.executable)

    def start(self, tuner: str, seed: int, trials: int = TRIALS) -> subprocess.Popen[bytes]:
        """Start a peer."""
        text = (_OPTIMIZER if tuner == "vllm-optimizer" else _TUNER).format(seed=seed, trials=trials, port=free_port())
        (self.folder / "study.yaml").write_text(text, encoding="utf-8")
        environment = self._environments[tuner]
        command = (
            [str(environment / "bin" / "vllm-opt"), "-c", "study.yaml"]
            if tuner == "vllm-optimizer"
            else [str(environment / "bin" / "python"), "-m", "vllm_tuner.cli.main", "run", "--config", "study.yaml"]
        )
        variables = {
            **os.environ,
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": str(self.folder / "package"),
            "PEER_LOG": str(self.log),
            "PEER_SEED": str(seed),
        }
        with (self.folder / "output").open("wb") as output:
            return subprocess.Popen(command, cwd=self.folder, env=variables, stdout=output, stderr=output)

    def lines(self) -> list[Mapping[str, object]]:
        """Return what the stand-in has noted."""
        if not self.log.exists():
            return []
        return [json.loads(line) for line in self.log.read_text(encoding="utf-8").splitlines()]


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def interrupt_peer(tuner: str, run: int, sent: signal.Signals, workshop: Workshop) -> Aftermath:
    """Send a signal when the third server measures, and look ten seconds later."""
    process = workshop.start(tuner, run)
    alive: list[int] = []
    try:
        _wait(lambda: sum(line["event"] == "start" and bool(line["fits"]) for line in workshop.lines()) >= 3)
        process.send_signal(sent)
        time.sleep(_PATIENCE_S)
        starts = [line for line in workshop.lines() if line["event"] == "start"]
        alive = [pid for line in starts if _lives(pid := int(str(line["pid"])))]
        is_answering = any(_answers(int(str(line["port"]))) for line in starts[-1:])
        return Aftermath(tuner, run, sent.name, process.poll() is not None, len(alive), is_answering)
    finally:
        _end(process, alive)


def interrupt_ours(run: int, sent: signal.Signals, folder: Path) -> Aftermath:
    """Do the same with this project and the embedded server, found absent."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    port = free_port()
    study = folder / "ours.toml"
    text = (Path(__file__).parents[2] / "studies" / "embedded.toml").read_text(encoding="utf-8")
    study.write_text(text.replace("port = 30110", f"port = {port}"), encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "autotune",
        "optimize",
        str(study),
        "--study-directory",
        str(folder / "study"),
        "--plain",
    ]
    output = folder / "output"
    with output.open("wb") as written:
        process = subprocess.Popen(command, stdout=written, stderr=written)
    alive: list[int] = []
    try:
        _wait(lambda: _MIDDLE.search(output.read_text(encoding="utf-8")) is not None, 300)
        process.send_signal(sent)
        time.sleep(_PATIENCE_S)
        alive = [pid for pid in _find_processes(f"--port {port}") if pid != process.pid]
        return Aftermath("autotune", run, sent.name, process.poll() is not None, len(alive), _answers(port))
    finally:
        _end(process, alive)


def _find_processes(words: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if words in command:
                found.append(int(entry.name))
    return found


def _lives(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False


def _end(process: subprocess.Popen[bytes], others: Sequence[int]) -> None:
    process.kill()
    process.wait()
    for pid in others:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
            connection.sendall(b"GET /v1/models HTTP/1.0\r\n\r\n")
            return bool(connection.recv(1))
    except OSError:
        return False


def _wait(is_so: Callable[[], bool], patience_s: float = 90.0) -> None:
    deadline = time.monotonic() + patience_s
    while not is_so():
        if time.monotonic() > deadline:
            raise SystemExit("it did not happen in time")
        time.sleep(0.05)


def render(runs: Sequence[Run], aftermaths: Sequence[Aftermath]) -> Iterator[str]:
    """Yield both tables as Markdown."""
    yield f"| tuner | runs | {' | '.join(f'regret after {look}, %' for look in LOOKS)} | out of memory | repeated | boots | real time, s |"
    yield "| --- |" + " --- |" * (5 + len(LOOKS))
    for tuner in (*OURS, *PEERS):
        mine = [run for run in runs if run.tuner == tuner]
        if mine:
            regrets = " | ".join(_mean([100 * run.regrets[look] for run in mine]) for look in range(len(LOOKS)))
            rest = " | ".join(
                _mean([getattr(run, name) for run in mine]) for name in ("infeasible", "repeated", "boots", "real_s")
            )
            yield f"| {tuner} | {len(mine)} | {regrets} | {rest} |"
    yield ""
    yield "| tuner | signal | times | tuner gone | servers left, times | one still answers |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for tuner in ("autotune", *PEERS):
        for sent in SIGNALS:
            found = [each for each in aftermaths if (each.tuner, each.sent) == (tuner, sent.name)]
            if found:
                gone, left = sum(each.is_gone for each in found), sum(each.orphans > 0 for each in found)
                answering = sum(each.is_answering for each in found)
                yield f"| {tuner} | {sent.name} | {len(found)} | {gone} | {left} | {answering} |"


def _mean(values: Sequence[float]) -> str:
    if len(values) < 2:
        return f"{values[0]:.1f}"
    return f"{statistics.mean(values):.1f} ± {statistics.stdev(values) / len(values) ** 0.5:.1f}"


def main() -> None:
    """Play what is missing and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--optimizer", type=Path, help="virtual environment of vllm-optimizer")
    parser.add_argument("--tuner", type=Path, help="virtual environment of vllm-tuner")
    parser.add_argument("--runs", type=int, default=8, help="of each tuner (default: 8)")
    parser.add_argument(
        "--signals", type=int, default=3, help="times that each signal is sent to each tuner (default: 3)"
    )
    parser.add_argument("--only", choices=["ours", *PEERS], help="whose runs and signals (default: of all)")
    parser.add_argument("--only-table", action="store_true")
    arguments = parser.parse_args()
    directory = arguments.directory.absolute()
    directory.mkdir(parents=True, exist_ok=True)
    kept = directory / "runs.jsonl"
    known = [json.loads(line) for line in kept.read_text(encoding="utf-8").splitlines()] if kept.exists() else []
    given = {"vllm-optimizer": arguments.optimizer, "vllm-tuner": arguments.tuner}
    environments = {
        name: path.absolute() for name, path in given.items() if path is not None and arguments.only in (None, name)
    }
    with_ours = arguments.only in (None, "ours")

    def keep(result: Run | Aftermath) -> None:
        known.append(asdict(result))
        with kept.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(result)) + "\n")
        print(result, flush=True)

    def is_missing(tuner: str, run: int, sent: str | None = None) -> bool:
        return not any((each["tuner"], each["run"], each.get("sent")) == (tuner, run, sent) for each in known)

    if not arguments.only_table:
        for number in range(1, arguments.runs + 1):
            for name in OURS:
                if with_ours and is_missing(name, number):
                    keep(play_ours(name, number))
            for name in environments:
                if is_missing(name, number):
                    workshop = Workshop(directory / f"{name}-{number}", environments)
                    began_s = time.monotonic()
                    workshop.start(name, number).wait()
                    run = read_run(name, number, workshop.lines(), round(time.monotonic() - began_s, 1))
                    if run.boots < TRIALS:
                        raise SystemExit(
                            f"{name} ended after {run.boots} boots: {workshop.folder / 'output'} says why; then run this again"
                        )
                    keep(run)
        for number, sent in product(range(1, arguments.signals + 1), SIGNALS):
            if with_ours and is_missing("autotune", number, sent.name):
                keep(interrupt_ours(number, sent, directory / f"ours-{sent.name}-{number}"))
            for name in environments:
                if is_missing(name, number, sent.name):
                    workshop = Workshop(directory / f"{name}-{sent.name}-{number}", environments)
                    keep(interrupt_peer(name, number, sent, workshop))
    runs = [Run(**{**each, "regrets": tuple(each["regrets"])}) for each in known if "sent" not in each]
    for line in render(runs, [Aftermath(**each) for each in known if "sent" in each]):
        print(line)


if __name__ == "__main__":
    main()
