"""Which tokens does the model read for a text or a conversation, and is there room for the answer?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from autotune.ddtree.detokenizer import token_bytes
from autotune.ddtree.request_body import Body, BodyError
from autotune.ddtree.tokenizer import BOT, END, USER, load_tokenizer_file


@dataclass(frozen=True, slots=True)
class Prompter:
    """Turns prompts into tokens of one model.

    Attributes:
        tokenizer: the model's tokenizer.
        table: bytes of each token.
        context_length: longest prompt plus answer in tokens.
        special: spellings of special tokens; inside a message they are text, never tokens.
    """

    tokenizer: Tokenizer
    table: tuple[bytes, ...]
    context_length: int

    @classmethod
    def load(cls, path: Path, vocabulary: int, context_length: int) -> Prompter:
        """Read the tokenizer of a weights directory."""
        tokenizer = load_tokenizer_file(path)
        return cls(tokenizer, token_bytes(tokenizer, vocabulary), context_length)

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a raw prompt, in which special tokens may be spelled out.

        Raises:
            BodyError: the text is empty or cannot fit.
        """
        self._check_length(len(text))
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False).ids
        if not ids:
            raise BodyError("The prompt is empty.")
        return ids

    def encode_messages(self, messages: Any) -> list[int]:
        """Return the tokens of a conversation, ready for the assistant's turn.

        System messages are put in front of the first user message. Special tokens spelled inside a message stay text.

        Raises:
            BodyError: the messages are malformed, the last one is not the user's, or they cannot fit.
        """
        # A turn takes a token at least, a system message the two characters that part it from the next.
        most = self.context_length + self._most_characters // 2
        if isinstance(messages, list) and len(messages) > most:
            raise BodyError(
                f"There are {len(messages)} messages, too many for a context of {self.context_length} tokens.",
                "messages",
            )
        turns = _parse_messages(messages)
        self._check_length(sum(len(text) for _, text in turns))
        # A turn takes a token of its role, its text one at least, and an assistant's another for its end.
        least = 1 + sum((1 if role == "user" else 2) + bool(text) for role, text in turns)
        if least >= self.context_length:
            raise BodyError(
                f"The {len(turns)} messages have {least} tokens or more, but the context holds {self.context_length} "
                "with the answer.",
                "messages",
            )
        ids: list[int] = []
        for role, text in turns:
            body = self._encode_plain(text)
            ids += [USER, *body] if role == "user" else [BOT, *body, END]
        return [*ids, BOT]

    def check_ids(self, ids: Sequence[int]) -> None:
        """Refuse a prompt that cannot fit, or with tokens that the model does not have.

        Raises:
            BodyError: there are too many tokens, or one is unknown.
        """
        self.check_room(len(ids), None)
        for token in ids:
            if not 0 <= token < len(self.table):
                raise BodyError(f"The prompt holds token {token}, but the vocabulary has 0 to {len(self.table) - 1}.")

    def check_room(self, prompt_tokens: int, max_new_tokens: int | None) -> int:
        """Return how many tokens the answer may have; all that fit when ``max_new_tokens`` is ``None``.

        Raises:
            BodyError: prompt and answer together are longer than the context.
        """
        room = self.context_length - prompt_tokens
        if room < 1:
            raise BodyError(
                f"The prompt has {prompt_tokens} tokens, but the context holds {self.context_length} with the answer."
            )
        if max_new_tokens is None:
            return room
        if max_new_tokens > room:
            raise BodyError(
                f"The request needs {prompt_tokens + max_new_tokens} tokens ({prompt_tokens} in the prompt and "
                f"{max_new_tokens} in the answer), but the context holds {self.context_length}."
            )
        return max_new_tokens

    @property
    def _most_characters(self) -> int:
        """Characters that no text in the context can exceed."""
        return max(map(len, self.table)) * self.context_length

    def _check_length(self, characters: int) -> None:
        """Refuse at once what no tokenizer can make fit, so that a huge text does not hold up the server."""
        if characters > self._most_characters:
            raise BodyError(
                f"The prompt has {characters} characters, too many for a context of {self.context_length} tokens."
            )

    def _encode_plain(self, text: str) -> list[int]:
        """Encode text in which nothing is a special token."""
        ids: list[int] = []
        for part, is_special in _split_special(text, self.special):
            if is_special:
                # Cutting the spelling in two keeps the bytes and loses the token.
                ids += self.tokenizer.encode(part[:2], add_special_tokens=False).ids
                ids += self.tokenizer.encode(part[2:], add_special_tokens=False).ids
            elif part:
                ids += self.tokenizer.encode(part, add_special_tokens=False).ids
        return ids

    @property
    def special(self) -> tuple[str, ...]:
        """Spellings of the special tokens."""
        return tuple(token.content for token in self.tokenizer.get_added_tokens_decoder().values() if token.special)


def _split_special(text: str, special: Sequence[str]) -> list[tuple[str, bool]]:
    """Cut text at spelled-out special tokens; ``True`` marks a spelling."""
    parts = [(text, False)]
    for spelling in special:
        if spelling not in text:
            continue
        cut: list[tuple[str, bool]] = []
        for part, is_special in parts:
            if is_special:
                cut.append((part, True))
                continue
            pieces = part.split(spelling)
            for index, piece in enumerate(pieces):
                if index:
                    cut.append((spelling, True))
                cut.append((piece, False))
        parts = cut
    return parts


def _parse_messages(messages: Any) -> list[tuple[str, str]]:
    """Return alternating ``("user" | "assistant", text)`` turns with system texts folded into the first user turn."""
    if not isinstance(messages, list) or not messages:
        raise BodyError("messages must be a non-empty list.", "messages")
    system: list[str] = []
    turns: list[tuple[str, str]] = []
    for index, message in enumerate(messages):
        if not isinstance(message, dict):
            raise BodyError(f"messages[{index}] must be an object.", "messages")
        fields = Body(message, f"messages[{index}].")
        role = fields.text("role")
        text = _parse_content(fields)
        if role in ("system", "developer"):
            system.append(text)
        elif role in ("user", "assistant"):
            turns.append((role, text))
        else:
            raise fields.error("role", "must be system, developer, user or assistant")
    if not turns or turns[-1][0] != "user":
        raise BodyError("The last of the messages must be the user's.", "messages")
    if not any(text for role, text in turns if role == "user"):
        raise BodyError("The prompt is empty.", "messages")
    if system:
        first = next(index for index, (role, _) in enumerate(turns) if role == "user")
        turns[first] = ("user", "\n\n".join([*system, turns[first][1]]))
    return turns


def _parse_content(message: Body) -> str:
    """Return a message's text: a string, or the joined text parts."""
    content = message.raw("content")
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = []
        for part in content:
            if not isinstance(part, dict) or part.get("type") != "text" or not isinstance(part.get("text"), str):
                raise message.error("content", "may hold only parts of type text")
            texts.append(part["text"])
        return "".join(texts)
    raise message.error("content", "must be a string or a list of text parts")
