"""Makes the embedded model's weights from nothing, or says how good given weights are: ``python -m autotune.ddtree.train``."""

from __future__ import annotations

import argparse
import dataclasses
import json
import platform
import random
import sys
import time
from pathlib import Path
from typing import Any

import torch

from autotune.ddtree.corpus.catalogue import families
from autotune.ddtree.model import Drafter, Target, count_parameters
from autotune.ddtree.training.acceptance import Setting, accept_length
from autotune.ddtree.training.answers import Answered, make_answers
from autotune.ddtree.training.data import prepare
from autotune.ddtree.training.drafter import train_drafter
from autotune.ddtree.training.quality import measure_pass_rates
from autotune.ddtree.training.recipe import Recipe, large_recipe, smoke_recipe
from autotune.ddtree.training.target import train_target
from autotune.ddtree.weights import (
    RECORD_FILE,
    TOKENIZER_FILE,
    default_weights_directory,
    load_drafter,
    load_target,
    load_tokenizer,
    save_drafter,
    save_target,
)

SETTINGS = tuple(Setting(budget, 4, block) for block in (8, 16) for budget in (4, 8, 16, 32))
WINDOWED = tuple(Setting(16, 4, 16, window) for window in (32, 128))


class Stopwatch:
    """Prints lines with the seconds since it was made."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._start

    def log(self, line: str) -> None:
        """Print one line."""
        sys.stdout.write(f"[{self.seconds():7.1f} s] {line}\n")
        sys.stdout.flush()


def _curve(losses: list[float], points: int = 10) -> list[float]:
    """Means of ``points`` equal stretches of the losses."""
    size = max(1, len(losses) // points)
    return [round(sum(losses[i : i + size]) / len(losses[i : i + size]), 4) for i in range(0, len(losses), size)][
        :points
    ]


def _final(losses: list[float], last: int = 200) -> float:
    tail = losses[-last:]
    return round(sum(tail) / len(tail), 4)


def _lengths(target: Target, drafter: Drafter, answered: list[Answered]) -> dict[str, float]:
    return {
        f"block {s.block} budget {s.budget} topk {s.topk} window {s.window}": round(
            accept_length(target, drafter, answered, s), 2
        )
        for s in (*SETTINGS, *WINDOWED)
    }


def _rates(target: Target, directory: Path, questions: int, watch: Stopwatch) -> list[dict[str, Any]]:
    rates = measure_pass_rates(target, load_tokenizer(directory), questions)
    for rate in rates:
        watch.log(f"{rate.group}: {rate.passed} of {rate.asked} right")
    return [{"group": r.group, "passed": r.passed, "asked": r.asked, "failed": list(r.failed)} for r in rates]


def train(recipe: Recipe, output: Path, device: str) -> dict[str, Any]:
    """Train everything and write weights, tokenizer and ``training.json`` into ``output``.

    The drafter of the first entry of ``recipe.drafter_layers`` lies in ``output``, the others in folders beneath it.

    Returns:
        What ``training.json`` holds.
    """
    watch = Stopwatch()
    output.mkdir(parents=True, exist_ok=True)
    torch.backends.cuda.matmul.allow_tf32 = True
    # cuDNN plans every new shape for tens of milliseconds, and here nearly every shape is new.
    torch.backends.cuda.enable_cudnn_sdp(enabled=False)
    data = prepare(recipe)
    data.tokenizer.save(str(output / TOKENIZER_FILE))
    watch.log(f"corpus {data.sha256}: {len(data.tokens)} tokens")
    trained = train_target(recipe, data, device, watch.log)
    target = trained.target
    save_target(output, target)
    watch.log(f"target of {count_parameters(target)} parameters, validation loss {trained.validation_loss:.4f}")
    record: dict[str, Any] = {
        "seed": recipe.seed,
        "corpus_sha256": data.sha256,
        "corpus_tokens": len(data.tokens),
        "families": len(families()),
        "held_out": [family.name for family in families() if family.held_out],
        "torch": torch.__version__,
        "python": platform.python_version(),
        "device": torch.cuda.get_device_name() if device == "cuda" else platform.processor() or platform.machine(),
        "target_parameters": count_parameters(target),
        "target_steps": recipe.steps,
        "target_tokens": recipe.steps * recipe.batch * recipe.sequence,
        "target_losses": _curve(trained.losses),
        "target_loss": _final(trained.losses),
        "target_validation_loss": round(trained.validation_loss, 4),
        "target_seconds": round(watch.seconds(), 1),
        "drafters": {},
    }
    answered = make_answers(recipe, target, data.tokenizer, f"answers/{recipe.seed}", recipe.generation_batches)
    unseen = make_answers(recipe, target, data.tokenizer, f"unseen/{recipe.seed}", 1)
    unseen = random.Random(recipe.seed).sample(unseen, min(len(unseen), recipe.evaluation_prompts))  # noqa: S311 - no secret
    watch.log(f"{len(answered)} answers, {sum(len(item.answer) for item in answered)} tokens of answers")
    record["answer_tokens"] = sum(len(item.answer) for item in answered)
    for layers in recipe.drafter_layers:
        begun = watch.seconds()
        drafted = train_drafter(recipe, target, answered, layers, device, watch.log)
        directory = output if layers == recipe.drafter_layers[0] else output / f"drafter_{layers}_layers"
        save_drafter(directory, drafted.drafter)
        seconds = watch.seconds() - begun
        lengths = _lengths(target, drafted.drafter, unseen)
        watch.log(f"drafter of {layers} layers: {lengths}")
        record["drafters"][str(layers)] = {
            "parameters": count_parameters(drafted.drafter),
            "steps": recipe.drafter_steps,
            "losses": _curve(drafted.losses),
            "loss": _final(drafted.losses),
            "seconds": round(seconds, 1),
            "accept_lengths": lengths,
        }
        (output / RECORD_FILE).write_text(json.dumps(record, indent=1) + "\n")
    record["pass_rates"] = _rates(target, output, recipe.evaluation_questions, watch)
    record["seconds"] = round(watch.seconds(), 1)
    (output / RECORD_FILE).write_text(json.dumps(record, indent=1) + "\n")
    return record


def evaluate(directory: Path, device: str) -> dict[str, Any]:
    """Measure pass rates and accept lengths of the weights in ``directory``."""
    watch = Stopwatch()
    target, drafter = load_target(directory).to(device), load_drafter(directory).to(device)
    rates = _rates(target, directory, 30, watch)
    recipe = Recipe(generation_batch=6)
    answered = make_answers(recipe, target, load_tokenizer(directory), "evaluation", 1)
    lengths = _lengths(target, drafter, answered)
    for setting, length in lengths.items():
        watch.log(f"accept length, {setting}: {length}")
    return {"pass_rates": rates, "accept_lengths": lengths}


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line and train or evaluate."""
    parser = argparse.ArgumentParser(prog="python -m autotune.ddtree.train", description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("weights"), help="where new weights go")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument(
        "--drafter-layers", type=int, nargs="+", help="train one drafter of each size, the first one to be used"
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--smoke", action="store_true", help="a tiny model in seconds, to see that everything runs")
    size.add_argument("--large", action="store_true", help="130 million parameters, for recording tables on a GPU")
    parser.add_argument("--evaluate", action="store_true", help="train nothing, measure given weights")
    parser.add_argument("--weights", type=Path, default=default_weights_directory(), help="weights to evaluate")
    chosen = parser.parse_args(arguments)
    if chosen.evaluate:
        evaluate(chosen.weights, chosen.device)
    else:
        recipe = smoke_recipe() if chosen.smoke else large_recipe() if chosen.large else Recipe()
        if chosen.drafter_layers:
            recipe = dataclasses.replace(recipe, drafter_layers=tuple(chosen.drafter_layers))
        train(recipe, chosen.output, chosen.device)
    return 0


if __name__ == "__main__":
    sys.exit(main())
