from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from autotune.baseline import count_baseline_boots, measure_spread, pool_baseline, with_one_baseline
from autotune.confirmation.plan import Plan
from autotune.trial import TrialKind, TrialRecord, TrialState
from tests.records import make_cell, make_settings, make_trial

SETTINGS = make_settings()


def boot(number: int, c1: float, **changes: Any) -> TrialRecord:
    return replace(make_trial(number, c1, kind=TrialKind.BASELINE), **changes)


def test_there_is_no_baseline_until_one_boot_is_complete():
    assert pool_baseline([make_trial(1), boot(0, 100, state=TrialState.MEASURING)], SETTINGS) is None


def test_one_boot_is_the_baseline_as_it_is():
    only = boot(0, 100)

    assert pool_baseline([only, make_trial(1)], SETTINGS) is only


def test_boots_are_pooled_by_their_geometric_mean():
    pooled = pool_baseline([boot(0, 100), make_trial(1, 999), boot(2, 400)], SETTINGS)

    assert pooled is not None
    assert pooled.number == 0
    assert pooled.objectives.tokens_per_s_c1 is not None
    assert pooled.objectives.tokens_per_s_c1.value == pytest.approx(200)


def test_the_noise_between_three_boots_is_the_interval():
    pooled = pool_baseline([boot(0, 90), boot(1, 100), boot(2, 110)], SETTINGS)

    assert pooled is not None
    figure = {cell.cell.concurrency: cell.decode_tokens_per_s for cell in pooled.cells}[1]
    # Logs 4.500, 4.605, 4.700: standard deviation 0.1005, Student's quantile 4.303 at two degrees.
    assert figure.low == pytest.approx(99.67 / 1.2836, rel=1e-3)
    assert figure.high == pytest.approx(99.67 * 1.2836, rel=1e-3)


def test_two_boots_leave_a_wide_interval():
    pooled = pool_baseline([boot(0, 99), boot(1, 101)], SETTINGS)

    assert pooled is not None
    figure = {cell.cell.concurrency: cell.decode_tokens_per_s for cell in pooled.cells}[1]
    # Logs 0.02 apart: Student's quantile 12.7 at one degree times half of that.
    assert figure.high == pytest.approx(99.995 * math.exp(12.706 * 0.0100), rel=1e-3)


def test_prompts_that_every_boot_answered_are_averaged():
    cells = [
        (make_cell(32, 400.0), make_cell(1, 100.0, prompts=prompts)) for prompts in ({"a": 1.0, "b": 2.0}, {"a": 3.0})
    ]

    pooled = pool_baseline([boot(index, 100, cells=cell) for index, cell in enumerate(cells)], SETTINGS)

    assert pooled is not None
    assert pooled.cells[1].per_prompt_log_speed == {"a": 2.0}


def test_a_cell_that_one_boot_measured_twice_counts_once():
    first = boot(0, 100, cells=(make_cell(32, 400.0), make_cell(1, 1.0), make_cell(1, 100.0)))

    pooled = pool_baseline([first, boot(1, 100)], SETTINGS)

    assert pooled is not None
    assert [cell.cell.concurrency for cell in pooled.cells] == [32, 1]
    assert pooled.cells[1].decode_tokens_per_s.value == pytest.approx(100.0)


def test_the_answers_of_every_boot_count_as_answers_to_the_same_problems():
    """A majority over boots would be nearer to 0 and 1 than one boot is, and call equal trials worse."""
    boots = [
        replace(boot(number, 100), evaluation=make_trial(0, pass_at_1=share).evaluation)
        for number, share in enumerate((0.5, 0.75, 0.75))
    ]

    pooled = pool_baseline(boots, SETTINGS)

    assert pooled is not None
    assert pooled.objectives.pass_at_1 is not None
    assert pooled.objectives.pass_at_1.value == pytest.approx(2 / 3)
    assert pooled.evaluation is not None
    assert {0, 1, 2} == {item.sample for item in pooled.evaluation.results}
    assert len({(item.problem, item.sample) for item in pooled.evaluation.results}) == pooled.objectives.pass_at_1.count


def test_the_spread_between_boots_comes_with_the_noise_inside_them():
    """Rounds of one boot differ by noise alone; the rest of what boots differ by is the boots' own."""

    def rounds(number: int, c1: float, *logs: float) -> TrialRecord:
        cells = (make_cell(32, 400.0), replace(make_cell(1, c1), round_log_speeds=logs))
        return boot(number, c1, cells=cells)

    spread = measure_spread([rounds(0, 90, 0.0, 0.04), rounds(1, 100, 0.0, 0.0), rounds(2, 111)], SETTINGS)

    assert spread is not None
    assert spread.boots == 3
    assert spread.deviation == pytest.approx(0.1049, rel=1e-3)
    # A round has a variance of 0.0004; two boots have two rounds, one has one.
    assert spread.inside == pytest.approx(math.sqrt(0.0004 * (1 / 2 + 1 / 2 + 1) / 3))
    assert spread.inside_degrees == 2
    assert spread.between == pytest.approx(math.sqrt(0.1049**2 - 0.0004 * 2 / 3), rel=1e-3)


def test_one_round_says_nothing_about_the_noise_inside_a_boot():
    spread = measure_spread([boot(0, 90), boot(1, 110)], SETTINGS)

    assert spread is not None
    assert (spread.inside, spread.between) == (None, None)


def test_every_boot_of_a_pooled_cell_is_kept_for_comparisons():
    pooled = pool_baseline([boot(0, 90), make_trial(1), boot(2, 110)], SETTINGS)

    assert pooled is not None
    assert [(each.trial, round(math.exp(each.log_speed))) for each in pooled.cells[1].boots] == [(0, 90), (2, 110)]


def test_the_baselines_boots_of_a_confirmation_are_pooled_with_the_others():
    plan = Plan(0, (1,), 3, 0.05, "balanced")
    again = [
        replace(make_trial(number, 120, 480, kind=TrialKind.CONFIRMATION), confirmation=plan.boot(0, None))
        for number in (5, 6)
    ]
    trials = [boot(0, 100), make_trial(1, 300, 300), *again]
    pooled = pool_baseline(trials, SETTINGS)
    speed = None if pooled is None else pooled.objectives.tokens_per_s_c1

    assert speed is not None
    assert count_baseline_boots(trials) == 3
    assert speed.value == pytest.approx((100 * 120 * 120) ** (1 / 3))


def test_a_front_has_one_record_for_each_configuration_that_was_booted_again():
    plan = Plan(0, (1,), 3, 0.05, "balanced")
    again = replace(make_trial(5, 100, 100, kind=TrialKind.CONFIRMATION), confirmation=plan.boot(0, 1))
    soak = replace(make_trial(6, 900, 900, kind=TrialKind.CONFIRMATION), confirmation=plan.boot(0, 1, is_soak=True))
    points = with_one_baseline([boot(0, 100), make_trial(1, 400, 400), make_trial(2, 50, 50), again, soak], SETTINGS)

    assert [point.number for point in points] == [0, 1, 2]
    speed = points[1].objectives.tokens_per_s_c1
    assert speed is not None
    assert speed.value == pytest.approx(200)
