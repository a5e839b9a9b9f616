"""How far are accept lengths that are replayed from logged drafts from those that trees really reach?

::

    python -m tests.benchmarks.replay_accuracy --recorded studies/tables/h200_large_drafts
    python -m tests.benchmarks.replay_accuracy --boot                    # the embedded server, 5 to 10 minutes
    python -m tests.benchmarks.replay_accuracy --boot --temperature 0.8

The first compares a recorded table: drafts after every token of known texts, and what an engine accepted with each of some
trees; and it shows what is lost when only the steps of one run are logged. The second is the product's own way on this machine: a study in ``studies/replay-accuracy`` (another name for another
temperature) whose profile boot is replayed, and whose listed configurations are then booted and measured with the same
prompts. The same command again goes on where an earlier one ended, and prints the table of ``docs/benchmarks.md``.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autotune import tuner
from autotune.cli.display import PlainDisplay
from autotune.objectives import CONCURRENCIES
from autotune.packaged import find_packaged
from autotune.replay.acceptance import count_accepted, rank_text
from autotune.replay.chain_walk import DraftedText, walk
from autotune.replay.evidence import find_evidence
from autotune.replay.table import predict
from autotune.settings import StudySettings, load_settings
from autotune.study_view import StudyView, load_study
from autotune.trial import Figure, TrialKind, TrialRecord, TrialState
from autotune.tuner import Limits

CONTEXT: Final = 256
"""Longer than the smaller windows."""

PORT: Final = 30178
"""Its own, so that no other study's server is in the way."""

BOOTED: Final[tuple[tuple[int, int, int | str], ...]] = (
    (2, 2, "none"), (4, 1, "none"), (8, 1, "none"), (8, 4, "none"), (15, 1, "none"), (32, 4, "none"), (64, 8, "none"),
    (4, 1, 64), (16, 4, 64), (32, 4, 64), (16, 4, 128),
)  # fmt: skip
"""Budget, topk and window; the baseline 16/4/none is booted anyway."""

LOGGERS: Final = ((2, 2), (4, 1), (8, 4), (15, 1))
"""Budget and topk of runs that only log their own steps."""

POSITIONS: Final = 15
"""Deepest level of a tree of the recorded block."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One tree: what was replayed and what was reached.

    Attributes:
        tree: budget, topk, block where it differs, window.
        predicted: tokens a step.
        deviation: standard deviation of the error of its log, as the replay states it.
        real: tokens a step.
        count: what the real figure rests on, in words.
    """

    tree: str
    predicted: float
    deviation: float
    real: float
    count: str

    @property
    def error(self) -> float:
        """Log of predicted over real."""
        return math.log(self.predicted / self.real)


def load_texts(stem: Path, window: int | None) -> list[DraftedText]:
    """Read the texts of a recorded table, with a draft of one window after every token."""
    context = json.loads(stem.with_suffix(".json").read_text())["context"]
    arrays = np.load(stem.with_suffix(".npz"))
    name = window or "none"
    return [
        DraftedText(text, np.arange(len(text)), tokens.astype(np.int64), logprobs.astype(np.float64))
        for text, tokens, logprobs in zip(
            arrays["texts"].astype(np.int64)[:, context:],
            arrays[f"tokens_window_{name}"],
            arrays[f"logprobs_window_{name}"],
            strict=True,
        )
    ]


def compare_recorded(stem: Path) -> Iterator[Comparison]:
    """Compare every tree of a recorded table."""
    record = json.loads(stem.with_suffix(".json").read_text())
    rows = record["accept_lengths"]
    for window, block in dict.fromkeys((row["window"], row["block"]) for row in rows):
        name = window or "none"
        drafted = load_texts(stem, window)
        table = predict(drafted, window=window, block=block, topks=range(1, 9), largest_budget=64)
        for row in rows:
            found = None if table is None else table.find(row["budget"], row["topk"])
            if (row["window"], row["block"]) == (window, block) and found is not None:
                tree = f"{row['budget']}/{row['topk']}, block {block}, window {name}"
                equal = f"{row['texts_equal_to_plain']} of {record['prompts']} texts equal"
                yield Comparison(tree, *found, row["accept_length"], equal)


def _count(text: DraftedText, budget: int, topk: int) -> NDArray[np.uint8]:
    """Count what trees of one topk accept after each draft ``[drafts, budget]``."""
    ranks = rank_text(text.tokens, text.places, text.text)
    return count_accepted(text.logprobs, ranks, topks=[topk], largest_budget=budget, positions=POSITIONS)[:, 0]


def keep_steps(text: DraftedText, budget: int, topk: int) -> DraftedText:
    """Keep the drafts that a run of one tree would have logged."""
    accepted = _count(text, budget, topk)[:, -1]
    place, visited = 0, []
    while place < len(text.text) - 1:
        visited.append(place)
        place += int(accepted[place]) + 1
    return DraftedText(text.text, np.array(visited), text.tokens[visited], text.logprobs[visited])


