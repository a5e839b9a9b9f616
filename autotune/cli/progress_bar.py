"""How is a bar with the time left drawn at the bottom of a terminal? For commands that take minutes."""

from __future__ import annotations

import contextlib
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn


class ProgressBar:
    """A bar that is redrawn and gone in the end; use as a context manager. A terminal that is lost ends nothing.

    Args:
        description: what stands before the bar at first.
        console: where it is drawn; standard error by default.
    """

    def __init__(self, description: str = "", console: Console | None = None) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[left]}"),
            console=console or Console(stderr=True, markup=False, emoji=False, highlight=False),
            transient=True,
        )
        self._task = self._progress.add_task(description, total=1.0, left="")

    def __enter__(self) -> Self:
        """Begin to draw."""
        with contextlib.suppress(OSError):
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the bar away."""
        with contextlib.suppress(OSError):
            self._progress.stop()

    def show(self, share: float, description: str, left: str) -> None:
        """Say how much is done; it is drawn some times a second, in no time of the caller's.

        Args:
            share: 0 to 1.
            description: what is done.
            left: how long it will take; empty while nobody knows.
        """
        self._progress.update(self._task, completed=share, description=description, left=left)

    def draw(self) -> None:
        """Draw it now, for what may be replaced before its turn comes."""
        with contextlib.suppress(OSError):
            self._progress.refresh()
