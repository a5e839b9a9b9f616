from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autotune.benchmark.benchmark import Benchmark
from autotune.benchmark.event_loop import run
from autotune.settings import BenchmarkSettings, CellSettings, StageSettings
from tests.benchmark.scripted_server import Script, Scripts, running, steady


class Interrupted(KeyboardInterrupt):
    pass


@pytest.fixture(params=[signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM], ids=lambda number: number.name)
def number(request: pytest.FixtureRequest) -> Iterator[signal.Signals]:
    before = signal.getsignal(request.param)
    yield request.param
    signal.signal(request.param, before)


def raising(*_arguments: Any) -> None:
    raise Interrupted


async def send(number: signal.Signals) -> str:
    os.kill(os.getpid(), number)
    await asyncio.sleep(0.2)
    return "done"


def test_what_a_handler_raises_ends_the_coroutine(number: signal.Signals):
    signal.signal(number, raising)

    with pytest.raises(Interrupted):
        run(send(number))

    assert signal.getsignal(number) is raising


def test_a_signal_between_the_data_of_connections_ends_the_coroutine(number: signal.Signals):
    """A handler that raised inside a callback would be taken for a broken connection, and the load would go on."""
    signal.signal(number, raising)

    class Busy(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            del data
            os.kill(os.getpid(), number)

    async def load() -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            transport, _ = await asyncio.get_running_loop().create_connection(Busy, sock=ours)
            theirs.send(b"x")
            await asyncio.sleep(2)
            transport.close()

    with pytest.raises(Interrupted):
        run(load())


def test_a_handler_that_returns_lets_the_coroutine_go_on(number: signal.Signals):
    seen: list[int] = []
    signal.signal(number, lambda received, _frame: seen.append(received))

    assert run(send(number)) == "done"
    assert seen == [number]


def test_an_ignored_signal_stays_ignored(number: signal.Signals):
    signal.signal(number, signal.SIG_IGN)

    assert run(send(number)) == "done"
    assert signal.getsignal(number) is signal.SIG_IGN


def test_errors_of_the_coroutine_are_its_own():
    async def fail() -> None:
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        run(fail())


def test_another_thread_runs_without_signals():
    results: list[str] = []

    async def answer() -> str:
        return "done"

    thread = threading.Thread(target=lambda: results.append(run(answer())))
    thread.start()
    thread.join()

    assert results == ["done"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGALRM], ids=lambda number: number.name)
def test_a_signal_in_the_middle_of_a_load_is_never_taken_for_a_broken_connection(
    tmp_path: Path, number: signal.Signals
):
    """The alarm is the end of ``--until``: a cell that went on would keep the baseline from serving in time."""

    def answer(_scripts: Scripts, request: dict[str, Any]) -> Script:
        return steady(3, 1, 0.001) if request["max_tokens"] < 32 else steady(3000, 1, 0.002)

    cell = CellSettings(context=60, concurrency=8)
    settings = BenchmarkSettings(stages=(StageSettings(name="a", cells=(cell,)),), output_tokens=32, repeats=1)
    before = signal.signal(number, raising)
    try:
        with running(Scripts(answer)) as server:
            timer = threading.Timer(0.7, os.kill, (os.getpid(), number))
            timer.start()
            started_s = time.perf_counter()
            with pytest.raises(Interrupted):
                Benchmark(server.url, settings, tmp_path / "r.jsonl").measure_cell(cell)
            timer.join()
            assert time.perf_counter() - started_s < 5
    finally:
        signal.signal(number, before)