def render_gaps(stem: Path) -> Iterator[str]:
    """Yield what logs of small trees miss, against a log with a draft after every token."""
    whole = load_texts(stem, None)
    exact = walk(whole, topks=[4], largest_budget=64, positions=POSITIONS)
    before_s = time.process_time()
    walk(whole, topks=range(1, 9), largest_budget=64, positions=POSITIONS)
    drafts = sum(len(text.places) for text in whole)
    yield f"512 trees along {drafts} drafts: {time.process_time() - before_s:.1f} s of CPU."
    yield ""
    yield "| log of a run at | budget | steps in gaps | log accept length is off by | over that share | mean over steps is off by |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for logger in LOGGERS:
        kept = [keep_steps(text, *logger) for text in whole]
        walks = walk(kept, topks=[4], largest_budget=64, positions=POSITIONS)
        means = 1 + np.concatenate([_count(text, 64, 4) for text in kept]).mean(0)
        for budget in (4, 8, 16, 32, 64):
            tokens, steps, redirected = (
                each[:, 0, budget - 1].sum() for each in (walks.tokens, walks.steps, walks.redirected)
            )
            true = exact.tokens[:, 0, budget - 1].sum() / exact.steps[:, 0, budget - 1].sum()
            bias, share = math.log(tokens / steps / true), redirected / steps
            ratio = f"{bias / share:+.3f}" if share else "none"
            mean = math.log(means[budget - 1] / true)
            yield f"| {logger[0]}/{logger[1]} | {budget}/4 | {share:.0%} | {bias:+.3f} | {ratio} | {mean:+.3f} |"


def make_settings(path: Path, temperature: float) -> StudySettings:
    """Return the embedded study without coding problems, with a profile and the configurations that are compared."""
    data: dict[str, Any] = load_settings(path).model_dump(mode="json", by_alias=True)
    data |= {
        "name": "replay-accuracy" if temperature == 0 else f"replay-accuracy-{temperature}",
        "try": [{"budget": budget, "topk": topk, "window": window} for budget, topk, window in BOOTED],
        "profile": {"enabled": True},
        "sampler": {"name": "random"},
    }
    data["server"]["port"] = PORT
    data["evaluation"]["enabled"] = False
    data["benchmark"]["sampling"]["temperature"] = temperature
    # One cell tells the accept length; the other one is there because a study needs it.
    cells = [{"context": CONTEXT, "concurrency": 32}, {"context": CONTEXT, "concurrency": 1, "requests": 1}]
    data["benchmark"] |= {"stages": [{"name": "all", "cells": cells}], "warmup_requests": 0}
    data["baseline"] = {"budget": 16, "topk": 4, "window": "none"}
    return StudySettings.model_validate(data)


def compare_booted(view: StudyView) -> Iterator[Comparison]:
    """Compare every configuration that was booted with what the profile told of it."""
    known = {view.space.key(item.configuration): item for item in find_evidence(view.trials, view.space)}
    for trial in view.trials:
        # Boots of one configuration accept the same: the first one is enough.
        item = known.pop(view.space.key(trial.configuration), None) if trial.kind is not TrialKind.PROFILE else None
        if item is None or trial.state is not TrialState.COMPLETE:
            continue
        if (real := find_accept_length(trial)) is not None:
            tree = view.space.describe(trial.configuration)
            yield Comparison(tree, item.accept_length, item.deviation, real.value, f"{real.count} steps")


def find_accept_length(trial: TrialRecord) -> Figure | None:
    """Return the accept length of the busiest cell, with the steps it rests on."""
    (found,) = [cell.accept_length for cell in trial.cells if cell.cell.concurrency == max(CONCURRENCIES)]
    return found


def render(comparisons: Sequence[Comparison], texts: str) -> Iterator[str]:
    """Yield the lines of the table."""
    yield f"Replayed from drafts of {texts}."
    yield ""
    yield "| tree | replayed (95 %) | real | error | real rests on |"
    yield "| --- | --- | --- | --- | --- |"
    for item in comparisons:
        low, high = (item.predicted * math.exp(sign * 1.96 * item.deviation) for sign in (-1, 1))
        yield (
            f"| {item.tree} | {item.predicted:.2f} ({low:.2f} to {high:.2f}) | {item.real:.2f} | "
            f"{100 * math.expm1(item.error):+.1f} % | {item.count} |"
        )
    if not comparisons:
        yield "nothing was both replayed and measured yet"
        return
    errors = [item.error for item in comparisons]
    inside = sum(abs(item.error) <= 1.96 * item.deviation for item in comparisons)
    spread = statistics.stdev(errors) if len(errors) > 1 else 0.0
    yield ""
    yield (
        f"{len(errors)} trees: mean error {100 * statistics.fmean(errors):+.1f} %, standard deviation {100 * spread:.1f} %, "
        f"largest {100 * max(map(abs, errors)):.1f} %; {inside} of {len(errors)} real ones inside the interval."
    )


def main(words: Sequence[str] | None = None) -> int:
    """Print the comparison that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--recorded", type=Path, help="table of drafts, without the ending")
    source.add_argument("--boot", action="store_true", help="boot the embedded server")
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--directory", type=Path, help="folder of the study")
    arguments = parser.parse_args(words)
    if arguments.recorded is not None:
        lines = render(list(compare_recorded(arguments.recorded)), "every token of the recorded texts")
        lines = itertools.chain(lines, [""], render_gaps(arguments.recorded))
    else:
        path = find_packaged("studies", "embedded.toml")
        if path is None:
            raise SystemExit("the embedded study is not here: run this from a checkout")
        settings = make_settings(path, arguments.temperature)
        directory = arguments.directory or tuner.STUDIES / settings.name
        with PlainDisplay() as display:
            tuner.run(settings, Limits(trials=len(settings.try_)), display, directory=directory)
        view = load_study(directory)
        lines = render(list(compare_booted(view)), f"one profile boot, temperature {arguments.temperature:g}")
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
