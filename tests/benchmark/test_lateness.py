from __future__ import annotations

import asyncio
import time

import pytest

from autotune.benchmark import lateness as lateness_module
from autotune.benchmark.lateness import Lateness, LatenessRecorder


def test_waits_are_summed_up_and_forgotten():
    recorder = LatenessRecorder()
    for wait in range(1, 101):
        recorder.add(wait / 1000)

    lateness = recorder.take()

    assert (lateness.reads, lateness.stamped) == (100, 100)
    assert lateness.median_s == pytest.approx(0.05, abs=0.0011)
    assert lateness.p99_s == pytest.approx(0.1, abs=0.0011)
    assert lateness.worst_s == 0.1
    assert recorder.take() == Lateness(0, 0, None, None, None)


def test_a_busy_event_loop_shows(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lateness_module, "_TICK_S", 0.01)
    recorder = LatenessRecorder()

    async def main() -> None:
        task = asyncio.create_task(recorder.watch_loop())
        await asyncio.sleep(0)
        time.sleep(0.06)  # noqa: ASYNC251  # this is the busy loop
        await asyncio.sleep(0.001)
        task.cancel()

    asyncio.run(main())
    worst_s = recorder.take().loop_worst_s

    assert worst_s is not None
    assert worst_s >= 0.035


@pytest.mark.parametrize(
    ("lateness", "gap_s", "complains"),
    [
        (Lateness(100, 100, 0.0001, 0.002, 0.5), 0.005, False),
        (Lateness(100, 100, 0.0001, 0.003, 0.5), 0.005, True),
        (Lateness(100, 100, 0.0001, 0.003, 0.5), 0.033, False),
        (Lateness(100, 0, None, None, None, 0.0004, 0.1), 0.005, False),
        (Lateness(100, 0, None, None, None, 0.001, 0.1), 0.005, True),
        (Lateness(100, 60, 0.0, 0.001, 0.1, 0.0, 0.1), 0.005, True),
        (Lateness(100, 100, 0.0001, 0.003, 0.5), None, False),
        (Lateness(0, 0, None, None, None), 0.005, False),
    ],
    ids=[
        "late, not too late",
        "too late for these chunks",
        "slow chunks bear it",
        "unstamped in time",
        "unstamped is an error of the times themselves",
        "partly stamped",
        "one chunk each",
        "nothing read",
    ],
)
def test_what_is_too_late_depends_on_the_chunks(lateness: Lateness, gap_s: float | None, complains: bool):
    complaint = lateness.find_complaint(gap_s)

    assert (complaint is not None) is complains
    if complaint is not None:
        assert complaint.startswith("the load generator did not keep up")
