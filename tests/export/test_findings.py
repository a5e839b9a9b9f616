"""Gains, noise, time and the recommendation of a stored study."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from autotune.export.findings import accept_length, estimate_noise, find, measure_gain
from autotune.export.wording import render_boots, render_gain_with_interval
from autotune.trial import Figure, TrialKind, TrialRecord
from tests.stored_study import sample_settings


def with_speed(trial: TrialRecord, concurrency: int, speed: float) -> TrialRecord:
    """Replace the measured speed of one cell."""
    cells = tuple(
        replace(cell, decode_tokens_per_s=Figure(speed, 8)) if cell.cell.concurrency == concurrency else cell
        for cell in trial.cells
    )
    return replace(trial, cells=cells)


def test_a_gain_is_the_ratio_of_the_speeds_that_are_shown(view, findings):
    trial, baseline = view.trials[3], view.baseline

    gain = findings.gains_c1[3]

    assert gain.value == pytest.approx(
        trial.objectives.tokens_per_s_c1.value / baseline.objectives.tokens_per_s_c1.value
    )
    assert gain.low < gain.value < gain.high
    assert gain.count == 8


def test_a_gain_over_contexts_is_their_weighted_geometric_mean(view):
    settings = sample_settings().model_copy(
        update={"objectives": sample_settings().objectives.model_copy(update={"context_weights": {"128": 3.0}})}
    )
    first = view.trials[3].cells[1]
    long = replace(first, cell=replace(first.cell, context=768))
    base = replace(view.trials[0], cells=(first, long))
    trial = replace(
        view.trials[3],
        cells=(
            replace(first, decode_tokens_per_s=Figure(2 * first.decode_tokens_per_s.value, 8)),
            replace(long, decode_tokens_per_s=Figure(0.5 * long.decode_tokens_per_s.value, 8)),
        ),
    )

    gain = measure_gain(trial, base, 1, settings)

    assert gain is not None
    assert gain.value == pytest.approx(2**0.75 * 0.5**0.25)


def test_a_trial_that_shares_no_cell_with_the_baseline_has_no_gain(view):
    assert measure_gain(view.trials[5], view.baseline, 1, view.settings) is None
    assert measure_gain(view.trials[5], view.baseline, 32, view.settings) is not None


def test_without_an_interval_of_its_parts_a_gain_has_none(view):
    trial, baseline = (
        replace(item, cells=tuple(replace(cell, per_prompt_log_speed={}) for cell in item.cells))
        for item in (with_speed(view.trials[3], 1, 110.0), with_speed(view.trials[0], 1, 100.0))
    )

    gain = measure_gain(trial, baseline, 1, view.settings)

    assert gain is not None
    assert gain == Figure(gain.value, 0)
    assert gain.value == pytest.approx(1.1)


def test_a_gain_over_too_few_common_prompts_counts_none_because_none_was_paired(view):
    trial, baseline = view.trials[3], view.baseline
    few = replace(
        trial,
        cells=tuple(
            replace(cell, per_prompt_log_speed=dict(list(cell.per_prompt_log_speed.items())[:2]))
            for cell in trial.cells
        ),
    )

    gain = measure_gain(few, baseline, 32, view.settings)

    assert gain is not None
    assert gain.count == 0
    assert gain.low is not None
    assert render_gain_with_interval(gain).endswith(", not by prompt)")


def test_the_baseline_is_one_point_of_the_front_however_often_it_was_booted(view):
    """Else its luckiest boot would be on the front, and might be recommended for its luck."""
    boots = [trial for trial in view.trials if trial.kind is TrialKind.BASELINE]
    lucky = replace(
        boots[1],
        objectives=replace(boots[1].objectives, tokens_per_s_c1=Figure(900.0, 8), tokens_per_s_c32=Figure(9000.0, 8)),
    )
    only_baselines = replace(view, trials=(boots[0], lucky))

    found = find(only_baselines)

    assert [trial.number for point in found.front for trial in point.trials] == [0]
    assert found.choice is not None
    assert found.choice.trial.number == 0


def test_noise_is_unknown_until_the_baseline_was_booted_twice(view):
    assert estimate_noise(view.trials[:8], view.settings) is None


def test_noise_is_the_spread_of_the_log_speeds_of_baseline_boots(view):
    noise = estimate_noise(view.trials, view.settings)

    assert noise is not None
    assert noise.boots == 2
    assert noise.spread == pytest.approx(math.log(1.02) / math.sqrt(2))
    assert noise.smallest_gain is None, "two boots say next to nothing about the size of their spread"


def test_three_boots_of_the_baseline_say_which_gain_can_be_proven(view):
    noise = estimate_noise((*view.trials, replace(view.trials[0], number=9)), view.settings)

    assert noise is not None
    assert noise.boots == 3
    assert noise.spread == pytest.approx(math.log(1.02) / math.sqrt(3))
    assert noise.smallest_gain == pytest.approx(math.expm1(4.30265 * noise.spread * math.sqrt(4 / 3)), rel=1e-4)


def test_boots_that_were_reused_are_not_counted_as_boots(view):
    trial = view.trials[0]
    reused = replace(view, trials=(replace(trial, boot=replace(trial.boot, reused=True)), *view.trials[1:]))

    assert find(view).time.boots == 9
    assert find(reused).time.boots == 8
    assert find(reused).time.adopted == 1
    assert render_boots(find(view).time) == "9 boots"
    assert render_boots(find(reused).time) == "8 boots, 1 running server used"


def test_an_empty_study_has_no_findings(view):
    found = find(replace(view, trials=()))

    assert found.baseline is None
    assert found.choice is None
    assert found.front == ()
    assert found.noise is None
    assert found.time.total_s == 0.0


def test_boots_of_the_baseline_have_no_gain_over_themselves(view, findings):
    assert findings.baseline_boots == 2
    for gains in (findings.gains_c1, findings.gains_c32):
        assert set(gains).isdisjoint({0, 8})
        assert 3 in gains


def test_a_trial_that_was_tried_again_is_judged_by_its_second_attempt(view):
    trial = view.trials[3]
    failed = with_speed(trial, 1, 1.0).cells
    broken = tuple(replace(cell, accept_length=Figure(1.0, 8)) for cell in failed)

    again = replace(trial, cells=(*broken, *trial.cells))

    assert measure_gain(again, view.baseline, 1, view.settings) == measure_gain(trial, view.baseline, 1, view.settings)
    assert accept_length(again, 1) == accept_length(trial, 1)
