"""Prompts of the kind *code*: requests for small Python modules, with earlier modules of the same chat as context.

Within a prompt nothing repeats until every function of the data file was used.
"""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources

import orjson

from autotune.benchmark.prompt_kind import Messages

_OPENINGS = (
    "Write a Python module with these functions:",
    "Implement the following functions in Python:",
    "Please write a Python file with these functions:",
    "I need one module that contains:",
)
_FOLLOW_UPS = ("", "", "Thanks! ", "Good. Next: ", "Now something else. ", "That works. ")
_INTRODUCTIONS = ("Here is the module:", "Here are the functions:", "Sure, here is the file:")
_DOCSTRINGS = "\nInclude docstrings."
_FEWEST, _MOST = 5, 8
"""Functions asked for in the request that is answered, where the context has room for them."""
_LOOK_AHEAD = 24
_ATTEMPTS, _CLOSE = 12, 0.95


@dataclass(frozen=True, slots=True)
class Function:
    """One function of the data file: how it is called, what it does, and code that does it."""

    signature: str
    description: str
    code: str


@functools.cache
def load_functions() -> tuple[Function, ...]:
    """Read the functions that requests are made of."""
    text = resources.files("autotune.benchmark").joinpath("prompts/functions.jsonl").read_bytes()
    return tuple(Function(**orjson.loads(line)) for line in text.splitlines())


def build_code(rng: random.Random, characters: int, answer_characters: int, lead: int) -> Messages:
    """Write a chat of this kind; see :class:`autotune.benchmark.prompt_kind.Builder`."""
    functions = load_functions()
    return _build_close_chat(rng, functions[lead % len(functions)], characters, answer_characters)


def _build_close_chat(rng: random.Random, lead: Function, characters: int, answer_characters: int) -> Messages:
    """The first of several chats that is almost as long as wanted, else the longest: equal lengths, equal work."""
    longest: list[tuple[str, str]] = []
    for _attempt in range(_ATTEMPTS):
        chat = _build_chat(rng, lead, characters, answer_characters)
        if _length(chat) >= _CLOSE * characters:
            return chat
        longest = max(longest, chat, key=_length)
    return longest


def _length(chat: list[tuple[str, str]]) -> int:
    return sum(len(text) for _role, text in chat)


def _build_chat(rng: random.Random, lead: Function, characters: int, answer_characters: int) -> list[tuple[str, str]]:
    """A chat of about so many characters that begins with ``lead`` and whose last request needs a long answer."""
    functions = (function for function in _shuffled(rng) if function is not lead)
    request = _build_request(rng, functions, characters, answer_characters)
    left = characters - len(request)
    turn = _build_turn(rng, itertools.chain([lead], functions), left, follow_up=False)
    if turn is None:
        return [("user", _build_request(rng, itertools.chain([lead], functions), characters, answer_characters))]
    turns: list[tuple[str, str]] = []
    while turn is not None:
        turns += [("user", turn[0]), ("assistant", turn[1])]
        left -= len(turn[0]) + len(turn[1])
        turn = _build_turn(rng, functions, left, follow_up=True)
    return [*turns, ("user", rng.choice(_FOLLOW_UPS) + request)]


def _shuffled(rng: random.Random) -> Iterator[Function]:
    """All functions in random order, again and again in other orders."""
    functions = load_functions()
    while True:
        yield from rng.sample(functions, len(functions))


def _build_request(rng: random.Random, functions: Iterator[Function], characters: int, answer_characters: int) -> str:
    """The request that is answered: as many functions as the answer needs and the context has room for."""
    opening = rng.choice(_OPENINGS)
    docstrings = rng.random() < 0.4
    wanted = rng.randint(_FEWEST, _MOST)
    chosen: list[Function] = []
    length, answer = len(opening) + (len(_DOCSTRINGS) if docstrings else 0), 0
    for function in functions:
        line = len(_line(len(chosen) + 1, function)) + 1
        if chosen and length + line > characters:
            break
        chosen.append(function)
        length += line
        answer += len(function.code) + (len(function.description) if docstrings else 0)
        if len(chosen) == _MOST or (len(chosen) >= wanted and answer > answer_characters):
            break
    return _ask(opening, chosen) + (_DOCSTRINGS if docstrings else "")


def _build_turn(
    rng: random.Random, functions: Iterator[Function], characters: int, *, follow_up: bool
) -> tuple[str, str] | None:
    """An earlier request with its answer, at most so long; ``None`` when not even one function fits."""
    opening = (rng.choice(_FOLLOW_UPS) if follow_up else "") + rng.choice(_OPENINGS)
    introduction = rng.choice(_INTRODUCTIONS)
    chosen: list[Function] = []
    turn: tuple[str, str] | None = None
    for function in functions:
        chosen.append(function)
        longer = _ask(opening, chosen), _answer(introduction, chosen)
        if len(longer[0]) + len(longer[1]) > characters:
            if len(chosen) == 1 and not follow_up:  # the lead must not be replaced by another function
                return None
            return _fill(opening, introduction, chosen[:-1], functions, characters) or turn
        turn = longer
        if len(chosen) == _FEWEST:
            return turn
    return None


def _fill(
    opening: str, introduction: str, chosen: list[Function], functions: Iterator[Function], characters: int
) -> tuple[str, str] | None:
    """The longest turn that fits with one more of the next functions; makes prompts of one context equally long."""
    turns = [
        (_ask(opening, [*chosen, function]), _answer(introduction, [*chosen, function]))
        for function in itertools.islice(functions, _LOOK_AHEAD)
    ]
    fitting = [turn for turn in turns if len(turn[0]) + len(turn[1]) <= characters]
    return max(fitting, key=lambda turn: len(turn[0]) + len(turn[1]), default=None)


def _ask(opening: str, functions: list[Function]) -> str:
    return "\n".join([opening, *(_line(index, function) for index, function in enumerate(functions, 1))])


def _line(index: int, function: Function) -> str:
    return f"{index}. `{function.signature}` - {function.description}"


def _answer(introduction: str, functions: list[Function]) -> str:
    code = "\n\n\n".join(function.code for function in functions)
    return f"{introduction}\n```python\n{code}\n```"
