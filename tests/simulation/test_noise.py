from __future__ import annotations

import math
import statistics

import pytest

from autotune.simulation.noise import BootId, NightNoise, NoiseSettings
from autotune.trial import Cell

CELL = Cell(1024, 32)
QUIET = NoiseSettings(between=0, inside=0, drift=0, prompts=0, interaction=0)


def test_the_same_boot_of_a_night_errs_alike_and_others_do_not():
    one, again, other = (NightNoise(NoiseSettings(), seed) for seed in (1, 1, 2))

    assert one.of_boot(BootId(3, 1), 32) == again.of_boot(BootId(3, 1), 32)
    assert one.of_boot(BootId(3, 1), 32) != one.of_boot(BootId(4, 1), 32)
    assert one.of_boot(BootId(3, 1), 32) != one.of_boot(BootId(3, 2), 32)
    assert one.of_boot(BootId(3, 1), 32) != other.of_boot(BootId(3, 1), 32)


def test_drift_depends_on_the_boot_and_not_on_the_order_of_asking():
    forwards, backwards = NightNoise(NoiseSettings(), 1), NightNoise(NoiseSettings(), 1)
    last = backwards.of_drift(BootId(9, 1))

    assert [forwards.of_drift(BootId(number, 1)) for number in range(10)][-1] == last
    assert backwards.of_drift(BootId(2, 1)) == forwards.of_drift(BootId(2, 5))


def test_boots_differ_by_what_the_settings_say_and_half_of_it_is_shared():
    noise = NightNoise(NoiseSettings(between=0.05, drift=0), 1)
    pairs = [[noise.of_boot(BootId(number, 1), concurrency) for concurrency in (1, 32)] for number in range(2000)]

    assert statistics.pstdev(one for one, _ in pairs) == pytest.approx(0.05, rel=0.06)
    assert statistics.correlation(*zip(*pairs, strict=True)) == pytest.approx(0.5, abs=0.06)


def test_drift_is_slow_and_as_large_as_the_settings_say():
    starts = [NightNoise(NoiseSettings(between=0, drift=0.02), seed) for seed in range(800)]
    firsts, seconds = ([noise.of_boot(BootId(number, 1), 1) for noise in starts] for number in (5, 6))

    assert statistics.pstdev(firsts) == pytest.approx(0.02, rel=0.1)
    assert statistics.correlation(firsts, seconds) == pytest.approx(0.9, abs=0.05)


def test_a_canary_hears_the_drift():
    nights = [NightNoise(NoiseSettings(between=0.01, drift=0.05), seed) for seed in range(300)]
    heard = [noise.of_canary(BootId(0, 1), 0) for noise in nights]
    drifts = [noise.of_drift(BootId(0, 1)) for noise in nights]

    assert statistics.correlation(heard, drifts) > 0.99
    assert heard != drifts


def test_prompts_differ_alike_in_all_boots_and_a_little_by_configuration():
    noise = NightNoise(NoiseSettings(inside=0, prompts=0.15, interaction=0.02), 1)
    here = noise.of_prompts(BootId(0, 1), CELL, "a", 64)
    later = noise.of_prompts(BootId(7, 1), CELL, "a", 64)
    other = noise.of_prompts(BootId(0, 1), CELL, "b", 64)
    gains = [one - two for one, two in zip(here, other, strict=True)]

    assert here == later
    assert math.fsum(here) == pytest.approx(0, abs=1e-9)
    assert statistics.pstdev(here) == pytest.approx(0.15, rel=0.25)
    assert statistics.pstdev(gains) == pytest.approx(0.02 * math.sqrt(2), rel=0.3)


def test_without_noise_there_is_none():
    noise = NightNoise(QUIET, 1)

    assert noise.of_boot(BootId(5, 1), 1) == 0
    assert noise.of_round(BootId(5, 1), CELL, 0) == 0
    assert noise.of_prompts(BootId(5, 1), CELL, "a", 3) == [0, 0, 0]
