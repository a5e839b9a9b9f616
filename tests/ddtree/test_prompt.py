"""What cannot fit is refused before it is tokenized."""

from __future__ import annotations

from typing import Any

import pytest

from autotune.ddtree.prompt import Prompter
from autotune.ddtree.request_body import Body, BodyError, is_token_list

CONTEXT_LENGTH = 16
TABLE = (b"a", b"b", b"long")


class CharacterTokenizer:
    """One token a character; counts how often it is asked."""

    def __init__(self) -> None:
        self.calls = 0

    def encode(self, text: str, *, add_special_tokens: bool) -> Any:
        assert not add_special_tokens
        self.calls += 1
        return type("Encoding", (), {"ids": [0] * len(text)})

    def get_added_tokens_decoder(self) -> dict[int, Any]:
        return {}


class Unread(list[Any]):
    """A list whose items nobody may look at."""

    def __iter__(self) -> Any:
        raise AssertionError("a prompt that cannot fit was read")


def messages(*texts: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text} for text in texts]


def make_prompter(tokenizer: Any) -> Prompter:
    return Prompter(tokenizer, TABLE, CONTEXT_LENGTH)


@pytest.mark.parametrize("texts", [["a"] * 8, ["a"] * 300_000, ["a" * 30] * 3, ["", *["a"] * 7]])
def test_a_conversation_that_cannot_fit_is_refused_without_tokenizing(texts: list[str]) -> None:
    tokenizer = CharacterTokenizer()

    with pytest.raises(BodyError, match="context"):
        make_prompter(tokenizer).encode_messages(messages(*texts))
    assert tokenizer.calls == 0


@pytest.mark.parametrize("texts", [["a"] * 7, ["", *["a"] * 6], ["a", *[""] * 12]])
def test_a_conversation_that_just_fits_is_read(texts: list[str]) -> None:
    ids = make_prompter(CharacterTokenizer()).encode_messages(messages(*texts))

    assert len(ids) == len(texts) + sum(map(len, texts)) + 1
    assert len(ids) < CONTEXT_LENGTH


def test_hopelessly_many_messages_are_refused_unread() -> None:
    with pytest.raises(BodyError, match="300000 messages"):
        make_prompter(CharacterTokenizer()).encode_messages(Unread(messages("a") * 300_000))


def test_as_many_system_messages_as_characters_allow_are_read() -> None:
    system = [{"role": "system", "content": ""}] * 6

    assert len(make_prompter(CharacterTokenizer()).encode_messages([*system, *messages("a")])) == 1 + 12 + 1 + 1


def test_the_length_of_a_token_list_is_checked_before_its_tokens() -> None:
    with pytest.raises(BodyError, match="context holds 16"):
        make_prompter(CharacterTokenizer()).check_ids(Unread([0] * CONTEXT_LENGTH))


@pytest.mark.parametrize(
    ("value", "expected"), [([1], True), ([1, 2], True), ([], False), ([True], False), ([1, 2.0], False), ((1,), False)]
)
def test_a_token_list_is_a_non_empty_list_of_whole_numbers(value: object, expected: bool) -> None:
    assert is_token_list(value) is expected


def test_a_refused_value_is_shown_in_short_whatever_its_depth() -> None:
    deep: Any = 1
    for _ in range(5000):
        deep = [deep]

    message = str(Body({"stop": deep}).error("stop", "is wrong"))

    assert message.startswith("stop is wrong, got [[[")
    assert len(message) < 120
