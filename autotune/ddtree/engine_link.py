"""The HTTP process's end of the engine process: starting it, talking to it, noticing its death."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, cast

from autotune.ddtree import wire
from autotune.ddtree.flags import ServerFlags
from autotune.ddtree.request import EngineStats, GenerationRequest, TokenDelta


class EngineDied(Exception):
    """The engine process has ended; nothing can be generated any more."""


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """What the engine says of itself once it is loaded.

    Attributes:
        pid: its process.
        context_length: longest prompt plus answer in tokens.
        eos_token_id: the end token.
        vocabulary: number of tokens.
        max_total_tokens: context tokens that the cache holds.
        weight_gib: memory of the weights.
        cache_gib: memory of the cache.
        threads: threads it computes with.
    """

    pid: int
    context_length: int
    eos_token_id: int
    vocabulary: int
    max_total_tokens: int
    weight_gib: float
    cache_gib: float
    threads: int


@dataclass(frozen=True, slots=True)
class EngineState:
    """One answer of the engine about its load.

    Attributes:
        stats: counters since the last flush.
        throughput_tokens_per_s: over the last log interval; ``None`` before the first.
        accept_length: tokens per verify since the last flush, as of the last log line; ``None`` before it.
    """

    stats: EngineStats
    throughput_tokens_per_s: float | None
    accept_length: float | None


def spawn_engine(flags: ServerFlags) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start the engine process and return it with our end of its socket.

    Only the standard library is needed, so that torch starts loading at once. The main thread must call this: the engine asks the kernel to be killed when the thread that started it ends.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        environment = {"OMP_WAIT_POLICY": "PASSIVE", **os.environ}
        process = subprocess.Popen(
            [sys.executable, "-m", "autotune.ddtree.engine_process", str(theirs.fileno()), str(os.getpid())],
            pass_fds=(theirs.fileno(),),
            stdin=subprocess.DEVNULL,
            env=environment,
        )
    ours.sendall(wire.render_frame(wire.START, asdict(flags)))
    return process, ours


class EngineLink(asyncio.Protocol):
    """The connection to a started engine process.

    Attributes:
        ready: done when the engine is loaded; fails with :class:`EngineDied`.
        died: done when the connection ended.
        on_deltas: called with what each step produced.
        on_rejected: called with the id and the reason of a request that the engine can never serve.
    """

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[EngineInfo] = loop.create_future()
        self.died: asyncio.Future[None] = loop.create_future()
        self.on_deltas: Callable[[list[TokenDelta]], None] = _ignore
        self.on_rejected: Callable[[str, str], None] = _ignore
        self._reader = wire.FrameReader()
        self._transport: asyncio.WriteTransport | None = None
        self._tickets = itertools.count()
        self._questions: dict[int, asyncio.Future[Any]] = {}

    @classmethod
    async def connect(cls, sock: socket.socket) -> EngineLink:
        """Attach to our end of the engine's socket."""
        _, link = await asyncio.get_running_loop().create_connection(cls, sock=sock)
        return link

    def generate(self, request: GenerationRequest) -> None:
        """Pass a request on."""
        self._send(wire.GENERATE, wire.pack_request(request))

    def abort(self, request_id: str) -> None:
        """Drop a request."""
        self._send(wire.ABORT, request_id)

    async def fetch_state(self) -> EngineState:
        """Ask for load and counters.

        Raises:
            EngineDied: the engine has ended.
        """
        stats, throughput, accept_length = await self._ask(wire.STATE)
        return EngineState(wire.unpack_stats(stats), throughput, accept_length)

    async def flush(self) -> bool:
        """Set the counters to zero; False when requests run or wait.

        Raises:
            EngineDied: the engine has ended.
        """
        (flushed,) = await self._ask(wire.FLUSH)
        return bool(flushed)

    def close(self) -> None:
        """End the connection, which ends the engine process."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where to write."""
        # uvloop's transports are of no asyncio class.
        self._transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
        """Act on the messages that these bytes complete."""
        for name, *fields in self._reader.feed(data):
            if name == wire.DELTAS:
                self.on_deltas(wire.unpack_deltas(fields[0]))
            elif name == wire.ANSWER:
                ticket, *values = fields
                question = self._questions.pop(ticket)
                if not question.done():
                    question.set_result(values)
            elif name == wire.REJECTED:
                self.on_rejected(*fields)
            elif name == wire.READY and not self.ready.done():
                self.ready.set_result(EngineInfo(**fields[0]))

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Tell everybody who waits that the engine is gone."""
        death = EngineDied("the engine process has ended")
        for question in [self.ready, *self._questions.values()]:
            if not question.done():
                question.set_exception(death)
                question.exception()
        if not self.died.done():
            self.died.set_result(None)

    async def _ask(self, name: str) -> Any:
        if self.died.done():
            raise EngineDied("the engine process has ended")
        ticket = next(self._tickets)
        question = self._questions[ticket] = asyncio.get_running_loop().create_future()
        self._send(name, ticket)
        return await question

    def _send(self, *message: Any) -> None:
        if self._transport is not None and not self.died.done():
            self._transport.write(wire.render_frame(*message))


def _ignore(*_: object) -> None:
    """Drop what nobody waits for."""


def describe_exit(process: subprocess.Popen[bytes], patience_s: float) -> str:
    """Say how the engine process ended, killing it when it is still there after ``patience_s``."""
    try:
        code = process.wait(patience_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return f"Engine process {process.pid} closed its connection and hung: killed."
    if code < 0:
        return f"Engine process {process.pid} was killed by {signal.Signals(-code).name}."
    return f"Engine process {process.pid} exited with code {code}."
