from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autotune.sampling.greybox.durations import expected_seconds
from autotune.sampling.greybox.encoding import Encoding
from autotune.trial import BootRecord, TrialState
from tests.sampling.greybox.small_surface import SPACE, Server

ENCODING = Encoding(SPACE)
ROWS = np.array(
    [ENCODING.row(SPACE.parse(text)) for text in ("budget=0", "budget=8,topk=1", "budget=9")], dtype=np.intp
)


def test_a_trial_takes_what_those_of_its_arm_took():
    server = Server()  # a tree: boot 60 s, measuring 40 s
    server.boot_all(["budget=0"])
    server.trials[-1] = replace(
        server.trials[-1], boot=BootRecord(1, ("serve",), {}, {}, 30.0, stopped_after_s=5.0), duration_s=55.0
    )

    plain_s, chain_s, tree_s = expected_seconds(server.history(), np.ones(3), ENCODING, ROWS)

    assert plain_s == pytest.approx(55)
    assert tree_s == pytest.approx(100)
    assert chain_s == pytest.approx((60 + 35) / 2 + (40 + 20) / 2)  # never booted: as the others on average


def test_a_boot_that_does_not_serve_is_paid_and_measures_nothing():
    server = Server()

    known_s = expected_seconds(server.history(), np.array([1.0, 0.5, 0.0]), ENCODING, ROWS)

    assert known_s == pytest.approx([100, 80, 60])


def test_without_times_all_take_the_same():
    server = Server()
    server.trials[0] = replace(server.trials[0], duration_s=None)

    assert expected_seconds(server.history(), np.ones(3), ENCODING, ROWS) == pytest.approx(np.ones(3))


def test_a_trial_that_ended_infeasible_says_how_long_a_boot_takes_and_nothing_about_measuring():
    server = Server()
    trial = server.boot(SPACE.parse("budget=40"))
    server.trials[-1] = replace(trial, state=TrialState.INFEASIBLE, duration_s=1000.0)

    assert expected_seconds(server.history(), np.ones(3), ENCODING, ROWS)[2] == pytest.approx(100)
