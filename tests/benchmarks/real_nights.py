"""Which sampler recommends the better configuration of a real server? Whole nights on the embedded one, then a fresh judgement.

::

    python -m tests.benchmarks.real_nights DIRECTORY                          # nine nights and four rounds, about 80 minutes
    python -m tests.benchmarks.real_nights DIRECTORY --cores-each 2           # side by side on cores of their own; root only
    python -m tests.benchmarks.real_nights DIRECTORY --only-table

A night is ``autotune optimize`` of the default study with another sampler and seed. What its own figures say of the
recommended configuration is the luck of the best, so all recommendations are booted again beside the baseline, once in each
of several rounds, in another order each time. A figure is the geometric mean of the gains at both concurrencies, against the
baseline of the same round. Side by side, each command has a network of its own, so that none waits for another one's judge.
The same command goes on where one ended.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import queue
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from autotune.export.findings import find
from autotune.interval import LogRatio, mean_log
from autotune.objectives import CONCURRENCIES
from autotune.packaged import find_packaged
from autotune.study_view import StudyView, load_study
from autotune.trial import Configuration, TrialKind, TrialState

SAMPLERS: Final = ("greybox", "gp", "random")

_PORT: Final = 30200
"""The first of those that the servers of the nights use, each its own: a server is known by its port and command."""

_ALONE: Final = """
import fcntl, os, socket, struct, sys
fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sh14x", b"lo", 0x41))
os.sched_setaffinity(0, map(int, sys.argv[1].split(",")))
os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
"""
"""Raises the loopback of a new network (netdevice(7): SIOCSIFFLAGS, up and running), then goes on as a command on some cores."""


@dataclass(frozen=True, slots=True)
class Command:
    """One ``autotune optimize``.

    Attributes:
        name: of the study and of its folder.
        study_file: what it optimizes.
        options: further options.
    """

    name: str
    study_file: str
    options: tuple[str, ...]


def write_night(sampler: str, seed: int, trials: int) -> Command:
    """Return a night with one sampler."""
    name = f"{sampler}-{seed}"
    port = _PORT + 10 * seed + SAMPLERS.index(sampler)
    text = f'{_default_study(name, port)}\n[sampler]\nname = "{sampler}"\n'
    return Command(name, text, ("--trials", str(trials), "--seed", str(seed)))


def write_round(number: int, configurations: Sequence[Configuration]) -> Command:
    """Return a round of the judgement: every configuration once, in an order of its own, and no coding problems."""
    name = f"judgement-{number}"
    order = random.Random(number).sample(list(configurations), len(configurations))  # noqa: S311  # no secret
    text = _default_study(name, _PORT + number).replace("[evaluation]", "[evaluation]\nenabled = false")
    head, tail = text.split("\n[[try]]", 1)
    rest = tail[tail.index("\n[benchmark]") :]
    listed = "".join(f"\n[[try]]\n{_as_toml(configuration)}" for configuration in order)
    return Command(name, head + listed + rest, ("--trials", "0"))


def _default_study(name: str, port: int) -> str:
    path = find_packaged("studies", "embedded.toml")
    if path is None:
        raise SystemExit("studies/embedded.toml is missing from this installation")
    text = path.read_text(encoding="utf-8").replace('name = "embedded"', f'name = "{name}"', 1)
    return text.replace("port = 30110", f"port = {port}", 1)


def _as_toml(configuration: Configuration) -> str:
    named = {key: "none" if value is None else value for key, value in configuration.items()}
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in named.items())


def run_all(commands: Sequence[Command], directory: Path, cores_each: int | None) -> None:
    """Run what has not ended yet; in order, or side by side on so many cores each.

    Raises:
        subprocess.CalledProcessError: one failed; its output is beside its study.
    """
    left = [command for command in commands if not (directory / f"{command.name}.ended").exists()]
    cores = sorted(os.sched_getaffinity(0))
    shares: queue.SimpleQueue[Sequence[int] | None] = queue.SimpleQueue()
    count = 1 if cores_each is None else max(len(cores) // cores_each, 1)
    for share in range(count):
        shares.put(None if cores_each is None else cores[share * cores_each : (share + 1) * cores_each])
    with ThreadPoolExecutor(count) as pool:
        list(pool.map(lambda command: _run(command, directory, shares), left))


def _run(command: Command, directory: Path, shares: queue.SimpleQueue[Sequence[int] | None]) -> None:
    cores = shares.get()
    try:
        study_file = directory / f"{command.name}.toml"
        study_file.write_text(command.study_file, encoding="utf-8")
        folder = directory / command.name
        arguments = ["-m", "autotune", "optimize", str(study_file), "--study-directory", str(folder), "--plain"]
        start = [sys.executable]
        if cores is not None:
            start = ["unshare", "--net", sys.executable, "-c", _ALONE, ",".join(map(str, cores))]
        begun = time.monotonic()
        with (directory / f"{command.name}.log").open("ab") as log:
            subprocess.run([*start, *arguments, *command.options], stdout=log, stderr=log, check=True)
        (directory / f"{command.name}.ended").write_text(f"{time.monotonic() - begun:.0f} s\n", encoding="utf-8")
        print(f"{command.name} ended after {time.monotonic() - begun:.0f} s", flush=True)
    finally:
        shares.put(cores)


def find_recommended(view: StudyView) -> Configuration:
    """Return the configuration that a night would export; the baseline where nothing beats it."""
    choice = find(view).choice
    return view.space.resolve(view.settings.baseline) if choice is None else choice.trial.configuration


def judge(views: Sequence[StudyView], configuration: Configuration) -> tuple[float, ...]:
    """Return the mean log gain over both concurrencies in each round; 0 for the baseline, which is what it is against."""
    logs = []
    for view in views:
        findings, key = find(view), view.space.key(configuration)
        if key == view.space.key(view.space.resolve(view.settings.baseline)):
            logs.append(0.0)
            continue
        for trial in view.trials:
            known = (findings.gains_c1.get(trial.number), findings.gains_c32.get(trial.number))
            if (
                trial.kind is TrialKind.LISTED
                and trial.state is TrialState.COMPLETE
                and view.space.key(trial.configuration) == key
            ):
                logs.append(sum(math.log(gain.value) for gain in known if gain is not None) / len(CONCURRENCIES))
    return tuple(logs)


def render(nights: Mapping[tuple[str, int], StudyView], rounds: Sequence[StudyView], directory: Path) -> Iterator[str]:
    """Yield one table of the nights and one of the samplers, as Markdown."""
    judged = {name: judge(rounds, find_recommended(view)) for name, view in nights.items()}
    best = max((mean_log(logs).value for logs in judged.values() if logs), default=0.0)
    yield "| sampler | seed | trials | boots | time | recommends | judged gain, rounds |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for (sampler, seed), view in nights.items():
        ended = directory / f"{sampler}-{seed}.ended"
        yield (
            f"| {sampler} | {seed} | {view.counted} | {find(view).time.boots} | "
            f"{ended.read_text(encoding='utf-8').strip() if ended.exists() else 'unknown'} | "
            f"{view.space.describe(find_recommended(view))} | {_show(judged[sampler, seed])} |"
        )
    yield ""
    yield f"The best of all recommendations is judged {math.expm1(best):+.1%}. Means over nights, with Student's interval:\n"
    yield "| sampler | judged gain, nights | behind the best |"
    yield "| --- | --- | --- |"
    for sampler in dict.fromkeys(name for name, _ in nights):
        means = [mean_log(logs).value for (name, _), logs in judged.items() if name == sampler and logs]
        behind = 1 - math.exp(mean_log(means).value - best) if means else None
        yield f"| {sampler} | {_show(means)} | {'unknown' if behind is None else f'{behind:.1%}'} |"


def _show(logs: Sequence[float]) -> str:
    if not logs:
        return "unknown"
    mean: LogRatio = mean_log(logs)
    if mean.low is None or mean.high is None:
        return f"{mean.gain:+.1%}, 1"
    return f"{mean.gain:+.1%} ({math.expm1(mean.low):+.1%} to {math.expm1(mean.high):+.1%}), {len(logs)}"


def main() -> None:
    """Play, judge, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path, help="where nights are kept")
    parser.add_argument("--samplers", default=",".join(SAMPLERS), help=f"default: {','.join(SAMPLERS)}")
    parser.add_argument("--seeds", default="1,2,3", help="of the nights (default: 1,2,3)")
    parser.add_argument("--trials", type=int, default=20, help="of a night (default: 20)")
    parser.add_argument("--rounds", type=int, default=4, help="of the judgement; 0 for none (default: 4)")
    parser.add_argument("--cores-each", type=int, help="play side by side, with so many cores each; needs root")
    parser.add_argument("--only-table", action="store_true", help="play nothing, print what is stored")
    arguments = parser.parse_args()
    directory = arguments.directory.absolute()
    directory.mkdir(parents=True, exist_ok=True)
    names = [(name, int(seed)) for seed in arguments.seeds.split(",") for name in arguments.samplers.split(",")]
    if not arguments.only_table:
        run_all([write_night(*name, arguments.trials) for name in names], directory, arguments.cores_each)
    nights = {(name, seed): load_study(directory / f"{name}-{seed}") for name, seed in sorted(names)}
    recommended = {view.space.key(chosen := find_recommended(view)): chosen for view in nights.values()}
    numbers = range(1, arguments.rounds + 1)
    if not arguments.only_table:
        commands = [write_round(number, list(recommended.values())) for number in numbers]
        run_all(commands, directory, arguments.cores_each)
    rounds = [load_study(directory / f"judgement-{number}") for number in numbers]
    for line in render(nights, rounds, directory):
        print(line)


if __name__ == "__main__":
    main()
