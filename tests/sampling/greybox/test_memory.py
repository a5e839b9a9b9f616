"""What is concluded from the memory that servers left free; the servers have memory of a known law."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from autotune.sampling.greybox.encoding import Encoding, Rows, Vector
from autotune.sampling.greybox.feasibility import predict_serves
from autotune.sampling.greybox.memory import FEWEST_TOLD, predict_room
from autotune.trial import Configuration
from tests.sampling.greybox.small_surface import SPACE, Server, whole

ENCODING = Encoding(SPACE)
EVERY = np.arange(len(ENCODING))
NOBODY = np.zeros(0, dtype=np.intp)
FAR_APART = (
    "budget=6,topk=1",
    "budget=8,topk=2",
    "budget=12,topk=4",
    "budget=16,topk=8,window=128",
    "budget=20,topk=3",
)


def free_gb(configuration: Configuration) -> float:
    """Each node takes more the more tokens are kept; a little more than half of the space fits."""
    nodes, topk = whole(configuration, "budget") + 1, whole(configuration, "topk")
    return 10.0 - nodes * (0.12 + 0.015 * topk)


def fits(configuration: Configuration) -> bool:
    return free_gb(configuration) > 0.4


class TellingServer(Server):
    """Says how much memory it left free, within 0.03 GB."""

    def boot_all(self, texts: Sequence[str]) -> None:
        chance = random.Random(self.seed)  # noqa: S311
        for text in texts:
            configuration = self.space.parse(text)
            boot = self.boot(configuration).boot
            if boot is not None:
                told = replace(boot, free_memory_gb=free_gb(configuration) + chance.gauss(0, 0.03))
                self.trials[-1] = replace(self.trials[-1], boot=told)


def room(server: Server, ran_out: Rows = NOBODY) -> Vector | None:
    return predict_room(server.history(), ENCODING, ran_out, EVERY)


def test_a_limit_is_seen_before_anything_ran_out():
    server = TellingServer(fits=fits)
    server.boot_all([*FAR_APART, "budget=28,topk=2", "budget=24,topk=6,window=128"])

    known = predict_serves(server.history(), ENCODING, EVERY)

    is_right = np.array([fits(configuration) for configuration in SPACE.configurations])
    far = np.abs([free_gb(configuration) - 0.4 for configuration in SPACE.configurations]) > 1.5
    assert np.mean((known > 0.5) == is_right) > 0.9
    assert known[far & is_right].min() > 0.5
    assert np.all(known[ENCODING.is_plain] == 1)


def test_little_is_concluded_from_few_boots():
    server = TellingServer(fits=fits)
    server.boot_all(FAR_APART[: FEWEST_TOLD - 1])

    assert room(server) is None


def test_a_server_that_says_nothing_is_judged_by_what_ran_out_alone():
    server = Server(fits=fits)
    server.boot_all(FAR_APART)

    assert room(server) is None
    assert np.all(predict_serves(server.history(), ENCODING, EVERY) == 1)


def test_memory_that_no_size_changes_keeps_nothing_from_starting():
    """A server that gives what is left to its cache always leaves the same free."""
    server = TellingServer()
    server.boot_all(FAR_APART)
    server.trials = [
        trial
        if trial.boot is None or trial.boot.free_memory_gb is None
        else replace(trial, boot=replace(trial.boot, free_memory_gb=5.0 + 0.01 * (-1) ** trial.number))
        for trial in server.trials
    ]

    known = room(server)

    assert known is not None
    assert known.min() > 0.95


def test_how_much_must_be_left_is_learned_from_what_ran_out_with_some_left():
    server = TellingServer(fits=lambda configuration: free_gb(configuration) > 2.5)
    server.boot_all([*FAR_APART, "budget=24,topk=4", "budget=32,topk=5"])
    row = ENCODING.row(SPACE.parse("budget=36,topk=6"))  # 2.2 GB would be left
    near = ENCODING.row(SPACE.parse("budget=34,topk=7"))  # 2.1 GB
    assert row is not None
    assert near is not None
    before, after = room(server), room(server, np.array([row]))

    assert before is not None
    assert after is not None
    assert before[near] > 0.8
    assert after[near] < 0.4


def test_what_is_larger_leaves_no_more():
    server = TellingServer(fits=fits)
    server.boot_all(FAR_APART)
    known = room(server)
    assert known is not None

    chances = [known[row] for budget in range(8, 65) if (row := ENCODING.row(SPACE.parse(f"budget={budget},topk=8")))]

    assert np.all(np.diff(chances) <= 1e-3)


@pytest.mark.parametrize("count", [6, 40])
def test_what_ran_out_is_impossible_however_much_seemed_to_be_left(count: int):
    server = TellingServer(fits=lambda configuration: configuration["topk"] != 8 and fits(configuration))
    server.boot_all([f"budget={5 + index % 20},topk={1 + index % 3}" for index in range(count)])
    server.boot_all(["budget=16,topk=8"])
    row = ENCODING.row(SPACE.parse("budget=17,topk=8"))
    assert row is not None

    assert predict_serves(server.history(), ENCODING, EVERY)[row] == 0
