"""When another round is worth its time."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from autotune.benchmark.precision import Precision, learn_precision
from autotune.interval import ASSUMED_SPREAD, Component
from autotune.trial import Cell, TrialKind, TrialRecord
from tests.records import make_cell, make_trial

CELL = Cell(128, 1)


def boot(number: int, speed: float, *rounds: float, kind: TrialKind = TrialKind.BASELINE) -> TrialRecord:
    cell = replace(make_cell(1, speed), round_log_speeds=rounds)
    return replace(make_trial(number, kind=kind), cells=(cell,))


def test_noise_that_was_never_seen_takes_a_second_round():
    assert Precision(between=1.0).wants_round([0.0])


def test_rounds_end_when_their_noise_is_a_quarter_of_that_between_boots():
    # Variance of a round 0.0008: one round 0.0008, two 0.0004, four 0.0002.
    seen = Component(0.0008, 1000)

    assert Precision(0.0016, seen).wants_round([0.0])
    assert not Precision(0.0016 + 1e-5, seen).wants_round([0.0, 0.0])
    assert Precision(0.0008, seen).wants_round([0.0] * 3)
    assert not Precision(0.0008 + 1e-5, seen).wants_round([0.0] * 4)


def test_noise_of_this_boot_counts_with_that_of_earlier_ones():
    calm = Component(0.0001, 1)

    assert not Precision(0.001, calm).wants_round([0.0, 0.0])
    assert Precision(0.001, calm).wants_round([0.0, 0.1])


def test_a_study_teaches_noise_between_and_inside_boots():
    trials = [
        boot(0, 100.0, 0.0, 0.02),
        boot(1, 110.0),
        boot(2, 90.0, 0.1, 0.1, 0.1, kind=TrialKind.SEARCH),
        replace(make_trial(3), cells=(make_cell(32, 400.0),)),
    ]

    known = learn_precision(trials, CELL)

    logs = [math.log(100.0), math.log(110.0)]
    assert known.between == pytest.approx((logs[1] - logs[0]) ** 2 / 2)
    assert known.inside is not None
    assert known.inside.degrees == 3
    assert known.inside.variance == pytest.approx(0.02**2 / 2 / 3)


def test_until_two_boots_are_known_boots_are_assumed_to_differ():
    known = learn_precision([boot(0, 100.0)], CELL)

    assert known == Precision(ASSUMED_SPREAD**2, None)
