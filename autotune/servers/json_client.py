"""One request, one JSON answer from a server that is not trusted: bounded in time and size, no proxies, no redirects."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx

from autotune.api_key import ApiKey

_LARGEST_ANSWER = 16 * 1024 * 1024
_CONNECT_TIMEOUT_S = 5.0


class Unanswered(Exception):
    """No whole answer came.

    Attributes:
        is_refused: True when nobody listens.
    """

    def __init__(self, sentence: str, *, is_refused: bool = False) -> None:
        super().__init__(sentence)
        self.is_refused = is_refused


def fetch_json(url: str, *, body: Any = None, timeout_s: float, api_key: ApiKey | None = None) -> tuple[int, Any]:
    """Send a GET, or a POST when there is a body; return the status and the parsed answer.

    An answer that is not JSON is returned as ``None``.

    Args:
        url: what is asked.
        body: of the POST.
        timeout_s: as in :func:`fetch`.
        api_key: as in :func:`fetch`.

    Raises:
        Unanswered: as :func:`fetch`.
    """
    status, data = fetch(url, body=body, timeout_s=timeout_s, api_key=api_key)
    try:
        return status, json.loads(data)
    except (ValueError, RecursionError):
        return status, None


def fetch(url: str, *, body: Any = None, timeout_s: float, api_key: ApiKey | None = None) -> tuple[int, bytes]:
    """Send a GET, or a POST when there is a body; return the status and the bytes of the answer.

    Args:
        url: what is asked.
        body: of the POST, sent as JSON.
        timeout_s: for everything together, from connecting to the last byte: bytes that drip do not prolong it.
        api_key: sent along.

    Raises:
        Unanswered: refused, reset, timed out, larger than 16 MiB, or not a URL.
    """
    try:
        return asyncio.run(_fetch(url, body, timeout_s, api_key))
    except httpx.ConnectError as error:
        raise Unanswered("connection refused", is_refused=True) from error
    except (httpx.TimeoutException, TimeoutError) as error:
        raise Unanswered(f"no whole answer within {timeout_s:.0f} s") from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise Unanswered(f"{type(error).__name__}: {str(error) or 'the connection was closed'}") from error
    except BaseExceptionGroup as group:  # of the tasks that connect; a signal must stay the one exception that it is
        raise group.exceptions[0] from None
    except RuntimeError as error:  # what is torn down by a signal may complain while it is
        interrupt = find_interrupt(error)
        if interrupt is None:
            raise
        raise interrupt from None


def find_interrupt(error: BaseException) -> KeyboardInterrupt | None:
    """Return the signal in whose handling an error arose, if there was one."""
    seen: BaseException | None = error
    while seen is not None and not isinstance(seen, KeyboardInterrupt):
        seen = seen.__cause__ or seen.__context__
    return seen


async def _fetch(url: str, body: Any, timeout_s: float, api_key: ApiKey | None) -> tuple[int, bytes]:
    """Return the status and the bytes of the answer."""
    timeout = httpx.Timeout(timeout_s, connect=min(_CONNECT_TIMEOUT_S, timeout_s))
    data = bytearray()
    async with (
        asyncio.timeout(timeout_s),  # httpx counts anew at each byte
        httpx.AsyncClient(timeout=timeout, trust_env=False) as client,
        client.stream(
            "GET" if body is None else "POST", url, json=body, headers=api_key.headers if api_key else None
        ) as response,
    ):
        async for chunk in response.aiter_bytes():
            data += chunk
            if len(data) > _LARGEST_ANSWER:
                raise Unanswered("the answer is larger than 16 MiB")
        return response.status_code, bytes(data)
