from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from autotune.benchmark.server_probe import Flush, ServerProbe
from tests.benchmark.scripted_server import Scripts, closed_port, running

T = TypeVar("T")


def probe(url: str, question: Callable[[ServerProbe], Awaitable[T]]) -> T:
    async def main() -> T:
        async with ServerProbe(url, 2.0) as asked:
            return await question(asked)

    return asyncio.run(main())


def scripts(**more: Any) -> Scripts:
    return Scripts(lambda _scripts, _request: [], **more)


def test_the_model_is_the_first_one_listed():
    with running(scripts()) as server:
        assert probe(server.url, lambda asked: asked.fetch_model()) == "scripted"


def test_nobody_there_has_a_default_name_and_nothing_else():
    url = f"http://127.0.0.1:{closed_port()}"

    assert probe(url, lambda asked: asked.fetch_model()) == "default"
    assert probe(url, lambda asked: asked.fetch_metrics()) is None
    assert probe(url, lambda asked: asked.fetch_accept_length()) is None
    assert probe(url, lambda asked: asked.flush_cache()) is Flush.REFUSED


@pytest.mark.parametrize(
    ("statuses", "expected", "asked"),
    [
        ([200], Flush.DONE, 1),
        ([400, 400, 200], Flush.DONE, 3),
        ([404], Flush.NOT_OFFERED, 1),
        ([405], Flush.NOT_OFFERED, 1),
        ([500], Flush.REFUSED, 1),
    ],
)
def test_a_flush_counts_only_when_the_server_confirms_it(statuses: list[int], expected: Flush, asked: int):
    """case 24."""
    with running(scripts(flush_statuses=list(statuses))) as server:
        assert probe(server.url, lambda item: item.flush_cache()) is expected

    assert server.flushes == asked


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        ({"internal_states": [{"avg_spec_accept_length": 3.5}]}, 3.5),
        ({"internal_states": [{"avg_spec_accept_length": 0}]}, 0.0),
        ({"internal_states": [{"avg_spec_accept_length": True}]}, None),
        ({"internal_states": [{"avg_spec_accept_length": "3"}]}, None),
        ({"internal_states": [{}]}, None),
        ({"internal_states": []}, None),
        ({"internal_states": [None]}, None),
        ({}, None),
    ],
)
def test_the_average_accept_length_is_a_number_or_unknown(info: dict[str, Any], expected: float | None):
    """case 33."""
    with running(scripts(server_info=info)) as server:
        assert probe(server.url, lambda asked: asked.fetch_accept_length()) == expected


def test_a_body_without_end_is_no_answer():
    with running(scripts(metrics=lambda _scripts: "x_total 1\n" * 1_000_000)) as server:
        assert probe(server.url, lambda asked: asked.fetch_metrics()) is None
