from __future__ import annotations

import os

import pytest

from autotune.simulation.campaign import work_off


def double(number: int) -> tuple[int, int]:
    if number < 0:
        raise ValueError(f"{number} cannot be played")
    return 2 * number, os.getpid()


@pytest.mark.parametrize("processes", [1, 2])
def test_every_piece_of_work_is_done_once_and_kept(processes):
    kept: list[tuple[int, int]] = []
    told: list[int] = []

    work_off(range(5), double, processes=processes, keep=kept.append, observer=told.append)

    assert sorted(value for value, _ in kept) == [0, 2, 4, 6, 8]
    assert told == [1, 2, 3, 4, 5]
    assert (os.getpid() in {process for _, process in kept}) == (processes == 1)


@pytest.mark.parametrize("processes", [1, 2])
def test_what_was_done_before_a_failure_is_kept(processes):
    kept: list[tuple[int, int]] = []

    with pytest.raises(ValueError, match="-1 cannot be played"):
        work_off([3, -1], double, processes=processes, keep=kept.append, observer=lambda _done: None)

    assert [value for value, _ in kept] == [6]


def test_the_environment_is_left_as_it_was(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)

    work_off([1], double, processes=2, keep=lambda _result: None, observer=lambda _done: None)

    assert "OMP_NUM_THREADS" not in os.environ
