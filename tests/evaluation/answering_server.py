"""A server that gives prepared answers over the chat endpoint, and remembers what it was asked."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_UNHURRIED = 4
"""Events of an answer in one piece: its text, its end, its usage and the end mark."""


@dataclass(frozen=True)
class Answer:
    """One prepared answer; a status other than 200 is an error, a body without an end a broken stream."""

    content: str = ""
    reasoning: str = ""
    finish_reason: str = "stop"
    tokens: int = 10
    status: int = 200
    is_whole: bool = True
    pieces: int = 1

    def render(self) -> list[bytes]:
        """The events, each to be sent by itself; several pieces of text say how many tokens they end at."""
        size = -(-len(self.content) // self.pieces) or 1
        events: list[Any] = []
        for index in range(self.pieces):
            content = self.content[index * size : (index + 1) * size]
            delta = {"role": "assistant", "content": content, "reasoning_content": self.reasoning}
            event: dict[str, Any] = {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
            if self.pieces > 1:
                tokens = self.tokens * (index + 1) // self.pieces
                event["usage"] = {"prompt_tokens": 7, "completion_tokens": tokens, "total_tokens": tokens + 7}
            events.append(event)
        if self.is_whole:
            usage = {"prompt_tokens": 7, "completion_tokens": self.tokens, "total_tokens": self.tokens + 7}
            events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": self.finish_reason}]})
            events.append({"choices": [], "usage": usage})
        return [
            *(f"data: {json.dumps(event)}\n\n".encode() for event in events),
            b"data: [DONE]\n\n" if self.is_whole else b"",
        ]


@dataclass
class AnsweringServer:
    """What was asked, and how much at once."""

    url: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list)
    most_at_once: int = 0
    at_once: int = 0
    generated: int = 0
    accept_length: float | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)
    together: threading.Barrier | None = None

    def metrics(self) -> str:
        lines = [f'sglang:generation_tokens_total{{model="m"}} {self.generated}']
        if self.accept_length:
            lines.append(f'sglang:spec_verify_calls_total{{model="m"}} {self.generated / self.accept_length}')
        return "\n".join(lines) + "\n"


@contextlib.contextmanager
def answering_server(answer: Callable[[str], Answer]) -> Iterator[AnsweringServer]:
    """Serve ``answer(prompt)`` until the block ends."""
    state = AnsweringServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format, *args):  # noqa: A002 - named by the base class
            pass

        def reply(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def stream(self, events: list[bytes]) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("content-length", str(sum(map(len, events))))
            self.end_headers()
            for event in events:
                self.wfile.write(event)
                time.sleep(0.002 if len(events) > _UNHURRIED else 0)  # several pieces arrive at several times

        def do_GET(self):
            if self.path == "/v1/models":
                self.reply(200, "application/json", b'{"data": [{"id": "prepared"}]}')
            elif self.path == "/metrics":
                self.reply(200, "text/plain", state.metrics().encode())
            else:
                self.reply(404, "text/plain", b"")

        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"] or 0))
            if self.path != "/v1/chat/completions":
                self.reply(200, "text/plain", b"")
                return
            request = json.loads(body)
            with state.lock:
                state.asked.append(request)
                state.at_once += 1
                state.most_at_once = max(state.most_at_once, state.at_once)
            if state.together is not None:
                state.together.wait(30)
            prepared = answer(request["messages"][-1]["content"])
            with state.lock:
                state.at_once -= 1
                state.generated += prepared.tokens
            if prepared.status == 200:
                self.stream(prepared.render())
            else:
                self.reply(prepared.status, "application/json", b'{"error": {"message": "no room"}}')

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
