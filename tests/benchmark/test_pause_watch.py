from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from autotune.benchmark.benchmark import Benchmark
from autotune.benchmark.pause_watch import PauseWatch
from autotune.errors import MeasurementPaused
from autotune.settings import BenchmarkSettings, CellSettings, StageSettings
from tests.benchmark.scripted_server import Script, Scripts, running, steady


def test_without_a_pause_nothing_is_said():
    before = signal.getsignal(signal.SIGCONT)
    with PauseWatch() as watch:
        pass
    watch.check("ctx64-c1")

    assert signal.getsignal(signal.SIGCONT) is before


def test_a_machine_that_slept_is_told_with_how_long():
    asleep_s = iter((100.0, 103.2))
    with PauseWatch(lambda: next(asleep_s)) as watch:
        pass

    with pytest.raises(MeasurementPaused, match="this machine slept for 3 s"):
        watch.check("ctx64-c1")


def test_the_time_between_two_clocks_is_no_sleep():
    asleep_s = iter((100.0, 100.9))
    with PauseWatch(lambda: next(asleep_s)) as watch:
        pass

    watch.check("ctx64-c1")


def test_another_thread_sees_sleep_only():
    seen: list[str] = []

    def watch() -> None:
        with PauseWatch() as watch:
            seen.append("watched")
        watch.check("ctx64-c1")

    thread = threading.Thread(target=watch)
    thread.start()
    thread.join()

    assert seen == ["watched"]


def test_a_cell_in_which_the_load_generator_was_stopped_has_no_figures(tmp_path: Path):
    """SIGCONT arrives at the end of every stop; the answers that came meanwhile arrive at once, as if by a fast server."""

    def answer(_scripts: Scripts, request: dict[str, Any]) -> Script:
        if request["max_tokens"] == 32:
            os.kill(os.getpid(), signal.SIGCONT)
        return steady(3, 1, 0.01)

    cell = CellSettings(context=60, concurrency=2)
    settings = BenchmarkSettings(
        stages=(StageSettings(name="a", cells=(cell,)),), output_tokens=32, repeats=1, warmup_requests=0
    )
    with (
        running(Scripts(answer)) as server,
        pytest.raises(MeasurementPaused, match="was stopped and continued"),
    ):
        Benchmark(server.url, settings, tmp_path / "r.jsonl").measure_cell(cell)
