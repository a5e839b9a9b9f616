from __future__ import annotations

import math
from dataclasses import replace

import pytest

from autotune.sampling.base import History
from autotune.sampling.greybox.boots import read_boots
from autotune.sampling.greybox.encoding import Encoding
from autotune.trial import Cell, TrialKind, TrialRecord, TrialState
from tests.records import STUDY, make_settings
from tests.sampling.greybox.small_surface import SPACE, Server, accept_length, log_speeds, measure

ENCODING = Encoding(SPACE)
TWO_CONTEXTS = make_settings(
    STUDY.replace("concurrency = 32 }", "concurrency = 32 }, { context = 512, concurrency = 32 }").replace(
        "concurrency = 1 }", "concurrency = 1 }, { context = 512, concurrency = 1 }"
    )
)


def test_a_boot_says_its_log_speeds_and_its_accept_length():
    server = Server()
    server.boot_all(["budget=24,topk=4", "budget=0"])

    boots = read_boots(server.history(), ENCODING)

    assert [boot.trial for boot in boots] == [0, 1, 2]
    tree = boots[1]
    assert tree.log_speeds == pytest.approx(log_speeds(SPACE.parse("budget=24,topk=4")))
    assert tree.log_accept_length == pytest.approx(math.log(accept_length(SPACE.parse("budget=24,topk=4"))))
    assert tree.is_whole
    assert boots[2].log_accept_length is None


def test_every_boot_of_the_baseline_counts():
    server = Server(noise=0.02)
    server.boot(SPACE.resolve(server.settings.baseline), TrialKind.BASELINE)

    assert len(read_boots(server.history(), ENCODING)) == 2


def two_context_trial(number: int, cells: dict[tuple[int, int], float], state: TrialState) -> TrialRecord:
    """Cells by context and concurrency, each with the speed given and an accept length of 3 or, at 512, of 2."""
    return TrialRecord(
        number,
        TrialKind.BASELINE if number == 0 else TrialKind.SEARCH,
        state,
        SPACE.parse("budget=16,topk=4" if number == 0 else f"budget={20 + number}"),
        cells=tuple(
            measure(Cell(context, c), speed, 3.0 if context == 128 else 2.0) for (context, c), speed in cells.items()
        ),
    )


def test_a_cell_that_was_not_measured_is_as_far_ahead_as_the_others_and_less_sure():
    baseline = two_context_trial(
        0, {(128, 32): 400.0, (512, 32): 200.0, (128, 1): 100.0, (512, 1): 50.0}, TrialState.COMPLETE
    )
    pruned = two_context_trial(1, {(128, 32): 440.0}, TrialState.PRUNED)

    boot = read_boots(History(TWO_CONTEXTS, (baseline, pruned), baseline), ENCODING)[1]

    assert boot.log_speeds[0] is None
    assert boot.log_speeds[1] == pytest.approx(math.log(math.sqrt(440 * 220)))
    assert boot.deviations[1] > 0
    assert boot.log_accept_length == pytest.approx(math.log(math.sqrt(3 * 2)))
    assert boot.accept_deviation > 0
    assert not boot.is_whole


@pytest.mark.parametrize("state", [TrialState.FAILED, TrialState.DUPLICATE, TrialState.INTERRUPTED])
def test_a_trial_that_says_nothing_about_its_configuration_says_nothing_here(state: TrialState):
    server = Server()
    server.boot_all(["budget=24,topk=4"])
    server.trials[-1] = replace(server.trials[-1], state=state)

    assert len(read_boots(server.history(), ENCODING)) == 1


def test_without_a_baseline_nothing_is_read():
    server = Server()

    assert read_boots(History(server.settings, tuple(server.trials), None), ENCODING) == ()


def test_rounds_of_a_cell_show_the_noise_inside_the_boot():
    server = Server()
    trial = server.trials[0]
    cells = (replace(trial.cells[0], round_log_speeds=(6.0, 6.04)), trial.cells[1])
    server.trials[0] = replace(trial, cells=cells)

    boot = read_boots(server.history(), ENCODING)[0]

    assert boot.deviations == pytest.approx((0.0, 0.02))
