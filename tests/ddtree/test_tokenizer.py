from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.ddtree.corpus.chats import corpus_part
from autotune.ddtree.tokenizer import BOT, END, PAD, SPECIAL_TOKENS, USER, train_tokenizer
from autotune.ddtree.weights import default_weights_directory, load_tokenizer

SHIPPED = load_tokenizer(default_weights_directory())


@given(st.text())
def test_any_text_comes_back_unchanged(text: str):
    assert text == SHIPPED.decode(SHIPPED.encode(text).ids, skip_special_tokens=False)


@pytest.mark.parametrize("text", ["", "\x00", "naïve 🙂\n\tdef", "  two  spaces ", "\r\n", "日本語"])
def test_awkward_text_comes_back_unchanged(text: str):
    assert text == SHIPPED.decode(SHIPPED.encode(text).ids, skip_special_tokens=False)


def test_there_are_2048_tokens_and_the_special_ones_come_first():
    assert SHIPPED.get_vocab_size() == 2048
    assert [SHIPPED.token_to_id(token) for token in SPECIAL_TOKENS] == [PAD, USER, BOT, END]
    assert SHIPPED.encode("<|user|>a<|bot|>").ids[::2] == [USER, BOT]


def test_training_the_tokenizer_twice_gives_the_same():
    texts = corpus_part(0, 0, 100)

    assert train_tokenizer(texts, 400).to_str() == train_tokenizer(texts, 400).to_str()
