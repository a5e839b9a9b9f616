"""A small real HTTP server whose chat answers are scripts: lists of (pause, bytes of the event stream)."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

Script = list[tuple[float, bytes]]
Answer = Callable[["Scripts", dict[str, Any]], Script]


def event(value: Any) -> bytes:
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"


def content(text: str, completion_tokens: int | None = None, prompt_tokens: int = 9) -> bytes:
    chunk: dict[str, Any] = {"choices": [{"index": 0, "delta": {"content": text}}]}
    if completion_tokens is not None:
        chunk["usage"] = {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens}
    return event(chunk)


ROLE = event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})
STOP = event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
DONE = b"data: [DONE]\n\n"


def usage(completion_tokens: int, prompt_tokens: int = 9, cached_tokens: int | None = None) -> bytes:
    counts: dict[str, Any] = {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens}
    if cached_tokens is not None:
        counts["prompt_tokens_details"] = {"cached_tokens": cached_tokens}
    return event({"choices": [], "usage": counts})


def steady(tokens: int, per_chunk: int, gap_s: float, *, first_s: float = 0.0) -> Script:
    """Role, one token, then chunks of ``per_chunk`` tokens every ``gap_s``."""
    script = [(0.0, ROLE), (first_s, content("x", 1))]
    count = 1
    while count < tokens:
        step = min(per_chunk, tokens - count)
        count += step
        script.append((gap_s, content("y" * step, count)))
    return [*script, (0.0, STOP + usage(tokens) + DONE)]


@dataclass
class Scripts:
    """What the server does and what it saw; tests read and change it freely."""

    answer: Answer
    answer_native: Answer | None = None
    status: int = 200
    content_type: str = "text/event-stream"
    offers_flush: bool = True
    flush_statuses: list[int] = field(default_factory=list)
    metrics: Callable[[Scripts], str] | None = None
    server_info: dict[str, Any] | None = None
    byte_at_a_time: bool = False
    refusal: str = "scripted refusal"
    refuses: Callable[[dict[str, Any]], str | None] = lambda _request: None
    """Says why a request gets 400."""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    seen_prompts: set[str] = field(default_factory=set)
    flushes: int = 0
    generated_tokens: int = 0
    verify_calls: int = 0
    in_flight: int = 0
    most_in_flight: int = 0
    connections: int = 0
    url: str = ""
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    loop: asyncio.AbstractEventLoop | None = None

    def hang_up(self) -> None:
        """Close every connection; called from the test's thread."""
        for writer in self.writers:
            if self.loop is not None:
                self.loop.call_soon_threadsafe(writer.transport.abort)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers.append(writer)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                lengths = [line for line in head.lower().split("\r\n") if line.startswith("content-length:")]
                body = await reader.readexactly(int(lengths[0].split(":")[1])) if lengths else b""
                path = head.split(" ")[1]
                if path == "/v1/chat/completions":
                    fields = (line.partition(":") for line in head.split("\r\n")[1:] if line)
                    self.headers.append({name.lower(): value.strip() for name, _, value in fields})
                if not await self._reply(path, body, writer):
                    break
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the client is done, or the test is
        finally:
            writer.close()

    async def _reply(self, path: str, body: bytes, writer: asyncio.StreamWriter) -> bool:
        if path == "/v1/chat/completions":
            return await self._chat(json.loads(body), writer, self.answer)
        if path == "/generate" and self.answer_native is not None:
            return await self._chat(json.loads(body), writer, self.answer_native)
        if path == "/v1/models":
            return await _whole(writer, 200, json.dumps({"data": [{"id": "scripted"}]}))
        if path == "/flush_cache" and self.offers_flush:
            self.flushes += 1
            if self.flush_statuses and self.flush_statuses[0] != 200:
                return await _whole(writer, self.flush_statuses.pop(0), "not flushed")
            self.seen_prompts.clear()
            return await _whole(writer, 200, "Cache flushed.")
        if path == "/metrics" and self.metrics is not None:
            return await _whole(writer, 200, self.metrics(self))
        if path == "/server_info" and self.server_info is not None:
            return await _whole(writer, 200, json.dumps(self.server_info))
        return await _whole(writer, 404, "not found")

    async def _chat(self, request: dict[str, Any], writer: asyncio.StreamWriter, answer: Answer) -> bool:
        self.bodies.append(request)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            if (why := self.refuses(request)) is not None:
                return await _whole(writer, 400, json.dumps({"error": {"message": why}}))
            if self.status != 200:
                return await _whole(writer, self.status, json.dumps({"error": {"message": self.refusal}}))
            script = answer(self, request)
            head = f"HTTP/1.1 200 OK\r\ncontent-type: {self.content_type}\r\ntransfer-encoding: chunked\r\n\r\n"
            writer.write(head.encode())
            for pause_s, data in script:
                if pause_s:
                    await asyncio.sleep(pause_s)
                if data == b"HANG UP":
                    writer.transport.abort()
                    return False
                pieces = [data[i : i + 1] for i in range(len(data))] if self.byte_at_a_time else [data]
                for piece in pieces:
                    writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                    if self.byte_at_a_time:
                        await writer.drain()
                await writer.drain()
            writer.write(b"0\r\n\r\n")
            await writer.drain()
            return True
        finally:
            self.in_flight -= 1


async def _whole(writer: asyncio.StreamWriter, status: int, text: str) -> bool:
    data = text.encode()
    writer.write(b"HTTP/1.1 %d X\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % (status, len(data)))
    writer.write(data)
    await writer.drain()
    return True


@contextmanager
def running(scripts: Scripts) -> Iterator[Scripts]:
    """Serve on a free port of the loopback in a thread of its own."""
    ready = threading.Event()
    loop = asyncio.new_event_loop()
    stop: asyncio.Event = asyncio.Event()
    scripts.loop = loop

    async def main() -> None:
        server = await asyncio.start_server(scripts.serve, "127.0.0.1", 0)
        scripts.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        ready.set()
        await stop.wait()
        server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks)

    def run() -> None:
        work: Awaitable[None] = main()
        try:
            loop.run_until_complete(work)
        finally:
            loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    ready.wait(10)
    try:
        yield scripts
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)


def closed_port() -> int:
    """A port of the loopback on which nobody listens."""
    import socket  # noqa: PLC0415

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
