"""The response that follows one generation, and ends it when the client leaves."""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from autotune.ddtree.answer import Order
from autotune.ddtree.generation import Generation, GenerationTable

_JSON: Final = (b"content-type", b"application/json")
_EVENTS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
]


class GenerationResponse(Response):
    """Answers one order; the generation starts with the response.

    The status is sent with the first text, so that a request the engine refuses still gets its 400.

    Args:
        table: generations in flight.
        order: what to generate and how to answer.
    """

    def __init__(self, table: GenerationTable, order: Order) -> None:
        super().__init__()
        self._table = table
        self._order = order

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Generate, answer, and free the slot whatever happens."""
        order = self._order
        generation = self._table.submit(order.request, order.stop)
        watcher = asyncio.create_task(self._watch(generation, receive))
        try:
            if order.stream:
                await self._stream(generation, send)
            else:
                await generation.wait_for_end()
                await self._send_whole(generation, send)
        finally:
            watcher.cancel()
            self._table.abort(generation)

    async def _watch(self, generation: Generation, receive: Receive) -> None:
        """Abort when the client leaves."""
        while (await receive())["type"] != "http.disconnect":
            pass
        self._table.abort(generation)

    async def _stream(self, generation: Generation, send: Send) -> None:
        await generation.wait()
        if generation.finish is not None and generation.finish.kind == "rejected":
            await self._send_whole(generation, send)
            return
        await send({"type": "http.response.start", "status": 200, "headers": _EVENTS})
        rendering = self._order.rendering
        while True:
            text = generation.take()
            if generation.finish is not None:
                break
            await send(
                {
                    "type": "http.response.body",
                    "body": rendering.render_piece(generation, text),
                    "more_body": True,
                }
            )
            await generation.wait()
        await send({"type": "http.response.body", "body": rendering.render_end(generation, text), "more_body": False})

    async def _send_whole(self, generation: Generation, send: Send) -> None:
        finish = generation.finish
        rendering = self._order.rendering
        if finish is not None and finish.kind == "rejected":
            status, body = 400, rendering.render_refusal(finish.message or "The engine refused the request.")
        else:
            status, body = 200, rendering.render_whole(generation, generation.take())
        length = (b"content-length", str(len(body)).encode())
        await send({"type": "http.response.start", "status": status, "headers": [_JSON, length]})
        await send({"type": "http.response.body", "body": body})
