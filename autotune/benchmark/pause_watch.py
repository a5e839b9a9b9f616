"""Was the load generator at work all the time? What arrives while it is stopped, or its machine sleeps, has no time."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Final, Self

from autotune.errors import MeasurementPaused

_SHORTEST_SLEEP_S: Final = 1.0
"""Longer than a busy machine may take between reading two clocks, shorter than any sleep."""


def read_asleep_s() -> float:
    """Return the seconds that this machine has slept since it was started."""
    awake_s = time.clock_gettime(time.CLOCK_MONOTONIC)
    return time.clock_gettime(time.CLOCK_BOOTTIME) - awake_s


class PauseWatch:
    """Notices when this process was stopped (Ctrl-Z, SIGSTOP) and continued, or its machine slept, within a block.

    Args:
        asleep_s: seconds that the machine has slept so far.
    """

    def __init__(self, asleep_s: Callable[[], float] = read_asleep_s) -> None:
        self._asleep_s = asleep_s
        self._before_s = 0.0
        self._was_stopped = False
        self._handler: object = None

    def __enter__(self) -> Self:
        """Begin to watch; stops are seen on the main thread only."""
        self._before_s = self._asleep_s()
        if threading.current_thread() is threading.main_thread():
            self._handler = signal.signal(signal.SIGCONT, self._on_continue)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End watching."""
        if self._handler is not None:
            signal.signal(signal.SIGCONT, self._handler)  # type: ignore[arg-type]  # what signal.signal returned

    def check(self, what: str) -> None:
        """See whether there was a pause.

        Args:
            what: was measured in the block.

        Raises:
            MeasurementPaused: there was.
        """
        slept_s = self._asleep_s() - self._before_s
        if slept_s >= _SHORTEST_SLEEP_S:
            why = f"this machine slept for {slept_s:.0f} s"
        elif self._was_stopped:
            why = "this process was stopped and continued"
        else:
            return
        raise MeasurementPaused(f"{why} meanwhile", where=what, hint="keep the machine awake and the command running")

    def _on_continue(self, _number: int, _frame: FrameType | None) -> None:
        self._was_stopped = True
