from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from autotune.sampling.greybox.calibration import look_back
from tests.sampling.greybox.small_surface import SPACE, Server

TEXTS = [
    "budget=0",
    "budget=15,topk=1",
    "budget=48,topk=4",
    "budget=4,topk=2",
    "budget=32,topk=4",
    "budget=8,topk=4",
    "budget=24,topk=2",
    "budget=12,topk=6,window=128",
]


def booted(noise: float = 0.02, seed: int = 0) -> Server:
    server = Server(noise=noise, seed=seed)
    server.boot_all(TEXTS)
    return server


def test_every_first_boot_is_compared_with_what_was_expected_before_it():
    server = booted()
    server.boot_all(TEXTS[:2])

    seen = look_back(server.history(), SPACE)

    assert [item.trial for item in seen] == [number for number in range(1, 9) for _ in range(2)]
    assert {item.concurrency for item in seen} == {1, 32}
    for item in seen:
        ratio = math.log(item.measured_tokens_per_s / item.expected_tokens_per_s)
        assert item.surprise == pytest.approx(ratio / item.deviation)


def test_an_expectation_does_not_know_what_came_later():
    server = booted()
    before = look_back(server.history(), SPACE)
    last = server.trials[-1]
    cells = tuple(
        replace(cell, decode_tokens_per_s=replace(cell.decode_tokens_per_s, value=1.0)) for cell in last.cells
    )
    server.trials[-1] = replace(last, cells=cells)

    after = look_back(server.history(), SPACE)

    assert after[:-2] == before[:-2]
    assert [item.expected_tokens_per_s for item in after] == [item.expected_tokens_per_s for item in before]


def test_expectations_are_about_as_wrong_as_they_say():
    surprises = np.array([item.surprise for seed in range(4) for item in look_back(booted(seed=seed).history(), SPACE)])

    assert np.mean(np.abs(surprises) <= 1.96) > 0.85
    assert 0.3 < np.sqrt(np.mean(surprises**2)) < 1.6
