"""A tiny random target and drafter with a tokenizer, as a weights directory."""

from __future__ import annotations

from pathlib import Path

import torch

from autotune.ddtree.model import Drafter, ModelConfig, Target
from autotune.ddtree.tokenizer import train_tokenizer
from autotune.ddtree.weights import TOKENIZER_FILE, save_drafter, save_target

CONFIG = ModelConfig(
    vocabulary=320,
    width=32,
    layers=3,
    heads=2,
    hidden=48,
    max_positions=1024,
    tapped_layers=(0, 1, 2),
    drafter_layers=1,
    max_block=8,
)


def write_tiny_weights(directory: Path, config: ModelConfig = CONFIG) -> Path:
    """Write weights that are the same every time; the text they produce is noise."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        save_target(directory, Target(config))
        save_drafter(directory, Drafter(config))
    texts = ["def add(a, b):\n    return a + b\n", "Write a function that adds two numbers. Größe: 中"]
    train_tokenizer(texts, config.vocabulary).save(str(directory / TOKENIZER_FILE))
    return directory
