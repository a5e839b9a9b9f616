"""Ctrl-C, SIGTERM and SIGHUP end the study at a moment that leaves nothing half done."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LONGEST_ALARM_S = 10 * 86400.0


class Interrupted(KeyboardInterrupt):
    """Somebody asked the command to end. A KeyboardInterrupt, because event loops let only that through.

    Attributes:
        number: the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number

    @property
    def exit_code(self) -> int:
        """What a shell expects: 128 and the number of the signal."""
        return 128 + self.number


class OutOfTime(KeyboardInterrupt):
    """The moment has come at which the host must be restored. A KeyboardInterrupt for the same reason."""


class Interruption:
    """Turns the first signal into :class:`Interrupted`, where the loop allows it, and answers later ones in words.

    Use as a context manager on the main thread. Signals that were ignored before, as under ``nohup``, stay ignored.

    Attributes:
        received: the first signal; ``None`` while there was none.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._is_raised = False
        self._is_interruptible = False
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> Self:
        """Take over the signals."""
        for number in _SIGNALS:
            before = signal.getsignal(number)
            if before is not signal.SIG_IGN:
                self._before[number] = before
                signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the signals back."""
        for number, before in self._before.items():
            signal.signal(number, before)  # type: ignore[arg-type]  # what getsignal returned
        self._before.clear()

    @contextmanager
    def interruptible(self, within_s: float | None = None) -> Iterator[None]:
        """Let a signal end the block at once: it only waits, and leaves nothing half written.

        Args:
            within_s: time after which the block is ended as well; ``None`` for as long as it takes.

        Raises:
            Interrupted: a signal came, in the block or before it.
            OutOfTime: the time was over.
        """
        self.check()
        self._is_interruptible = True
        try:
            with self._alarm(within_s):
                yield
        finally:
            self._is_interruptible = False

    @contextmanager
    def _alarm(self, within_s: float | None) -> Iterator[None]:
        """Raise :class:`OutOfTime` in the block once the time is over."""
        if within_s is None:
            yield
            return
        if within_s <= 0:
            raise OutOfTime
        before = signal.signal(signal.SIGALRM, self._on_alarm)
        signal.setitimer(signal.ITIMER_REAL, min(within_s, _LONGEST_ALARM_S))
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def _on_alarm(self, _number: int, _frame: FrameType | None) -> None:
        if self._is_interruptible:
            raise OutOfTime

    def check(self) -> None:
        """Raise the first signal if it was not raised yet.

        Raises:
            Interrupted: a signal came.
        """
        if self.received is not None and not self._is_raised:
            self._is_raised = True
            raise Interrupted(self.received)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if self.received is not None:
            self._say("already ending, the server is being put back; kill -9 would leave that to the next command")
            return
        self.received = number
        self._say(f"{signal.Signals(number).name}: ending, the server will be put back as it was found")
        if self._is_interruptible:
            self.check()

    @staticmethod
    def _say(sentence: str) -> None:
        """Write past every buffer: a handler may run in the middle of another write."""
        try:
            os.write(2, f"\nautotune: {sentence}\n".encode())
        except OSError:
            return  # the terminal is gone, which is what SIGHUP says
