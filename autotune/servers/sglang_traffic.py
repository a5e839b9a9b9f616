"""How many requests does an SGLang server have in hand? Read from its metrics or its load report; pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autotune.servers.server_metrics import parse_metrics

RUNNING = "num_running_reqs"
QUEUED = "num_queue_reqs"

_WATCHED = (RUNNING, QUEUED, "generation_tokens_total", "prompt_tokens_total")
_IN_LOADS = ("num_running_reqs", "num_waiting_reqs")
_WHOLE_IN_LOAD = "num_reqs"


def count_in_metrics(before: str, after: str) -> int | None:
    """Count running and queued requests in two scrapes of ``/metrics``, a few seconds apart.

    Its gauges keep their last value while a server idles, so requests count only when something moved: tokens were
    generated or prefilled, or a gauge changed. ``None`` when there is no such gauge.

    >>> busy = "sglang:num_running_reqs 3.0", "sglang:num_queue_reqs 1.0", "sglang:generation_tokens_total 10"
    >>> count_in_metrics(chr(10).join(busy), chr(10).join(busy).replace("10", "90"))
    4
    >>> count_in_metrics(chr(10).join(busy), chr(10).join(busy))
    0
    """
    first, second = ({name: parse_metrics(text).get(name) for name in _WATCHED} for text in (before, after))
    running = second[RUNNING]
    if running is None:
        return None
    return 0 if first == second else max(round(running + (second[QUEUED] or 0.0)), 0)


def count_in_loads(body: Any) -> int | None:
    """Count requests in the answer of ``/v1/loads`` or of the older ``/get_load``, over all ranks.

    ``num_reqs`` of the older one holds the waiting ones already. ``None`` when nothing of it can be read.

    >>> count_in_loads({"loads": [{"num_running_reqs": 2, "num_waiting_reqs": 1}, {"num_running_reqs": 1}]})
    4
    >>> count_in_loads([{"dp_rank": 0, "num_reqs": 2, "num_waiting_reqs": 1}])
    2
    """
    ranks = body.get("loads", [body]) if isinstance(body, dict) else body
    if not isinstance(ranks, list):
        return None
    counts = [count for rank in ranks if isinstance(rank, dict) and (count := _count_rank(rank)) is not None]
    return sum(counts) if counts else None


def _count_rank(rank: Mapping[str, Any]) -> int | None:
    whole = _whole(rank.get(_WHOLE_IN_LOAD))
    if whole is not None:
        return whole
    parts = [count for name in _IN_LOADS if (count := _whole(rank.get(name))) is not None]
    return sum(parts) if parts else None


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
