"""Reads one output stream of a command to its end beside everything else, keeping no more than a limit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from autotune.deployment.host import OUTPUT_LIMIT_BYTES

_CHUNK_BYTES: Final = 2**16
_IDLE_S: Final = 1.0
_TICK_S: Final = 0.05


class DrainedStream:
    """A thread that reads a stream until it ends, so that its writer never waits for us.

    Args:
        read: returns the next bytes, at most as many as it is asked for; empty at the end. An ``OSError`` or
            ``ValueError`` is an end too: the stream was closed meanwhile.
        limit_bytes: most bytes kept; later ones are read and dropped.
    """

    def __init__(self, read: Callable[[int], bytes], *, limit_bytes: int = OUTPUT_LIMIT_BYTES) -> None:
        self._read = read
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
        """Whether something was dropped."""
        return self.seen_bytes > self._limit_bytes

    @property
    def has_ended(self) -> bool:
        """Whether the end of the stream was read."""
        return not self._thread.is_alive()

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end of the stream; return whether it has come."""
        self._thread.join(max(timeout_s, 0.0))
        return self.has_ended

    def _drain(self) -> None:
        while True:
            try:
                chunk = self._read(_CHUNK_BYTES)
            except (OSError, ValueError):
                return
            if not chunk:
                return
            self._kept += chunk[: max(self._limit_bytes - self.seen_bytes, 0)]
            self.seen_bytes += len(chunk)


def wait_for_rest(streams: Sequence[DrainedStream], until: float) -> None:
    """Wait for what a command that has ended wrote before, but not for a process it left behind with its streams.

    Args:
        streams: of the command.
        until: longest, on the monotonic clock.
    """
    seen, quiet_since = -1, time.monotonic()
    while not all(stream.has_ended for stream in streams):
        now = time.monotonic()
        total = sum(stream.seen_bytes for stream in streams)
        if total != seen:
            seen, quiet_since = total, now
        if now >= until or now - quiet_since >= _IDLE_S:
            return
        for stream in streams:
            stream.wait(_TICK_S)
