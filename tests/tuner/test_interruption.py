from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import uvloop

from autotune.benchmark.event_loop import run
from autotune.tuner.interruption import Interrupted, Interruption, OutOfTime

ROOT = Path(__file__).parents[2]


def test_a_signal_waits_for_an_interruptible_block():
    with Interruption() as interruption:
        os.kill(os.getpid(), signal.SIGTERM)

        with pytest.raises(Interrupted) as interrupted, interruption.interruptible():
            pytest.fail("the block must not begin")

    assert interrupted.value.exit_code == 143


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_an_event_loop_at_once(new_loop, number):
    async def measure() -> None:
        asyncio.get_running_loop().call_later(0.01, os.kill, os.getpid(), number)
        await asyncio.sleep(60)

    with (
        Interruption() as interruption,
        asyncio.Runner(loop_factory=new_loop) as runner,
        pytest.raises(Interrupted) as interrupted,
        interruption.interruptible(),
    ):
        runner.run(measure())

    assert interrupted.value.number == number


def test_a_second_signal_is_answered_in_words_and_changes_nothing(capfd: pytest.CaptureFixture[str]):
    with Interruption() as interruption:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

        with pytest.raises(Interrupted):
            interruption.check()
        interruption.check()

    assert "already ending" in capfd.readouterr().err


def test_the_signals_are_given_back():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    with Interruption():
        pass

    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before


def test_under_nohup_a_hang_up_is_no_reason_to_end():
    program = (
        "import os, signal\n"
        "from autotune.tuner.interruption import Interruption\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "with Interruption() as interruption:\n"
        "    os.kill(os.getpid(), signal.SIGHUP)\n"
        "    interruption.check()\n"
        "print('goes on')\n"
    )
    answer = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)

    assert answer.stdout == "goes on\n"


def test_a_block_is_ended_when_its_time_is_over():
    with Interruption() as interruption, pytest.raises(OutOfTime), interruption.interruptible(0.05):
        time.sleep(5)

    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_an_event_loop_is_ended_when_its_time_is_over():
    async def measure() -> None:
        await asyncio.sleep(5)

    with Interruption() as interruption, pytest.raises(OutOfTime), interruption.interruptible(0.05):
        run(measure())


def test_no_block_begins_when_no_time_is_left():
    entered = False
    with Interruption() as interruption:
        with pytest.raises(OutOfTime), interruption.interruptible(-1):
            entered = True
        with interruption.interruptible(60):
            pass

    assert not entered
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
