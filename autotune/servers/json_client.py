"""One request, one JSON answer from a server that is not trusted: bounded in time and size, no proxies, no redirects."""

from __future__ import annotations

import json
from typing import Any

import httpx

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


def fetch_json(url: str, *, body: Any = None, timeout_s: float) -> tuple[int, Any]:
    """Send a GET, or a POST when there is a body; return the status and the parsed answer.

    An answer that is not JSON is returned as ``None``.

    Raises:
        Unanswered: refused, reset, timed out, or larger than 16 MiB.
    """
    timeout = httpx.Timeout(timeout_s, connect=min(_CONNECT_TIMEOUT_S, timeout_s))
    try:
        with (
            httpx.Client(timeout=timeout, trust_env=False) as client,
            client.stream("GET" if body is None else "POST", url, json=body) as response,
        ):
            data = bytearray()
            for chunk in response.iter_bytes():
                data += chunk
                if len(data) > _LARGEST_ANSWER:
                    raise Unanswered("the answer is larger than 16 MiB")
            status = response.status_code
    except httpx.ConnectError as error:
        raise Unanswered("connection refused", is_refused=True) from error
    except httpx.TimeoutException as error:
        raise Unanswered(f"no answer within {timeout_s:.0f} s") from error
    except httpx.HTTPError as error:
        raise Unanswered(f"{type(error).__name__}: {error}") from error
    try:
        return status, json.loads(data)
    except ValueError:
        return status, None
