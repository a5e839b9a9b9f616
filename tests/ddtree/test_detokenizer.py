from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.ddtree.detokenizer import Detokenizer, byte_alphabet, token_bytes
from autotune.ddtree.tokenizer import END, train_tokenizer

BYTES = tuple(bytes([value]) for value in range(256))
"""A vocabulary in which every byte is its own token."""


def feed_all(detokenizer: Detokenizer, pieces: list[list[int]]) -> tuple[str, str | None]:
    text = ""
    for piece in pieces:
        released = detokenizer.feed(piece)
        text += released.text
        if released.matched is not None:
            return text, released.matched
    rest = detokenizer.finish()
    return text + rest.text, rest.matched


def test_the_alphabet_spells_every_byte_once() -> None:
    alphabet = byte_alphabet()

    assert sorted(alphabet.values()) == list(range(256))
    assert alphabet["Ġ"] == ord(" ")
    assert alphabet["Ċ"] == ord("\n")


def test_the_bytes_of_the_tokens_are_the_text() -> None:
    tokenizer = train_tokenizer(["hello wörld 中文\n\t"], 300)
    table = token_bytes(tokenizer, 310)
    text = "hello  wörld 中文 🙂\n\x00"

    assert b"".join(table[token] for token in tokenizer.encode(text).ids) == text.encode()
    assert table[END] == b""
    assert table[309] == b""


def test_a_character_cut_in_two_waits_for_its_rest() -> None:
    """case 15"""
    detokenizer = Detokenizer(BYTES)

    assert [detokenizer.feed([byte]).text for byte in "中".encode()] == ["", "", "中"]


def test_a_character_that_never_ends_is_replaced_at_the_end() -> None:
    detokenizer = Detokenizer(BYTES)

    assert detokenizer.feed([0x61, 0xE4, 0xB8]).text == "a"
    assert detokenizer.finish().text == "\ufffd"


@given(st.text(max_size=40), st.data())
def test_any_cut_gives_the_same_text(text: str, data) -> None:
    tokens = list(text.encode("utf-8", "surrogatepass"))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(tokens)), max_size=6)))
    pieces = [tokens[a:b] for a, b in zip([0, *cuts], [*cuts, len(tokens)], strict=True)]

    assert feed_all(Detokenizer(BYTES), pieces)[0] == bytes(tokens).decode("utf-8", "replace")


@given(st.text("abc", max_size=30), st.lists(st.text("abc", min_size=1, max_size=4), min_size=1, max_size=3), st.data())
def test_text_ends_before_the_first_stop_string_whatever_the_cut(text: str, stop: list[str], data) -> None:
    tokens = list(text.encode())
    cuts = sorted(data.draw(st.lists(st.integers(0, len(tokens)), max_size=6)))
    pieces = [tokens[a:b] for a, b in zip([0, *cuts], [*cuts, len(tokens)], strict=True)]
    ends = [end for end in range(len(text) + 1) if any(text[:end].endswith(word) for word in stop)]
    complete = text if not ends else text[: ends[0] - max(len(w) for w in stop if text[: ends[0]].endswith(w))]

    shown, matched = feed_all(Detokenizer(BYTES, stop), pieces)

    assert shown == complete
    assert (matched is not None) == bool(ends)


def test_text_that_may_become_a_stop_string_is_held_back() -> None:
    detokenizer = Detokenizer(BYTES, ["END"])

    assert detokenizer.feed(list(b"abE")).text == "ab"
    assert detokenizer.feed(list(b"N")).text == ""
    assert detokenizer.feed(list(b"x")).text == "ENx"


def test_tokens_after_the_stop_string_do_not_count() -> None:
    piece = Detokenizer(BYTES, ["cd"]).feed(list(b"abcdef"))

    assert piece == ("ab", 4, "cd")


@pytest.mark.parametrize("tokens", [[], [0x41]])
def test_without_stop_strings_every_token_is_used(tokens: list[int]) -> None:
    assert Detokenizer(BYTES).feed(tokens).used == len(tokens)
