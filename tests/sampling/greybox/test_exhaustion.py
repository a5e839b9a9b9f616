from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from autotune.objectives import LEAST_GAIN
from autotune.pareto import hypervolume
from autotune.sampling.greybox.encoding import Encoding
from autotune.sampling.greybox.exhaustion import Remaining, find_remaining
from autotune.sampling.greybox.standing import Standing, find_settled, find_standing
from tests.sampling.greybox.small_surface import SETTINGS, SPACE, Server

ENCODING = Encoding(SPACE)
FEW = ["budget=0", "budget=15,topk=1", "budget=48,topk=4", "budget=4,topk=2"]


def stand(server: Server) -> tuple[Standing, np.ndarray]:
    history = server.history()
    standing = find_standing(history, ENCODING)
    assert standing is not None
    return standing, np.setdiff1d(np.arange(len(ENCODING)), sorted(find_settled(history, ENCODING)))


def look(server: Server, chance: float = 1.0) -> Remaining:
    standing, candidates = stand(server)
    return find_remaining(standing, candidates, np.full(len(candidates), chance), SETTINGS.export)


def booted(*more: str) -> Server:
    server = Server(noise=0.005)
    server.boot_all([*FEW, *more])
    return server


def test_much_is_left_while_little_was_measured_and_less_the_more_was():
    early = look(booted())
    late = look(booted(*(f"budget={budget},topk={topk}" for budget in (8, 12, 16, 20, 24) for topk in (2, 6))))

    assert not early.is_nothing
    assert late.merit < early.merit
    assert late.area < early.area


def test_half_of_what_is_worth_a_trial_counts_as_nothing_however_quiet_the_machine():
    standing, candidates = stand(booted())
    remaining = find_remaining(standing, candidates, np.ones(len(candidates)), SETTINGS.export)
    faster = [(c1 * (1 + LEAST_GAIN), c32 * (1 + LEAST_GAIN)) for c1, c32 in standing.front]

    assert remaining.least_merit == pytest.approx(math.log1p(LEAST_GAIN) / 2)
    assert 1 + remaining.least_area == pytest.approx(
        hypervolume(faster, standing.reference) / hypervolume(standing.front, standing.reference)
    )
    assert not replace(remaining, merit=1.01 * remaining.least_merit, area=0.0).is_nothing
    assert not replace(remaining, merit=0.0, area=1.01 * remaining.least_area).is_nothing
    assert replace(remaining, merit=0.99 * remaining.least_merit, area=0.99 * remaining.least_area).is_nothing


def test_what_surely_does_not_serve_is_nothing_to_win():
    remaining = look(booted(), chance=0.0)

    assert (remaining.merit, remaining.area) == (0, 0)
    assert remaining.is_nothing


def test_without_candidates_nothing_is_left():
    standing, _ = stand(booted())

    assert find_remaining(standing, np.zeros(0, dtype=np.intp), np.zeros(0), SETTINGS.export).is_nothing


def test_the_same_study_is_looked_at_alike():
    assert look(booted()) == look(booted())


def test_the_recommended_configuration_is_the_best_by_the_model_that_loses_nowhere():
    server = booted("budget=16,topk=6")
    standing, _ = stand(server)
    ratios = standing.model.forecast(standing.complete).mean - standing.home
    allowed = np.all(ratios >= 0, axis=1)

    assert standing.recommended in standing.complete[allowed]
    assert standing.best == pytest.approx(ratios[allowed].mean(axis=1).max())
