from __future__ import annotations

from datetime import timedelta

import pytest

from autotune.simulation.clock import SimulatedClock


def test_only_waiting_moves_it():
    clock = SimulatedClock()
    before = clock.now()
    clock.sleep(90)

    assert clock.monotonic() == 90
    assert clock.now() - before == timedelta(seconds=90)


def test_nobody_waits_backwards():
    with pytest.raises(ValueError, match="-1"):
        SimulatedClock().sleep(-1)
