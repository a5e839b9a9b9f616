"""Byte-level BPE of 2048 tokens: any text goes in and comes out unchanged."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

SPECIAL_TOKENS = ("<|pad|>", "<|user|>", "<|bot|>", "<|end|>")
PAD, USER, BOT, END = range(4)
"""Identifiers of the special tokens."""


def train_tokenizer(texts: Iterable[str], vocabulary: int = 2048) -> Tokenizer:
    """Learn merges from texts; every byte is a token, so nothing is unknown."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def load_tokenizer_file(path: Path) -> Tokenizer:
    """Read a tokenizer that :func:`train_tokenizer` made."""
    return Tokenizer.from_file(str(path))
