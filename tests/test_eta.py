from __future__ import annotations

from autotune.eta import learn_durations
from autotune.trial import BootRecord, TrialKind, TrialRecord, TrialState


def trial(number: int, kind: TrialKind, state: TrialState, duration_s: float | None, boot_s: float | None = 10):
    boot = BootRecord(1, (), {}, {}, boot_s)
    return TrialRecord(number, kind, state, {}, boot=boot, duration_s=duration_s)


HISTORY = [
    trial(0, TrialKind.BASELINE, TrialState.COMPLETE, 40),
    trial(1, TrialKind.SEARCH, TrialState.COMPLETE, 50, boot_s=20),
    trial(2, TrialKind.SEARCH, TrialState.PRUNED, 30),
    trial(3, TrialKind.SEARCH, TrialState.FAILED, 500),
    trial(4, TrialKind.SEARCH, TrialState.MEASURING, None),
]


def test_nothing_is_known_before_a_trial_has_ended():
    durations = learn_durations([])

    assert durations.needed_s(restores_server=True) is None
    assert durations.study_left_s(5, 1, restores_server=True) is None


def test_counted_trials_and_the_baseline_are_averaged_apart():
    durations = learn_durations(HISTORY)

    assert (durations.trial_s, durations.baseline_s, durations.longest_s, durations.boot_s) == (40, 40, 50, 20)
    assert durations.study_left_s(3, 1, restores_server=False) == 3 * 40 + 40 + 5


def test_a_profile_teaches_only_how_long_a_boot_takes():
    durations = learn_durations([*HISTORY, trial(9, TrialKind.PROFILE, TrialState.COMPLETE, 900, boot_s=30)])

    assert (durations.trial_s, durations.baseline_s, durations.longest_s, durations.boot_s) == (40, 40, 50, 30)


def test_what_may_not_be_late_is_planned_with_the_longest_trial_and_a_reserve():
    durations = learn_durations(HISTORY)

    assert durations.needed_s(restores_server=True) == 1.2 * 50 + 1.2 * 20 + 5
    assert durations.needed_s(restores_server=False) == 1.2 * 50 + 5


def test_a_server_that_was_reused_teaches_nothing_about_boots():
    durations = learn_durations([trial(0, TrialKind.BASELINE, TrialState.COMPLETE, 40, boot_s=None)])

    assert durations.restore_s(restores_server=True) is None
    assert durations.restore_s(restores_server=False) == 5


def test_the_restore_is_planned_with_the_95th_percentile_of_boots_and_stops():
    def booted(number: int, boot_s: float, stop_s: float | None) -> TrialRecord:
        boot = BootRecord(1, (), {}, {}, boot_s, stopped_after_s=stop_s)
        return TrialRecord(number, TrialKind.SEARCH, TrialState.COMPLETE, {}, boot=boot, duration_s=1000)

    many = learn_durations([booted(number, 600.0 + number, None) for number in range(40)])
    one_is_slow = learn_durations([booted(0, 610, None), *(booted(number, 600, 40) for number in range(1, 40))])

    assert many.boot_s == 637  # 2 of 40 took longer
    assert one_is_slow.boot_s == 600
    assert one_is_slow.restore_s(restores_server=True) == 1.2 * 600 + 1.2 * 40
