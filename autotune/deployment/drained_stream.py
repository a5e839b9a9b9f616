"""Reads one output stream of a command to its end beside everything else, keeping no more than a limit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import IO, Final

from autotune.deployment.host import OUTPUT_LIMIT_BYTES

_CHUNK_BYTES: Final = 2**16
_LOOK_S: Final = 0.05
_QUIET_LOOKS: Final = 16
_CONFIRMED_LOOKS: Final = 4


class DrainedStream:
    """A thread that reads a stream until it ends, so that its writer never waits for us.

    Args:
        read: returns the next bytes, at most as many as it is asked for; empty at the end. An ``OSError`` or
            ``ValueError`` is an end too, but what came is not the whole.
        limit_bytes: most bytes kept; later ones are read and dropped.
        close: called by the thread when it reads no more.
    """

    def __init__(
        self,
        read: Callable[[int], bytes],
        *,
        limit_bytes: int = OUTPUT_LIMIT_BYTES,
        close: Callable[[], object] = lambda: None,
    ) -> None:
        self._read = read
        self._close = close
        self._has_failed = False
        self._limit_bytes = limit_bytes
        self._kept = bytearray()
        self.seen_bytes = 0
        self._thread = threading.Thread(target=self._drain, name="drained-stream", daemon=True)
        self._thread.start()

    @property
    def data(self) -> bytes:
        """What was kept so far."""
        return bytes(self._kept)

    @property
    def is_truncated(self) -> bool:
        """Whether something was dropped, or could not be read."""
        return self._has_failed or self.seen_bytes > self._limit_bytes

    @property
    def has_ended(self) -> bool:
        """Whether the end of the stream was read."""
        return not self._thread.is_alive()

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end of the stream; return whether it has come."""
        self._thread.join(max(timeout_s, 0.0))
        return self.has_ended

    def _drain(self) -> None:
        try:
            self._read_all()
        finally:
            self._close()

    def _read_all(self) -> None:
        while True:
            try:
                chunk = self._read(_CHUNK_BYTES)
            except (OSError, ValueError):
                self._has_failed = True
                return
            if not chunk:
                return
            self._kept += chunk[: max(self._limit_bytes - self.seen_bytes, 0)]
            self.seen_bytes += len(chunk)


def drain_pipe(pipe: IO[bytes] | None, *, limit_bytes: int = OUTPUT_LIMIT_BYTES) -> DrainedStream:
    """Read the pipe of a child process beside us, and close it at its end.

    Nobody else may close it: the reader might be about to read, and the number of its descriptor belong to the next
    child's pipe by then.

    Args:
        pipe: unbuffered; ``None`` for one that was not asked for, which is empty.
        limit_bytes: as for the stream.
    """
    if pipe is None:
        return DrainedStream(lambda _: b"")
    return DrainedStream(pipe.read, limit_bytes=limit_bytes, close=pipe.close)


def wait_for_rest(streams: Sequence[DrainedStream], until: float, confirm: Callable[[], object] = lambda: None) -> bool:
    """Wait for what a command that has ended wrote before, but not for a process it left behind with its streams.

    Without an end of the streams, silence means that all has come. It is counted in looks, not in seconds, so that a
    machine that was suspended or busy does not take its own pause for it.

    Args:
        streams: of the command.
        until: longest, on the monotonic clock.
        confirm: called after a silence; returns when everything that was under way by then has arrived. New bytes
            after it are waited for again.

    Returns:
        False when the time was over before.
    """
    seen, quiet_looks = -1, 0
    is_confirmed = False
    while not all(stream.has_ended for stream in streams):
        if time.monotonic() >= until:
            return False
        total = sum(stream.seen_bytes for stream in streams)
        if total != seen:
            seen, quiet_looks, is_confirmed = total, 0, False
        quiet_looks += 1
        if quiet_looks > _QUIET_LOOKS:
            if is_confirmed:
                return True
            confirm()
            is_confirmed, quiet_looks = True, _QUIET_LOOKS - _CONFIRMED_LOOKS
        _wait_for_any(streams)
    return True


def _wait_for_any(streams: Sequence[DrainedStream]) -> None:
    """Let one look's time pass, or less when a stream ends."""
    open_ones = [stream for stream in streams if not stream.has_ended]
    if open_ones:
        open_ones[0].wait(_LOOK_S)
