"""What does a server's log of drafts say? JSON lines from a profile boot, as texts with the drafts on their way. Pure.

A line belongs to one request, named by ``rid``. ``committed`` holds the tokens that it has committed since its line before;
the very first one was chosen by the prompt's own pass. ``tokens`` and ``logprobs`` hold the draft that follows them: a list
for each position, by rank, best first; ``position`` is that of the first drafted token, counted from the start of the
prompt. A line with ``window`` holds another draft at the same place, of a drafter that sees only so many context positions.
A line without a draft ends the request.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from autotune.errors import MeasurementError
from autotune.replay.chain_walk import DraftedText

_Draft = tuple[int, NDArray[np.int64], NDArray[np.float64]]
"""Place, tokens and log-probabilities ``[depths, ranks]``."""


@dataclass(slots=True)
class LoggedAnswer:
    """What was logged of one request.

    Attributes:
        text: committed tokens.
        prompt_tokens: length of its prompt; ``None`` until a draft was logged.
        drafts: in the order of the text, by window; those of the window that the server runs with are under ``None``.
    """

    text: list[int] = field(default_factory=list)
    prompt_tokens: int | None = None
    drafts: dict[int | None, list[_Draft]] = field(default_factory=dict)

    @property
    def longest_context(self) -> int:
        """Context positions before the last draft."""
        return (self.prompt_tokens or 0) + max((draft[0] for draft in self.drafts.get(None, ())), default=0)

    def with_window(self, window: int | None) -> DraftedText | None:
        """Return the text with the drafts of one window; ``None`` when the log does not hold all of them.

        Where the context is no longer than the window, the server's own draft is that of the window too.

        Args:
            window: of the drafter; ``None`` is what the server runs with.
        """
        own = self.drafts.get(None, [])
        drafts = own
        if window is not None:
            logged = {draft[0]: draft for draft in self.drafts.get(window, [])}
            prompt = self.prompt_tokens or 0
            chosen = [draft if prompt + draft[0] <= window else logged.get(draft[0]) for draft in own]
            drafts = [draft for draft in chosen if draft is not None]
        if not drafts or len(drafts) < len(own):
            return None
        places, tokens, logprobs = zip(*drafts, strict=True)
        return DraftedText(
            np.array(self.text, np.int64), np.array(places, np.int64), np.stack(tokens), np.stack(logprobs)
        )


def read_answers(lines: Iterable[bytes], where: str) -> tuple[LoggedAnswer, ...]:
    """Read what was logged of each request, in the order in which they began.

    Requests that ended with their prompt's own pass have no draft and are left out. A last line that was cut off is
    ignored.

    Args:
        lines: of the log, with their line ends.
        where: its name, for messages.

    Raises:
        MeasurementError: a line is not of this form, or drafts have different shapes.
    """
    answers: dict[str, LoggedAnswer] = {}
    shape: tuple[int, ...] | None = None
    for number, line in enumerate(lines, 1):
        if not line.endswith(b"\n"):
            break
        try:
            shape = _read_line(orjson.loads(line), answers, shape)
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
            raise MeasurementError(
                f"line {number} of the log of drafts cannot be read: {type(error).__name__}: {error}",
                where=where,
                hint="the server wrote something else than drafts there",
            ) from error
    return tuple(answer for answer in answers.values() if answer.drafts)


def _read_line(line: Any, answers: dict[str, LoggedAnswer], shape: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """Add one line to its answer; returns the shape that all drafts have.

    Raises:
        KeyError, TypeError, ValueError: it is not of the form.
    """
    answer = answers.setdefault(str(line["rid"]), LoggedAnswer())
    window = line.get("window")
    if window is None:
        answer.text += [int(token) for token in line["committed"]]
    if "tokens" not in line:
        return shape
    tokens = np.array(line["tokens"], np.int64)
    logprobs = np.array(line["logprobs"], np.float64)
    if tokens.ndim != 2 or tokens.shape != logprobs.shape or shape not in (None, tokens.shape):
        raise ValueError(f"a draft of the shape {tokens.shape} with log-probabilities of the shape {logprobs.shape}")
    if not np.isfinite(logprobs).all() or (logprobs > 0).any():
        raise ValueError("a log-probability that is none")
    place = len(answer.text) - 1
    prompt_tokens = int(line["position"]) - len(answer.text)
    if place < 0 or prompt_tokens < 1 or answer.prompt_tokens not in (None, prompt_tokens):
        raise ValueError(f"a draft for position {line['position']} after {len(answer.text)} tokens")
    answer.prompt_tokens = prompt_tokens
    answer.drafts.setdefault(None if window is None else int(window), []).append((place, tokens, logprobs))
    return tokens.shape
