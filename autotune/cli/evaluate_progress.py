"""What is shown while things of one kind are done, answers, verdicts or nights: a bar with the time left, else a line at times."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console

from autotune.cli import render
from autotune.cli.progress_bar import ProgressBar
from autotune.export.wording import render_duration

_SOON_S = 2.0
_BETWEEN_LINES_S = 30.0


class EvaluateProgress:
    """Shows an evaluation, or a campaign of nights, as it goes on; use as a context manager.

    Args:
        first: what the bar says before anything is done.
        is_live: a bar that is redrawn, or a line every half minute and at the end of each part.
        console: where the bar is drawn.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        first: str = "asking",
        *,
        is_live: bool,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._began_s = self._said_s = clock()
        self._part = ""
        self._bar = ProgressBar(first, console) if is_live else None

    def __enter__(self) -> Self:
        """Begin to draw."""
        if self._bar is not None:
            self._bar.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.__exit__(kind, error, trace)

    def take(self, part: str, done: int, of: int) -> None:
        """Take note of an answer, a verdict or a night.

        Args:
            part: ``answers``, ``verdicts`` or ``nights``.
            done: how many there are.
            of: how many there will be.
        """
        now_s = self._clock()
        if part != self._part:
            self._part, self._began_s = part, now_s if part == "verdicts" else self._began_s
        elapsed_s = now_s - self._began_s
        left = ""
        if elapsed_s >= _SOON_S and 0 < done < of:
            left = f"about {render_duration(elapsed_s * (of - done) / done)} left"
        if self._bar is not None:
            self._bar.show(done / of, f"{done} of {of} {part}", left)
            self._bar.draw()
        elif done == of or now_s - self._said_s >= _BETWEEN_LINES_S:
            self._said_s = now_s
            with contextlib.suppress(OSError):  # a reader that went away ends no evaluation
                render.say(f"{done} of {of} {part}" + (f"; {left}" if left else ""))
