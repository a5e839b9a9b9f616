"""How is one server spoken to while it is measured: our own transport, no proxies, no compression, one key."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

import httpx

from autotune.api_key import ApiKey
from autotune.benchmark.lateness import LatenessRecorder
from autotune.benchmark.wire import WireTransport

_HEADERS = {"accept-encoding": "identity", "user-agent": "autotune"}


class ServerConnection:
    """An httpx client for one server; use as an asynchronous context manager.

    Proxies named in the environment are not used: the path of the load is part of the measurement.

    Args:
        url: base URL.
        timeout: httpx's limits; later ones than the one for connecting act where httpx reads, not on streams.
        api_key: sent with every request.
        clock: monotonic seconds, stamps what arrives.

    Attributes:
        lateness: how late this process read what arrived.
    """

    def __init__(
        self,
        url: str,
        timeout: httpx.Timeout,
        *,
        api_key: ApiKey | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.lateness = LatenessRecorder()
        self._wire = WireTransport(clock, self.lateness)
        self._http = httpx.AsyncClient(
            base_url=url,
            transport=self._wire,
            timeout=timeout,
            trust_env=False,
            headers=_HEADERS | dict(api_key.headers if api_key else {}),
        )

    async def __aenter__(self) -> Self:
        """Open the client."""
        await self._http.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close its connections."""
        await self._http.__aexit__(kind, error, trace)
