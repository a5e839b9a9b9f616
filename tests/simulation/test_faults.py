from __future__ import annotations

from collections import Counter

import pytest

from autotune.simulation.faults import Fault, FaultSettings, draw_fault
from autotune.simulation.noise import BootId, NightNoise, NoiseSettings

NOISE = NightNoise(NoiseSettings(), 1)


def test_faults_come_as_often_as_the_settings_say():
    settings = FaultSettings(hang=0.1, crash=0.2, loss=0.3)
    drawn = Counter(draw_fault(settings, NOISE, BootId(number, 1)) for number in range(4000))

    assert drawn[Fault.HANG] / 4000 == pytest.approx(0.1, abs=0.02)
    assert drawn[Fault.CRASH] / 4000 == pytest.approx(0.2, abs=0.02)
    assert drawn[Fault.LOSS] / 4000 == pytest.approx(0.3, abs=0.025)


def test_no_fault_comes_unasked():
    assert {draw_fault(FaultSettings(), NOISE, BootId(number, 1)) for number in range(100)} == {None}


@pytest.mark.parametrize("shares", [(-0.1, 0, 0), (0.5, 0.4, 0.2)])
def test_shares_that_are_none_are_refused(shares):
    with pytest.raises(ValueError, match="shares of faults"):
        FaultSettings(*shares)
