"""Which text do these tokens add? Never half a character, never a stop string."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tokenizers import Tokenizer


def byte_alphabet() -> dict[str, int]:
    """Return the character by which byte-level BPE vocabularies spell each byte, as character -> byte.

    Printable Latin-1 characters stand for themselves; the other bytes, in order, are spelled from U+0100 upwards.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    alphabet = {chr(byte): byte for byte in printable}
    hidden = [byte for byte in range(256) if byte not in set(printable)]
    alphabet.update({chr(0x100 + index): byte for index, byte in enumerate(hidden)})
    return alphabet


def token_bytes(tokenizer: Tokenizer, vocabulary: int) -> tuple[bytes, ...]:
    """Return the bytes of every token of a byte-level vocabulary; special tokens have none.

    Args:
        tokenizer: may know fewer tokens than the model; those it does not know have no bytes either.
        vocabulary: number of tokens of the model.
    """
    alphabet = byte_alphabet()
    special = {index for index, token in tokenizer.get_added_tokens_decoder().items() if token.special}
    table = []
    for index in range(vocabulary):
        spelled = tokenizer.id_to_token(index)
        if spelled is None or index in special:
            table.append(b"")
        else:
            table.append(bytes(alphabet[character] for character in spelled))
    return tuple(table)


class Piece(NamedTuple):
    """Text that tokens released.

    Attributes:
        text: may be empty.
        used: how many of the tokens count: all, or those up to the one that completed a stop string.
        matched: the stop string that ended the answer here; ``None`` otherwise.
    """

    text: str
    used: int
    matched: str | None


class Detokenizer:
    """Turns the tokens of one answer into text as they come.

    Bytes that are no UTF-8 become U+FFFD; bytes that may still become a character wait for the next token. Text that may
    still become a stop string waits too, and text from a stop string on is dropped. Nothing may follow a match.

    Args:
        table: bytes of each token, see :func:`token_bytes`.
        stop: stop strings, none of them empty.
    """

    def __init__(self, table: Sequence[bytes], stop: Iterable[str] = ()) -> None:
        self._table = table
        self._stop = tuple(stop)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""

    def feed(self, tokens: Sequence[int]) -> Piece:
        """Add tokens and return the text they release."""
        table, decoder = self._table, self._decoder
        if not self._stop:
            return Piece(decoder.decode(b"".join([table[token] for token in tokens])), len(tokens), None)
        released = ""
        for used, token in enumerate(tokens, 1):
            text, matched = self._pass_on(decoder.decode(table[token]))
            released += text
            if matched is not None:
                return Piece(released, used, matched)
        return Piece(released, len(tokens), None)

    def finish(self) -> Piece:
        """Return what was still waiting when the answer ended."""
        text = self._decoder.decode(b"", final=True)
        if not self._stop:
            return Piece(text, 0, None)
        text, matched = self._pass_on(text)
        held, self._held = self._held, ""
        return Piece(text + held, 0, matched)

    def _pass_on(self, text: str) -> tuple[str, str | None]:
        """Hold back what may become a stop string; cut at the first one and name it."""
        text = self._held + text
        found = [(position, stop) for stop in self._stop if (position := text.find(stop)) >= 0]
        if found:
            position, matched = min(found)
            self._held = ""
            return text[:position], matched
        cut = len(text) - max(_overlap(text, stop) for stop in self._stop)
        self._held = text[cut:]
        return text[:cut], None


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of ``text`` that begins ``stop``."""
    for length in range(min(len(text), len(stop) - 1), 0, -1):
        if stop.startswith(text[-length:]):
            return length
    return 0
