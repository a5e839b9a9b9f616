"""The life of a server once its engine process is started: listen, warm up, serve, drain."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import uvicorn
import uvloop

from autotune.ddtree.engine_link import EngineDied, EngineInfo, EngineLink, describe_exit
from autotune.ddtree.flags import ServerFlags
from autotune.ddtree.generation import GenerationTable
from autotune.ddtree.http_app import HttpApp, Lifecycle, Phase
from autotune.ddtree.metrics_text import ServerMetrics
from autotune.ddtree.model_sizes import TOKENIZER_FILE
from autotune.ddtree.native_protocol import NativeProtocol
from autotune.ddtree.openai_protocol import OpenAIProtocol
from autotune.ddtree.prompt import Prompter
from autotune.ddtree.request import GenerationRequest
from autotune.ddtree.sampling_fields import SamplingDefaults

WARMUP_TIMEOUT_S: Final = 600.0
_WARMUP_TOKENS: Final = 8
_ENGINE_PATIENCE_S: Final = 5.0

logger = logging.getLogger(__name__)


def serve(
    flags: ServerFlags, sock: socket.socket, process: subprocess.Popen[bytes], engine_socket: socket.socket
) -> int:
    """Serve until told to stop.

    Args:
        flags: effective flags.
        sock: bound, not yet listening.
        process: the engine process.
        engine_socket: our end of its connection.

    Returns:
        The exit code: 0 after a stop by signal, 1 when the engine or the start-up failed.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_Server(flags, sock, process).run(engine_socket))


class _Uvicorn(uvicorn.Server):
    """Uvicorn that leaves signals to us and tells when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the handlers alone."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, then say so."""
        await super().startup(sockets)
        self.listening.set()


class _Server:
    """Drives one server process through its phases.

    Args:
        flags: effective flags.
        sock: bound, not yet listening.
        process: the engine process.
    """

    def __init__(self, flags: ServerFlags, sock: socket.socket, process: subprocess.Popen[bytes]) -> None:
        self._flags = flags
        self._sock = sock
        self._process = process
        self._lifecycle = Lifecycle()

    async def run(self, engine_socket: socket.socket) -> int:
        """Return the exit code."""
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number, stop)
        link = await EngineLink.connect(engine_socket)
        stopping = asyncio.create_task(stop.wait())
        try:
            code = await self._load_and_serve(link, stopping)
        except EngineDied:
            code = 1
        finally:
            stopping.cancel()
            has_died = link.died.done()
            link.close()
        # While it loads, the engine does not see that its connection ended.
        patience_s = _ENGINE_PATIENCE_S if link.ready.done() else 0.0
        ending = await asyncio.to_thread(describe_exit, self._process, patience_s)
        if has_died:
            logger.error(ending)
            logger.error("Received sigquit from a child process. It usually means the child failed.")
        if code:
            _end_now(code)
        return code

    async def _load_and_serve(self, link: EngineLink, stopping: asyncio.Task[bool]) -> int:
        waits: list[asyncio.Future[Any]] = [link.ready, stopping]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        if not link.ready.done():
            return 0
        return await self._serve(link, link.ready.result(), stopping)

    async def _serve(self, link: EngineLink, info: EngineInfo, stopping: asyncio.Task[bool]) -> int:
        flags = self._flags
        prompter = Prompter.load(Path(flags.model_path) / TOKENIZER_FILE, info.vocabulary, info.context_length)
        defaults = SamplingDefaults.load(Path(flags.model_path))
        block = flags.speculative_num_draft_tokens
        metrics = ServerMetrics(flags.served_model_name) if flags.enable_metrics else None
        table = GenerationTable(link.generate, link.abort, prompter.table, info.eos_token_id, time.monotonic, metrics)
        link.on_deltas, link.on_rejected = table.deliver, table.reject
        app = HttpApp(
            flags=flags,
            info=info,
            link=link,
            table=table,
            native=NativeProtocol(prompter, defaults, block, time.monotonic),
            openai=OpenAIProtocol(prompter, defaults, block, flags.served_model_name, time.monotonic, time.time),
            metrics=metrics,
            lifecycle=self._lifecycle,
            created=int(time.time()),
        )
        config = uvicorn.Config(
            app.build(),
            http="httptools",
            ws="none",
            lifespan="off",
            log_level="info",
            timeout_keep_alive=75,
            timeout_graceful_shutdown=15,
        )
        server = _Uvicorn(config)
        serving = asyncio.create_task(server.serve(sockets=[self._sock]))
        ending: list[asyncio.Future[Any]] = [stopping, link.died, serving]
        listening = asyncio.create_task(server.listening.wait())
        await asyncio.wait([*ending, listening], return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            return _report_listen_failure(serving)
        address, port = self._sock.getsockname()[:2]
        logger.info("Uvicorn running on http://%s:%d (Press CTRL+C to quit)", address, port)
        starting = asyncio.create_task(self._warm_up(table, prompter))
        await asyncio.wait([*ending, starting], return_when=asyncio.FIRST_COMPLETED)
        if starting.done() and not starting.result():
            return 1
        if starting.done() and not stopping.done():
            self._lifecycle.phase = Phase.UP
            logger.info("The server is fired up and ready to roll!")
        await asyncio.wait(ending, return_when=asyncio.FIRST_COMPLETED)
        if link.died.done() or serving.done():
            return 1
        starting.cancel()
        return await self._drain(link, table, server, serving)

    async def _warm_up(self, table: GenerationTable, prompter: Prompter) -> bool:
        """Generate once, unless told not to; False when that failed."""
        if self._flags.skip_server_warmup:
            return True
        prompt = tuple(
            prompter.encode_messages([{"role": "user", "content": "Write a function that adds two numbers."}])
        )
        room = prompter.check_room(len(prompt), None)
        request = GenerationRequest("WARMUP", prompt, min(_WARMUP_TOKENS, room), ignore_eos=True)
        generation = table.submit(request, probe=True)
        try:
            await asyncio.wait_for(generation.wait_for_end(), WARMUP_TIMEOUT_S)
        except TimeoutError:
            logger.critical("Initialization failed. warmup error: no answer within %.0f s", WARMUP_TIMEOUT_S)
            return False
        if generation.finish is None or generation.finish.kind != "length":
            logger.error("Initialization failed. warmup error: %s", generation.finish)
            return False
        return True

    async def _drain(
        self, link: EngineLink, table: GenerationTable, server: _Uvicorn, serving: asyncio.Task[None]
    ) -> int:
        """Let the running requests finish, then stop listening."""
        self._lifecycle.phase = Phase.DRAINING
        logger.info("Gracefully exiting: %d requests are still running.", len(table))
        idle = asyncio.create_task(table.wait_until_idle())
        await asyncio.wait([idle, link.died], return_when=asyncio.FIRST_COMPLETED)
        if not idle.done():
            return 1
        server.should_exit = True
        await serving
        return 0

    def _on_signal(self, number: int, stop: asyncio.Event) -> None:
        """Drain at the first signal, end at once at the second."""
        logger.info("%s received.", signal.Signals(number).name)
        if stop.is_set():
            _end_now(128 + number)
        stop.set()


def _report_listen_failure(serving: asyncio.Task[None]) -> int:
    error = serving.exception()
    logger.error("The server cannot listen: %s", error or "it stopped by itself")
    return 1


def _end_now(code: int) -> None:
    """End without waiting for connections: a stream that was cut off must not look complete."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
