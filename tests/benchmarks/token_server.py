"""A fast server of deterministic token streams: what a load generator says can be compared with what was sent.

::

    python -m tests.benchmarks.token_server --port 8123 --rate 200 --tokens 128

Every answer is the same: the role, then ``--tokens`` chunks of one token each, one every ``1 / rate`` seconds from
``--first`` seconds after the request arrived, then finish reason, usage and the end mark. ``GET /truth`` tells what was
sent and when (readings of the machine's monotonic clock); ``POST /forget`` begins anew.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from dataclasses import dataclass, field
from typing import Any, cast

import httptools
import orjson
import uvloop

PROMPT_TOKENS = 100


@dataclass(slots=True)
class Truth:
    """What was sent since the last ``POST /forget``."""

    connections: int = 0
    requests: int = 0
    finished: int = 0
    chunks: int = 0
    in_flight: int = 0
    most_in_flight: int = 0
    first_at_s: float | None = None
    last_at_s: float | None = None
    late_s: list[float] = field(default_factory=list)
    asked_at_s: dict[str, float] = field(default_factory=dict)
    streams: dict[str, list[float]] = field(default_factory=dict)


def render_chunks(tokens: int) -> list[bytes]:
    """The pieces of an answer, each framed as one chunk of an HTTP/1.1 body: role, tokens, and the end in one."""

    def event(choices: list[dict[str, Any]], done: int) -> bytes:
        usage = {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": done, "total_tokens": PROMPT_TOKENS + done}
        value = {
            "id": "chatcmpl-8f2c1de04b7a4f6e",
            "object": "chat.completion.chunk",
            "created": 1_764_554_400,
            "model": "tokens",
            "choices": choices,
            "usage": usage,
        }
        return b"data: " + orjson.dumps(value) + b"\n\n"

    def choice(delta: dict[str, str], reason: str | None = None) -> list[dict[str, Any]]:
        return [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}]

    def frame(*events: bytes) -> bytes:
        return b"".join(b"%x\r\n%b\r\n" % (len(data), data) for data in events)

    role = event(choice({"role": "assistant", "content": ""}), 0)
    body = [frame(event(choice({"content": " the"}), count)) for count in range(1, tokens + 1)]
    end = frame(event(choice({}, "length"), tokens), event([], tokens), b"data: [DONE]\n\n") + b"0\r\n\r\n"
    return [frame(role), *body, end]


class TokenServer:
    """Answers chats in steps: every stream that has begun gets one chunk a step.

    Args:
        rate: chunks a second on each stream.
        tokens: chunks with text of an answer.
        first_s: from a request to its first token, and then to the next step.
    """

    def __init__(self, rate: float, tokens: int, first_s: float) -> None:
        self.truth = Truth()
        self.pieces = render_chunks(tokens)
        self._step_s = 1 / rate
        self._first_s = first_s
        self._streams: list[Connection] = []

    def begin(self, stream: Connection) -> None:
        """Answer a chat on a connection."""
        truth = self.truth
        truth.requests += 1
        truth.in_flight += 1
        truth.most_in_flight = max(truth.most_in_flight, truth.in_flight)
        truth.asked_at_s[stream.name] = time.perf_counter()
        truth.first_at_s = truth.first_at_s or truth.asked_at_s[stream.name]
        stream.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        stream.write(self.pieces[0])
        asyncio.get_running_loop().call_later(self._first_s, self._join, stream)

    def end(self, stream: Connection) -> None:
        """Forget a connection, in the middle of an answer or after it."""
        if stream in self._streams:
            self._streams.remove(stream)
        if stream.is_answering:
            stream.is_answering = False
            self.truth.in_flight -= 1

    async def run(self) -> None:
        """Take the steps, for ever."""
        due_s = time.perf_counter()
        while True:
            due_s = max(due_s + self._step_s, time.perf_counter() - self._step_s)
            await asyncio.sleep(due_s - time.perf_counter())
            if self._streams:
                self.truth.late_s.append(time.perf_counter() - due_s)
            for stream in list(self._streams):
                self._send(stream)

    def _join(self, stream: Connection) -> None:
        if stream.is_answering:
            self._streams.append(stream)

    def _send(self, stream: Connection) -> None:
        truth = self.truth
        stream.at += 1
        now_s = time.perf_counter()
        if stream.at < len(self.pieces) - 1:
            stream.write(self.pieces[stream.at])
            truth.chunks += 1
            truth.streams.setdefault(stream.name, []).append(now_s)
            if stream.at == len(self.pieces) - 2:  # the end does not wait for a step
                stream.write(self.pieces[-1])
                truth.last_at_s = now_s
                truth.finished += 1
                self.end(stream)


class Connection(asyncio.Protocol):
    """One connection of a client; requests follow one another."""

    def __init__(self, server: TokenServer) -> None:
        self._server = server
        self._parser = httptools.HttpRequestParser(self)
        self._body = bytearray()
        self._path = b""
        self._transport: asyncio.Transport | None = None
        self._has_chatted = False
        self.name = ""
        self.at = 0
        self.is_answering = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._server.end(self)
        self._transport = None

    def write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def on_url(self, url: bytes) -> None:
        self._path = url

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        body, self._body = bytes(self._body), bytearray()
        server = self._server
        self._parser = httptools.HttpRequestParser(self)
        if self._path.endswith(b"/chat/completions"):
            if not self._has_chatted:
                self._has_chatted = True
                server.truth.connections += 1
            request = orjson.loads(body)
            self.name = str(request.get("seed", f"#{server.truth.requests}"))
            self.at, self.is_answering = 0, True
            server.begin(self)
        elif self._path == b"/truth":
            self._answer(orjson.dumps(server.truth))
        elif self._path == b"/forget":
            server.truth = Truth()
            self._answer(b"{}")
        elif self._path.endswith(b"/models"):
            model = {"id": "tokens", "object": "model", "created": 1, "owned_by": "tests", "max_model_len": 32768}
            self._answer(orjson.dumps({"object": "list", "data": [model]}))
        elif self._path.endswith(b"/health"):
            self._answer(b"{}")
        else:
            self._answer(b'{"error": {"message": "not found"}}', b"404 Not Found")

    def _answer(self, body: bytes, status: bytes = b"200 OK") -> None:
        head = b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % (status, len(body))
        self.write(head + body)


async def serve(port: int, server: TokenServer) -> None:
    """Listen on the loopback, say so, and serve until cancelled."""
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(lambda: Connection(server), "127.0.0.1", port, backlog=256)
    print(listening.sockets[0].getsockname()[1], flush=True)
    await server.run()


def main() -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--first", type=float, default=0.05)
    arguments = parser.parse_args()
    server = TokenServer(arguments.rate, arguments.tokens, arguments.first)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(arguments.port, server))


if __name__ == "__main__":
    main()
