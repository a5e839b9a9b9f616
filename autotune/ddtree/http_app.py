"""The server's endpoints: SGLang's health, information, generation and control routes."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any, Final

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from autotune import __version__
from autotune.ddtree import native_protocol, openai_protocol
from autotune.ddtree.answer import Order
from autotune.ddtree.engine_link import EngineDied, EngineInfo, EngineLink
from autotune.ddtree.flags import ServerFlags
from autotune.ddtree.generation import GenerationTable
from autotune.ddtree.generation_response import GenerationResponse
from autotune.ddtree.metrics_text import ServerMetrics
from autotune.ddtree.request import GenerationRequest
from autotune.ddtree.request_body import Body, BodyError, parse_body

HEALTH_TIMEOUT_S: Final = 20.0
FLUSH_TIMEOUT_LIMIT_S: Final = 3600.0
_BODY_LIMIT: Final = 32 * 1024 * 1024


class Phase(Enum):
    """How far the server is in its life."""

    STARTING = "starting"
    """Listening, warm-up not done: health says 503."""
    UP = "up"
    """Ready."""
    DRAINING = "draining"
    """Told to stop: health says 503, new requests are refused, running ones finish."""


@dataclass(slots=True)
class Lifecycle:
    """The phase, shared by the endpoints and the process that moves it."""

    phase: Phase = Phase.STARTING


@dataclass(frozen=True, slots=True)
class HttpApp:
    """What the endpoints work on.

    Attributes:
        flags: effective flags.
        info: what the engine says of itself.
        link: connection to the engine.
        table: generations in flight.
        native: SGLang's own protocol.
        openai: OpenAI's protocol.
        metrics: counters; ``None`` without ``--enable-metrics``.
        lifecycle: the phase.
        created: seconds since the epoch at the start.
    """

    flags: ServerFlags
    info: EngineInfo
    link: EngineLink
    table: GenerationTable
    native: native_protocol.NativeProtocol
    openai: openai_protocol.OpenAIProtocol
    metrics: ServerMetrics | None
    lifecycle: Lifecycle
    created: int

    def build(self) -> Starlette:
        """Return the ASGI application."""
        routes = [
            Route("/health", self.health),
            Route("/health_generate", self.health),
            Route("/model_info", self.model_info),
            Route("/get_model_info", self.model_info),
            Route("/server_info", self.server_info),
            Route("/get_server_info", self.server_info),
            Route("/get_load", self.show_load),
            Route("/flush_cache", self.flush_cache, methods=["GET", "POST"]),
            Route("/abort_request", self.abort_request, methods=["POST"]),
            Route("/generate", self.generate, methods=["POST", "PUT"]),
            Route("/v1/models", self.models),
            Route("/v1/models/{model:path}", self.model),
            Route("/v1/completions", self.completions, methods=["POST"]),
            Route("/v1/chat/completions", self.chat_completions, methods=["POST"]),
        ]
        if self.metrics is not None:
            routes.append(Route("/metrics", self.show_metrics))
        handlers: dict[Any, Callable[[Request, Exception], Awaitable[Response]]] = {
            HTTPException: _render_http_error,
            EngineDied: _render_engine_death,
            ClientDisconnect: _render_disconnect,
        }
        return Starlette(routes=routes, exception_handlers=handlers)

    async def generate(self, request: Request) -> Response:
        """SGLang's native generation."""
        return await self._answer(request, self.native.parse, _refuse_native)

    async def completions(self, request: Request) -> Response:
        """OpenAI's text completion."""
        return await self._answer(request, self.openai.parse_completion, _refuse_openai)

    async def chat_completions(self, request: Request) -> Response:
        """OpenAI's chat completion."""
        return await self._answer(request, self.openai.parse_chat, _refuse_openai)

    async def _answer(
        self,
        request: Request,
        parse: Callable[[Body, str], Order],
        refuse: Callable[[str, str | None, int], Response],
    ) -> Response:
        """Read a request, start its generation and return the response that follows it."""
        data = await _read_body(request)
        if self.lifecycle.phase is Phase.DRAINING:
            return refuse("The server is shutting down.", None, 503)
        try:
            order = parse(parse_body(data), os.urandom(16).hex())
        except BodyError as error:
            return refuse(str(error), error.field, 400)
        if order.request.request_id in self.table:
            return refuse(f"A request with the id {order.request.request_id!r} is in flight.", "rid", 400)
        return GenerationResponse(self.table, order)

    async def health(self, _request: Request) -> Response:
        """200 when the engine gives any sign of life after a one-token request of ours."""
        if self.lifecycle.phase is not Phase.UP:
            return Response(status_code=503)
        outputs = self.table.outputs
        probe = self.table.submit(GenerationRequest(f"HEALTH_CHECK_{os.urandom(8).hex()}", (0,), 1), probe=True)
        deadline_s = time.monotonic() + HEALTH_TIMEOUT_S
        try:
            while probe.finish is None and self.table.outputs == outputs:
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:
                    return Response(status_code=503)
                await self.table.wait_for_output(left_s)
        finally:
            self.table.abort(probe)
        return Response(status_code=200)

    async def model_info(self, _request: Request) -> Response:
        """What is served."""
        return _json(
            {
                "model_path": self.flags.model_path,
                "tokenizer_path": self.flags.model_path,
                "is_generation": True,
                "preferred_sampling_params": None,
                "weight_version": "default",
                "has_image_understanding": False,
                "has_audio_understanding": False,
                "model_type": "ddtree",
                "architectures": ["Target"],
            }
        )

    async def server_info(self, _request: Request) -> Response:
        """Every effective flag, and the engine's state."""
        state = await self.link.fetch_state()
        arguments = asdict(self.flags)
        del arguments["notes"]
        arguments["speculative_ddtree_clip_width"] = arguments.pop("clip_width")
        internal: dict[str, Any] = {
            "last_gen_throughput": state.throughput_tokens_per_s or 0.0,
            "memory_usage": {
                "weight": round(self.info.weight_gib, 3),
                "kvcache": round(self.info.cache_gib, 3),
                "token_capacity": self.info.max_total_tokens,
                "graph": 0,
            },
            "effective_max_running_requests_per_dp": self.flags.max_running_requests,
        }
        if state.accept_length is not None:
            internal["avg_spec_accept_length"] = state.accept_length
        return _json(
            {
                **arguments,
                "tokenizer_path": self.flags.model_path,
                "disable_overlap_schedule": True,
                "cpu_threads": self.info.threads,
                "status": "ready" if self.lifecycle.phase is Phase.UP else self.lifecycle.phase.value,
                "max_total_num_tokens": self.info.max_total_tokens,
                "max_req_input_len": self.info.context_length - 1,
                "internal_states": [internal],
                "version": __version__,
                "kv_events": None,
            }
        )

    async def models(self, _request: Request) -> Response:
        """The one model, in OpenAI's form; says nothing about readiness."""
        return _json({"object": "list", "data": [self._model_card()]})

    async def model(self, request: Request) -> Response:
        """The same for one name."""
        name = request.path_params["model"]
        if name != self.flags.served_model_name:
            return _refuse_openai(f"The model {name!r} does not exist.", "model", 404)
        return _json(self._model_card())

    async def flush_cache(self, request: Request) -> Response:
        """Set the accept counters to zero; 400 when requests run or wait, after ``?timeout=`` seconds at most."""
        text = request.query_params.get("timeout", "0")
        try:
            timeout_s = float(text)
        except ValueError:
            timeout_s = -1.0
        if not 0.0 <= timeout_s <= FLUSH_TIMEOUT_LIMIT_S:
            limit = f"between 0 and {FLUSH_TIMEOUT_LIMIT_S:.0f}"
            return PlainTextResponse(f"timeout must be a number of seconds {limit}, got {text[:40]!r}.\n", 400)
        if timeout_s > 0 and len(self.table):
            try:
                await asyncio.wait_for(self.table.wait_until_idle(), timeout_s)
            except TimeoutError:
                return PlainTextResponse("Cache not flushed: requests are running or waiting.\n", 400)
        if len(self.table) or not await self.link.flush():
            return PlainTextResponse("Cache not flushed: requests are running or waiting.\n", 400)
        return PlainTextResponse("Cache flushed.\n")

    async def abort_request(self, request: Request) -> Response:
        """Drop one request, or all of them."""
        try:
            body = parse_body(await _read_body(request))
            name, everything = body.text("rid"), body.switch("abort_all")
        except BodyError as error:
            return _refuse_native(str(error), error.field, 400)
        if everything:
            self.table.abort_all()
        elif name:
            self.table.abort_by_id(name)
        else:
            return _refuse_native("The request must have rid or abort_all.", "rid", 400)
        return Response(status_code=200)

    async def show_load(self, _request: Request) -> Response:
        """Requests in hand, waiting ones included, for the only rank."""
        stats = (await self.link.fetch_state()).stats
        load = {
            "dp_rank": 0,
            "num_reqs": stats.running + stats.queued,
            "num_waiting_reqs": stats.queued,
            "num_tokens": stats.cache_tokens,
        }
        return JSONResponse([load])

    async def show_metrics(self, _request: Request) -> Response:
        """Prometheus text."""
        if self.metrics is None:
            raise HTTPException(404)
        block = self.flags.speculative_num_draft_tokens
        text = self.metrics.render(await self.link.fetch_state(), block)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    def _model_card(self) -> dict[str, Any]:
        return {
            "id": self.flags.served_model_name,
            "object": "model",
            "created": self.created,
            "owned_by": "autotune",
            "root": self.flags.served_model_name,
            "parent": None,
            "max_model_len": self.info.context_length,
        }


async def _read_body(request: Request) -> bytes:
    """Return the whole body.

    Raises:
        HTTPException: it is too large.
    """
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > _BODY_LIMIT:
            raise HTTPException(413, f"The body is larger than {_BODY_LIMIT} bytes.")
    return bytes(data)


def _json(content: Any, status: int = 200) -> Response:
    return Response(orjson.dumps(content), status, media_type="application/json")


def _refuse_native(message: str, _field: str | None, status: int) -> Response:
    return Response(native_protocol.render_refusal(message), status, media_type="application/json")


def _refuse_openai(message: str, field: str | None, status: int) -> Response:
    return Response(openai_protocol.render_refusal(message, field, status), status, media_type="application/json")


async def _render_http_error(_request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    return Response(
        orjson.dumps({"detail": error.detail}), error.status_code, dict(error.headers or {}), "application/json"
    )


async def _render_engine_death(_request: Request, _error: Exception) -> Response:
    return _refuse_native("The engine process has ended.", None, 503)


async def _render_disconnect(_request: Request, _error: Exception) -> Response:
    """Answer a client that left while sending its body; nobody reads it."""
    return Response(status_code=400)
