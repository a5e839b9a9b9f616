from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autotune.sampling.greybox.encoding import Encoding
from autotune.sampling.greybox.feasibility import is_larger, predict_feasible, predict_serves
from autotune.trial import Configuration, TrialState
from tests.records import make_evaluation
from tests.sampling.greybox.small_surface import SPACE, Server, whole

ENCODING = Encoding(SPACE)
EVERY = np.arange(len(ENCODING))


def fits_up_to(budget: int):
    def fits(configuration: Configuration) -> bool:
        return whole(configuration, "budget") <= budget

    return fits


def chance(server: Server, text: str) -> float:
    row = ENCODING.row(SPACE.parse(text))
    assert row is not None
    return float(predict_serves(server.history(), ENCODING, EVERY)[row])


def test_nothing_is_suspected_before_something_failed():
    server = Server()
    server.boot_all(["budget=64,topk=8"])

    assert np.all(predict_feasible(server.history(), ENCODING, EVERY) == 1)


def test_what_is_larger_than_what_ran_out_of_memory_runs_out_too():
    """case 8: one out-of-memory teaches its neighbourhood."""
    server = Server(fits=fits_up_to(40))
    server.boot_all(["budget=48,topk=4,window=128"])
    failed = ENCODING.row(SPACE.parse("budget=48,topk=4,window=128"))
    assert failed is not None

    known = predict_serves(server.history(), ENCODING, EVERY)

    assert np.all(known[is_larger(ENCODING, failed)] == 0)
    assert chance(server, "budget=64,topk=8") == 0
    assert chance(server, "budget=46,topk=4,window=128") < 0.5
    assert chance(server, "budget=16,topk=4,window=128") > 0.8
    assert chance(server, "budget=0") > 0.9


def test_the_border_moves_with_what_served():
    server = Server(fits=fits_up_to(40))
    server.boot_all(["budget=60,topk=4"])
    before = chance(server, "budget=36,topk=4")
    server.boot_all(["budget=40,topk=4"])

    assert chance(server, "budget=36,topk=4") > before


def test_a_larger_one_that_served_takes_the_size_back_as_the_cause():
    server = Server(fits=lambda configuration: configuration["budget"] != 48)
    server.boot_all(["budget=48,topk=4", "budget=64,topk=4"])

    assert chance(server, "budget=60,topk=4") > 0.5


def test_a_refusal_is_no_matter_of_size():
    server = Server(fits=fits_up_to(40))
    server.boot_all(["budget=44,topk=4,window=32"])
    server.trials[-1] = replace(server.trials[-1], reason="ConfigurationRejected: no such window")

    assert chance(server, "budget=64,topk=8") > 0
    assert chance(server, "budget=45,topk=4,window=32") < 0.5


def test_one_missed_guard_of_pass_at_1_is_an_accident_and_four_are_not():
    server = Server()
    server.boot_all(["budget=8,topk=4", "budget=9,topk=4", "budget=10,topk=4", "budget=11,topk=4"])
    good, bad = make_evaluation(36, 4), make_evaluation(18, 22)
    server.trials[0] = replace(server.trials[0], evaluation=good)

    def judged(missing: int) -> float:
        for index in range(1, 5):
            is_bad = index <= missing
            server.trials[index] = replace(
                server.trials[index],
                evaluation=bad if is_bad else good,
                state=TrialState.INFEASIBLE if is_bad else TrialState.COMPLETE,
            )
        return chance(server, "budget=12,topk=4")

    assert judged(1) == 1
    assert judged(4) < 0.5


@pytest.mark.parametrize("text", ["budget=48,topk=4", "budget=64,topk=2"])
def test_as_large_is_meant_in_every_number(text: str):
    row = ENCODING.row(SPACE.parse(text))
    assert row is not None
    larger = is_larger(ENCODING, row)

    assert larger[row]
    assert np.all(ENCODING.sizes[larger] >= ENCODING.sizes[row])
    assert not larger[ENCODING.row(SPACE.parse("budget=16,topk=8"))]
