"""The engine process: loads the model, decodes what the HTTP process asks for, dies with it.

Started by :func:`autotune.ddtree.engine_link.spawn_engine` with the number of a connected socket and the parent's pid.
"""

from __future__ import annotations

import ctypes
import logging
import os
import select
import signal
import socket
import sys
import time
import traceback
from typing import Any, Final

from autotune.ddtree import wire
from autotune.ddtree.decode_log import DecodeLog
from autotune.ddtree.server_log import configure_logging

_PR_SET_PDEATHSIG: Final = 1
_READ_BYTES: Final = 1 << 20

logger = logging.getLogger(__name__)


def main() -> int:
    """Run the process; the exit code is 0 only when the parent closed the connection."""
    sock = socket.socket(fileno=int(sys.argv[1]))
    _die_with(int(sys.argv[2]))
    # A signal to the whole process group is the parent's to handle: it drains and then closes the connection.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    configure_logging()
    try:
        EngineProcess(sock).run()
    except Exception:  # noqa: BLE001 - the last line of the process: the log is how anybody learns of it
        # The traceback inside the message is the form that readers of SGLang's log know.
        logger.error("Scheduler hit an exception: %s", traceback.format_exc())  # noqa: TRY400
        return 1
    return 0


def _die_with(parent: int) -> None:
    """Ask the kernel for SIGKILL when the parent dies, and leave at once if it already has."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)


class EngineProcess:
    """The loop between one connection and one engine.

    Args:
        sock: connected to the HTTP process.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._reader = wire.FrameReader()
        self._inbox: list[list[Any]] = []
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)
        self._unstarted: set[str] = set()

    def run(self) -> None:
        """Load and decode until the connection ends."""
        if not self._read(block=True):
            return
        (_, flags), *self._inbox = self._inbox
        # Imported here: torch takes seconds, and the parent's signals must be ignored before.
        from autotune.ddtree.engine import RequestRejected  # noqa: PLC0415
        from autotune.ddtree.loaded_engine import load_engine  # noqa: PLC0415

        self._rejection = RequestRejected
        loaded = load_engine(flags)
        self._engine = loaded.engine
        block = flags["speculative_num_draft_tokens"] if flags["speculative_algorithm"] else None
        self._log = DecodeLog(flags["decode_log_interval"], block, time.monotonic())
        self._send(wire.READY, {"pid": os.getpid(), **loaded.info})
        try:
            while self._read(block=not self._engine.has_work()):
                for message in self._inbox:
                    self._handle(*message)
                self._inbox = []
                if self._engine.has_work():
                    self._step()
        finally:
            self._engine.close()

    def _read(self, *, block: bool) -> bool:
        """Read what has arrived, waiting for a message if ``block``; False when the connection has ended."""
        while True:
            if self._poll.poll(None if block else 0):
                data = self._sock.recv(_READ_BYTES)
                if not data:
                    return False
                self._inbox += self._reader.feed(data)
            if self._inbox or not block:
                return True

    def _handle(self, name: str, *fields: Any) -> None:
        if name == wire.GENERATE:
            request = wire.unpack_request(fields[0])
            try:
                self._engine.submit(request)
            except self._rejection as error:
                self._send(wire.REJECTED, request.request_id, str(error))
            else:
                self._unstarted.add(request.request_id)
        elif name == wire.ABORT:
            self._engine.abort(fields[0])
            self._unstarted.discard(fields[0])
        elif name == wire.STATE:
            stats = wire.pack_stats(self._engine.stats())
            self._send(wire.ANSWER, fields[0], stats, self._log.throughput_tokens_per_s, self._log.accept_length)
        elif name == wire.FLUSH:
            self._send(wire.ANSWER, fields[0], self._flush())

    def _flush(self) -> bool:
        """Set the counters to zero unless requests run or wait."""
        stats = self._engine.stats()
        if stats.running or stats.queued:
            return False
        self._engine.reset_counters()
        self._log.reset(self._engine.stats())
        logger.info("Cache flushed successfully!")
        return True

    def _step(self) -> None:
        deltas = self._engine.step()
        if deltas:
            self._send(wire.DELTAS, wire.pack_deltas(deltas))
        stats, now_s = self._engine.stats(), time.monotonic()
        if self._unstarted:
            started = self._unstarted.intersection(delta.request_id for delta in deltas)
            self._unstarted -= started
            if line := self._log.render_prefill(stats, len(started), now_s):
                logger.info(line)
        batch = len({delta.request_id for delta in deltas if delta.finish_reason != "abort"})
        if line := self._log.render_decode(stats, batch, now_s):
            logger.info(line)

    def _send(self, *message: Any) -> None:
        self._sock.sendall(wire.render_frame(*message))


if __name__ == "__main__":
    sys.exit(main())
