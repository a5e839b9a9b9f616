"""How long must each prompt be so that the server counts exactly as many tokens as the cell's context says?

Asked of the server itself, by prompts with a limit of one token: a prompt is built, counted, built again with what its
own count teaches, and filled up with words that are one token each here. What was found is kept in a file, so that every
trial of a study sends the same prompts, and only the first one asks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from autotune.benchmark.prompt_kind import PromptKind
from autotune.benchmark.record_file import RecordFile
from autotune.benchmark.workload import Prompt, build_prompt, kinds_of
from autotune.trial import Cell

CountTokens = Callable[[Sequence[Prompt]], Awaitable[list[int | None]]]
"""Asks the server for the prompt tokens of each prompt; ``None`` where it did not answer."""

_ROUNDS = 5
_CLOSE_TOKENS, _CLOSE_SHARE = 24, 0.02
_FILLERS = ("the", "of", "and", "list", "number", "value", "to", "in", "is", "a", "return", "string")
_FILLER_TIMES = 16


@dataclass(frozen=True, slots=True)
class PromptLength:
    """How one prompt reaches its length.

    Attributes:
        characters: it is built with.
        fillers: words of one token that are added.
        tokens: that it then has; ``None`` when the server did not say.
    """

    characters: int
    fillers: int
    tokens: int | None


class PromptSet:
    """Prompts of one study, or of one benchmark, for one server.

    Args:
        count: asks the server.
        seed: of the study.
        output_tokens: token limit of the answers.
        characters_per_token: first guess.
        path: JSON lines with what was found earlier, and is found now; ``None`` keeps it in memory.
        model: what was found for another model counts for nothing.

    Attributes:
        has_asked: whether the server was asked since this was opened.
    """

    def __init__(
        self,
        count: CountTokens,
        *,
        seed: int,
        output_tokens: int,
        characters_per_token: float,
        path: Path | None = None,
        model: str = "",
    ) -> None:
        self._count = count
        self._seed = seed
        self._answer_characters = round(output_tokens * characters_per_token)
        self._ratio = characters_per_token
        self._path = path
        stated = orjson.dumps([model, seed, output_tokens, characters_per_token, 1])
        self._fingerprint = hashlib.sha256(stated).hexdigest()[:16]
        self._lengths: dict[str, PromptLength] = {}
        self._fillers: tuple[str, ...] | None = None
        self._has_fillers = False
        self.has_asked = False
        self._load()

    async def prepare(
        self, cell: Cell, repeat: int, count: int, mix: Mapping[str, float], nonce: str | None = None
    ) -> tuple[Prompt, ...]:
        """Return the prompts of one repeat, all of them with as many tokens as the context says.

        Where a request alone is longer than the context, all are as long as the longest. A server that counts no prompt
        tokens gets prompts of about the right length.

        Args:
            cell: its context is the wanted number of prompt tokens, chat template included.
            repeat: number of the repeat.
            count: how many.
            mix: weight of each kind.
            nonce: makes them new to a prefix cache, see :func:`autotune.benchmark.workload.draw_nonce`.
        """
        kinds = kinds_of(mix, count)
        keys = [f"{cell.name}/{repeat}/{index}/{kind.value}/{nonce is not None}" for index, kind in enumerate(kinds)]
        missing = [index for index, key in enumerate(keys) if key not in self._lengths]
        if missing:
            self.has_asked = True
            fillers = await self._find_fillers(cell)
            if fillers is None:  # there is nothing to be learned
                found = [PromptLength(self._guess(cell), 0, None) for _ in missing]
            else:
                found = await self._find_lengths(cell, repeat, [(index, kinds[index]) for index in missing], nonce)
            for index, length in zip(missing, _fill_up(found, cell.context, bool(fillers)), strict=True):
                self._lengths[keys[index]] = length
                self._keep({"key": keys[index], "length": [length.characters, length.fillers, length.tokens]})
        return tuple(
            self._build(cell, repeat, index, kind, self._lengths[key], nonce)
            for index, (key, kind) in enumerate(zip(keys, kinds, strict=True))
        )

    async def _find_lengths(
        self, cell: Cell, repeat: int, wanted: Sequence[tuple[int, PromptKind]], nonce: str | None
    ) -> list[PromptLength]:
        """Come as close to the context from below as building with another number of characters can."""
        guesses = dict.fromkeys(range(len(wanted)), self._guess(cell))
        best: dict[int, PromptLength] = {}
        window = _window(cell.context)
        for turn in range(1, _ROUNDS + 1):
            places = sorted(guesses)
            prompts = [
                self._build(cell, repeat, *wanted[place], PromptLength(guesses[place], 0, None), nonce)
                for place in places
            ]
            for place, prompt, tokens in zip(places, prompts, await self._count(prompts), strict=True):
                length = PromptLength(guesses.pop(place), 0, tokens)
                best[place] = _better(best.get(place), length, cell.context)
                if tokens is None:  # it failed: once more
                    guesses[place] = length.characters
                elif tokens and not _is_close(tokens, cell.context):
                    ratio = prompt.characters / tokens
                    # Into the middle of the window, and deeper each time: what is too long cannot be mended.
                    wanted_tokens = cell.context - window * 2 ** (turn - 2)
                    guess = round(prompt.characters + (wanted_tokens - tokens) * ratio)
                    if guess > 0 and guess != length.characters:
                        guesses[place] = guess
            if not guesses:
                break
        return [best[place] for place in range(len(wanted))]

    def _guess(self, cell: Cell) -> int:
        return max(1, round(cell.context * self._ratio))

    def _build(
        self, cell: Cell, repeat: int, index: int, kind: PromptKind, length: PromptLength, nonce: str | None
    ) -> Prompt:
        prompt = build_prompt(
            cell,
            repeat,
            index,
            kind=kind,
            seed=self._seed,
            characters=length.characters,
            answer_characters=self._answer_characters,
        )
        words = [*(nonce.split(" ") if nonce else ()), kind.value]
        words += [self._fillers[place % len(self._fillers)] for place in range(length.fillers)] if self._fillers else []
        return prompt.tagged(words)

    async def _find_fillers(self, cell: Cell) -> tuple[str, ...] | None:
        """Find words that are one token each for this server, by asking; ``None`` when it does not count prompts."""
        if not self._has_fillers:
            kind = PromptKind.CODE
            base = build_prompt(
                Cell(1, cell.concurrency), 0, 0, kind=kind, seed=self._seed, characters=1, answer_characters=1
            )
            rows: list[list[str]] = [[], *([word] * _FILLER_TIMES for word in _FILLERS)]
            bare, *counts = await self._count([base.tagged([kind.value, *row]) for row in rows])
            if bare is not None and any(tokens is not None and tokens > bare for tokens in counts):
                self._fillers = tuple(
                    word
                    for word, tokens in zip(_FILLERS, counts, strict=True)
                    if tokens is not None and tokens - bare == _FILLER_TIMES
                )
            self._has_fillers = True
            self._keep({"fillers": self._fillers})
        return self._fillers

    def _load(self) -> None:
        """Read what was found earlier; lines that were cut off or belong to something else are left out."""
        if self._path is None or not self._path.exists():
            return
        for line in self._path.read_bytes().splitlines():
            try:
                entry: Any = orjson.loads(line)
            except orjson.JSONDecodeError:
                continue
            if not isinstance(entry, dict) or entry.get("fingerprint") != self._fingerprint:
                continue
            if "fillers" in entry:
                self._has_fillers = True
                self._fillers = None if entry["fillers"] is None else tuple(entry["fillers"])
            else:
                self._lengths[entry["key"]] = PromptLength(*entry["length"])

    def _keep(self, entry: dict[str, Any]) -> None:
        if self._path is not None:
            with RecordFile(self._path) as file:
                file.append({"fingerprint": self._fingerprint, **entry})


def _is_close(tokens: int, context: int) -> bool:
    """Whether fillers may do the rest."""
    return 0 <= context - tokens <= _window(context)


def _window(context: int) -> float:
    """Tokens that fillers may add."""
    return max(_CLOSE_TOKENS, _CLOSE_SHARE * context)


def _better(one: PromptLength | None, other: PromptLength, context: int) -> PromptLength:
    """The longest that is not too long, else the shortest."""
    if one is None or one.tokens is None:
        return other
    if other.tokens is None:
        return one

    def rank(length: PromptLength) -> tuple[bool, int]:
        tokens = length.tokens or 0
        return (tokens <= context, tokens if tokens <= context else -tokens)

    return max(one, other, key=rank)


def _fill_up(lengths: Sequence[PromptLength], context: int, has_fillers: bool) -> list[PromptLength]:
    """Make all as long as the context, or as the longest of them."""
    known = [length.tokens for length in lengths if length.tokens is not None]
    wanted = max([context, *known])
    return [
        length
        if length.tokens is None or not has_fillers
        else PromptLength(length.characters, wanted - length.tokens, wanted)
        for length in lengths
    ]
