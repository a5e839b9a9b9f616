"""What does the server say beside its answers: model name, cache flush, counters, accept length since the flush?

Every body is untrusted and read up to a bound; an endpoint that is not offered is an answer, not an error.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from enum import Enum
from typing import Any

import httpx
import orjson

from autotune.api_key import ApiKey
from autotune.benchmark.server_connection import ServerConnection
from autotune.benchmark.server_info import ServerInfo, read_info
from autotune.servers.server_metrics import parse_metrics

_LARGEST_BODY = 8 << 20
_LONGEST_NAME = 200
_PATIENCE_S = 5.0
_PAUSE_S = 0.1


class Flush(Enum):
    """How an attempt to empty the server's prefix cache went; each value is the cache policy written into results."""

    DONE = "flushed before measuring"
    """The server confirmed it."""
    NOT_OFFERED = "not flushed: the server offers no /flush_cache; prompts carry a unique mark"
    """There is no such endpoint."""
    REFUSED = "not flushed: the server refused; prompts carry a unique mark"
    """It was busy for too long, or failed."""


class ServerProbe(ServerConnection):
    """Small requests to one server; use as an asynchronous context manager."""

    def __init__(self, url: str, timeout_s: float, *, api_key: ApiKey | None = None) -> None:
        super().__init__(url, httpx.Timeout(timeout_s), api_key=api_key)
        self._timeout_s = timeout_s

    async def fetch_model(self) -> str:
        """Name of the first model served; ``default`` when the server does not say."""
        body = await self._fetch_json("/v1/models")
        models = body.get("data") if isinstance(body, dict) else None
        first = models[0] if isinstance(models, list) and models else None
        name = first.get("id") if isinstance(first, dict) else None
        return name if isinstance(name, str) and 0 < len(name) <= _LONGEST_NAME else "default"

    async def flush_cache(self) -> Flush:
        """Ask the server to forget prompts and accept counters; while it finishes requests, ask again for a while."""
        for _attempt in range(math.ceil(_PATIENCE_S / _PAUSE_S)):
            status, _body = await self._request("POST", "/flush_cache")
            if status == httpx.codes.OK:
                return Flush.DONE
            if status in (httpx.codes.NOT_FOUND, httpx.codes.METHOD_NOT_ALLOWED, httpx.codes.NOT_IMPLEMENTED):
                return Flush.NOT_OFFERED
            if status != httpx.codes.BAD_REQUEST:
                break
            await asyncio.sleep(_PAUSE_S)
        return Flush.REFUSED

    async def fetch_metrics(self) -> Mapping[str, float] | None:
        """Samples of ``/metrics``; ``None`` when it is not offered."""
        status, body = await self._request("GET", "/metrics")
        return parse_metrics(body.decode("utf-8", "replace")) if status == httpx.codes.OK else None

    async def fetch_info(self) -> ServerInfo:
        """What the server says of itself, under the endpoint's old name where it has no new one."""
        for path in ("/server_info", "/get_server_info"):
            body = await self._fetch_json(path)
            if body is not None:
                return read_info(body)
        return ServerInfo()

    async def fetch_accept_length(self) -> float | None:
        """Average accept length since the last flush by ``/server_info``; ``None`` when it does not say."""
        return (await self.fetch_info()).accept_length

    async def _fetch_json(self, path: str) -> Any:
        status, body = await self._request("GET", path)
        if status != httpx.codes.OK:
            return None
        try:
            return orjson.loads(body)
        except orjson.JSONDecodeError:
            return None

    async def _request(self, method: str, path: str) -> tuple[int | None, bytes]:
        """Status and body; no status when there was no answer, or one larger than the bound."""
        body = bytearray()
        try:
            async with asyncio.timeout(self._timeout_s), self._http.stream(method, path) as response:
                async for piece in response.aiter_raw():
                    body += piece
                    if len(body) > _LARGEST_BODY:
                        return None, b""
                return response.status_code, bytes(body)
        except (httpx.HTTPError, TimeoutError):
            return None, b""
