"""Which boots ran on a machine that was not itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autotune.baseline import find_baseline_boots, pool_baseline
from autotune.drift import find_drifts, limit_of
from autotune.export.findings import estimate_noise
from autotune.trial import BootCondition, Figure, GpuActivity, TrialKind, TrialRecord
from tests.records import make_boot, make_settings, make_trial


def trial(
    number: int, *canaries: float, gpu: GpuActivity | None = None, kind: TrialKind = TrialKind.BASELINE
) -> TrialRecord:
    figures = tuple(Figure(value, 6, value * 0.99, value * 1.01) for value in canaries)
    condition = BootCondition(figures, () if gpu is None else (gpu,))
    return replace(make_trial(number, 100.0 + number, kind=kind), condition=condition, boot=make_boot())


def test_a_boot_with_a_slow_canary_drifted():
    trials = [trial(0, 1000), trial(1, 1010), trial(2, 990), trial(3, 900), trial(4, 1005)]

    assert find_drifts(trials) == {
        3: ("its canary (prefill of fixed prompts) is -10.2% off the median of 4 other boots; 5.0% is the limit",)
    }


def test_boots_that_always_scatter_widen_the_limit():
    """Four robust standard deviations: what is usual on a shared machine is no drift of one boot."""
    assert find_drifts([trial(index, value) for index, value in enumerate((800, 900, 1000, 1100, 1250, 1300))]) == {}


def test_fewer_than_three_other_boots_judge_nobody():
    assert limit_of([1.0, 2.0]) is None
    assert find_drifts([trial(0, 1000), trial(1, 1000), trial(2, 500)]) == {}


def test_a_canary_that_changes_while_a_boot_is_measured_is_drift_without_others():
    assert find_drifts([trial(0, 1000, 880)]) == {
        0: ("its canary (prefill of fixed prompts) changed by -12.0% while it was measured; 10.0% is the limit",)
    }
    assert find_drifts([trial(0, 1000, 920)]) == {}


def test_a_machine_that_warms_up_in_every_boot_drifts_in_none():
    steady = [trial(index, 1000, 850) for index in range(4)]

    assert find_drifts(steady) == {}
    assert find_drifts([*steady, trial(4, 1000, 700)]) == {
        4: (
            (
                "its canary (prefill of fixed prompts) changed by -30.0% while it was measured, -15.0% being usual; "
                "5.0% is the limit"
            ),
        )
    }


def test_a_canary_as_unsure_as_its_change_is_no_drift():
    unsure = BootCondition((Figure(1000, 6, 800, 1200), Figure(920, 6, 700, 1100)))

    assert find_drifts([replace(make_trial(0), condition=unsure)]) == {}


@pytest.mark.parametrize(
    ("slowed", "drifts"),
    [
        ({"software power cap": 1.0}, False),
        ({"hardware thermal slowdown": 0.05}, False),
        ({"hardware thermal slowdown": 0.4}, True),
        ({}, False),
        (None, False),
    ],
)
def test_heat_and_hardware_slow_a_gpu_down_and_the_power_limit_does_not_count(slowed, drifts):
    gpu = GpuActivity("GPU-a", "GPU 3", 40, 1400.0, 500.0, 91.0, slowed)

    found = find_drifts([trial(0, gpu=gpu)])

    assert found == (
        {
            0: (
                "GPU 3 was slowed down (hardware thermal slowdown) in 40% of 40 samples at up to 91 °C; 10% is the limit",
            )
        }
        if drifts
        else {}
    )


def test_a_drifting_boot_is_left_out_of_the_baseline_and_of_the_noise():
    steady = [trial(index, 1000) for index in range(3)]
    drifting = replace(trial(7, 700), objectives=replace(steady[0].objectives, tokens_per_s_c1=Figure(60.0, 2)))

    trials = [*steady, drifting]
    pooled, alone = pool_baseline(trials, make_settings()), pool_baseline(steady, make_settings())

    assert [boot.number for boot in find_baseline_boots(trials)] == [0, 1, 2]
    assert pooled == alone
    assert estimate_noise(trials, make_settings()) == estimate_noise(steady, make_settings())


def test_drifting_boots_are_the_baseline_where_there_is_no_other():
    only = [trial(0, 1000, 800)]

    assert find_baseline_boots(only) == tuple(only)
