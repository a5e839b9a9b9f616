"""Do answers look like a model's answers at all? Pure; looks at text and finish reasons, never at what is right.

A broken kernel, cache or draft tree often shows first in the text: empty answers, one phrase for ever, the template's
own marks, characters that are none. Such text is generated fast, because it is easy to draft: a speed that rests on it
is worth nothing, and a coding score explains nothing.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autotune.benchmark.request_record import RequestRecord

FEW, MANY = 0.02, 0.2
"""Share of odd answers from which they are told, and from which all are called degenerate."""

_MARKER = re.compile(
    r"<\|[A-Za-z_]{2,40}\|>|<｜[^｜\n]{2,40}｜>|</?s>|\[/?INST\]|\[/?(?:AVAILABLE_)?TOOL_CALLS?\]|<(?:start|end)_of_turn>"
    r"|<unk>|<pad>|<mask>|◁/?think▷|</?think(?:ing)?>",
    re.IGNORECASE,
)
_WORD = re.compile(r"\w+|([^\w\s])\1*")
_LOOP_WORDS = 60
"""A tail of so many words that is one short phrase over and over is a loop."""
_LONGEST_PHRASE = 12
_LONGEST_RUN = 80
"""So many equal characters in a row are a loop too; lines drawn in tables and comments are shorter."""
_TAIL_CHARACTERS = 4000
_FEWEST_LETTERS = 40
_LEAST_GARBLED = 0.02
_KNOWN_REASONS = frozenset({"stop", "length", "tool_calls"})
_FEWEST_ALIKE = 4


@dataclass(frozen=True, slots=True)
class TextSanity:
    """What was seen in the text of some answers.

    Attributes:
        answers: whole answers looked at.
        empty: without any text, in the content or the reasoning channel.
        repeated: whose end is one phrase over and over.
        leaked: with marks of the chat template in the content.
        garbled: with characters that no text has: replacement, control, unassigned.
        alike: equal word for word to the answer to another prompt, long ones only.
        finish_reasons: how often each was given.
    """

    answers: int
    empty: int
    repeated: int
    leaked: int
    garbled: int
    alike: int
    finish_reasons: Mapping[str, int]

    @property
    def is_degenerate(self) -> bool:
        """True when so many answers are odd that no figure of this configuration means anything."""
        return any(count > MANY * self.answers for count in (self.empty, self.repeated, self.garbled, self.alike))


def look_at_text(records: Sequence[RequestRecord]) -> TextSanity:
    """Look at all whole answers; those that failed have no text to judge."""
    whole = [record for record in records if record.is_ok]
    prompts_of: dict[str, set[str]] = {}
    for record in whole:
        if len(record.text) >= _FEWEST_LETTERS:
            prompts_of.setdefault(record.text, set()).add(record.prompt_id)
    return TextSanity(
        answers=len(whole),
        empty=sum(not (record.text.strip() or record.reasoning.strip()) for record in whole),
        repeated=sum(is_repeated(record.text) or is_repeated(record.reasoning) for record in whole),
        leaked=sum(has_leaked(record.text, record.reasoning) for record in whole),
        garbled=sum(is_garbled(record.text) or is_garbled(record.reasoning) for record in whole),
        alike=sum(len(prompts) for prompts in prompts_of.values() if len(prompts) >= _FEWEST_ALIKE),
        finish_reasons=dict(Counter(record.finish_reason or "none" for record in whole)),
    )


def render_sanity(sanity: TextSanity) -> tuple[str, ...]:
    """Say what is odd, the worst first; nothing for text that looks like text.

    >>> render_sanity(TextSanity(10, 0, 9, 0, 0, 0, {"length": 10}))
    ('degenerate text: 9 of 10 answers repeat themselves at the end',)
    """
    if not sanity.answers:
        return ()
    seen = [
        (sanity.empty, "are empty"),
        (sanity.repeated, "repeat themselves at the end"),
        (sanity.garbled, "hold characters that no text has"),
        (sanity.alike, "are word for word those to other prompts"),
        (sanity.leaked, "show marks of the chat template"),
    ]
    told = sorted((item for item in seen if item[0] > FEW * sanity.answers), key=lambda item: -item[0])
    notes = [f"{count} of {sanity.answers} answers {what}" for count, what in told]
    if notes and sanity.is_degenerate:
        notes[0] = f"degenerate text: {notes[0]}"
    strange = {name: count for name, count in sanity.finish_reasons.items() if name not in _KNOWN_REASONS}
    notes += [f"{count} of {sanity.answers} answers ended with the reason {name!r}" for name, count in strange.items()]
    return tuple(notes)


def is_repeated(text: str) -> bool:
    r"""True when the end of the text is one phrase of up to twelve words, or one character, over and over.

    >>> is_repeated("The answer is " + "no no no " * 40), is_repeated("x = 1\n" * 3)
    (True, False)
    """
    tail = text[-_TAIL_CHARACTERS:].rstrip()
    if len(tail) >= _LONGEST_RUN and len(set(tail[-_LONGEST_RUN:])) == 1:
        return True
    words = [found[0] for found in _WORD.finditer(tail)][-_LOOP_WORDS:]
    if len(words) < _LOOP_WORDS:
        return False
    return any(words[length:] == words[:-length] for length in range(1, _LONGEST_PHRASE + 1))


def has_leaked(content: str, reasoning: str) -> bool:
    """True when the content shows marks that only a template writes.

    Thinking marks are normal in a content that was not separated from its reasoning, so they count only beside a
    reasoning channel. Code that handles such marks quotes them; a mark behind a quote is not counted.
    """
    for found in _MARKER.finditer(content):
        if content[max(0, found.start() - 1) : found.start()] in {'"', "'", "`"}:
            continue
        if "think" not in found[0].lower() or reasoning:
            return True
    return False


def is_garbled(text: str) -> bool:
    """True when more than two in a hundred characters are none that a text has."""
    odd = sum(
        character == "\ufffd"
        or (unicodedata.category(character) in {"Cc", "Cn", "Cs", "Co"} and character not in "\n\r\t\f")
        for character in text[-_TAIL_CHARACTERS:]
    )
    return odd > max(1, _LEAST_GARBLED * min(len(text), _TAIL_CHARACTERS))
