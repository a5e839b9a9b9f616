"""When a night ends, how many trials fit, and what it can prove."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from autotune.doctor.finding import Level
from autotune.doctor.night import (
    ASSUMED_TOKENS_PER_S,
    Expectation,
    assume_measuring_s,
    expect,
    judge_end,
    judge_gain,
)
from autotune.export.findings import Noise
from autotune.interval import ASSUMED_SPREAD
from autotune.settings import EvaluationSettings
from autotune.trial import TrialKind, TrialRecord
from autotune.tuner.limits import Limits
from tests.records import make_boot, make_settings, make_trial

NOW = datetime(2026, 1, 1, 22, 0, tzinfo=UTC)
NO_EVALUATION = EvaluationSettings(enabled=False)
SETTINGS = make_settings(evaluation=NO_EVALUATION)


def ask(limits: Limits, trials: tuple[TrialRecord, ...] = (), journal_load_s: float | None = 615.0) -> Expectation:
    return expect(SETTINGS, limits, trials, journal_load_s=journal_load_s, now=NOW)


def done(number: int, load_s: float, duration_s: float, kind: TrialKind = TrialKind.SEARCH) -> TrialRecord:
    return replace(
        make_trial(number, kind=kind), boot=replace(make_boot(), ready_after_s=load_s), duration_s=duration_s
    )


def test_a_trial_is_measured_in_waves_as_wide_as_the_concurrency():
    """Two repeats and the warm-up of 512 tokens at 32, and of four single requests each at 1."""
    tokens = 512 * (2 + 1) + 512 * (4 * 2 + 1)
    prompts = (32 * 2 + 32 + 4 * 2 + 1) * 128

    assert assume_measuring_s(SETTINGS) == pytest.approx(tokens / ASSUMED_TOKENS_PER_S + prompts / 5000)


def test_coding_problems_come_on_top():
    evaluation = EvaluationSettings(problems=40, concurrency=16, max_tokens=300)

    assert assume_measuring_s(make_settings(evaluation=evaluation)) - assume_measuring_s(SETTINGS) == pytest.approx(
        3 * 300 / ASSUMED_TOKENS_PER_S
    )


def test_a_night_is_boots_times_loading_and_measuring_then_the_restore():
    expected = ask(Limits(trials=20))
    trial_s = 615 + assume_measuring_s(SETTINGS)

    assert expected.total_s == pytest.approx(23 * trial_s + 615)
    assert expected.end is not None
    assert (expected.end - NOW).total_seconds() == pytest.approx(expected.total_s, abs=1e-3)


def test_a_single_trial_needs_one_boot_of_the_baseline():
    expected = ask(Limits(trials=1))

    assert expected.total_s == pytest.approx(2 * (615 + assume_measuring_s(SETTINGS)) + 615)


def test_the_load_time_comes_from_the_study_then_the_journal_then_the_settings():
    trials = (done(0, 400.0, 900.0, TrialKind.BASELINE),)

    seen, journal, bound = ask(Limits(trials=2), trials), ask(Limits(trials=2)), ask(Limits(trials=2), (), None)

    assert (seen.load.seconds, seen.load.source) == (400.0, "seen in this study")
    assert (journal.load.seconds, "by its journal" in journal.load.source) == (615.0, True)
    assert (bound.load.seconds, "at most" in bound.load.source) == (SETTINGS.server.ready_timeout_s, True)
    assert (seen.measuring.seconds, seen.measuring.source) == (500.0, "seen in this study")


def test_what_is_counted_already_is_not_run_again():
    trials = (done(0, 400.0, 900.0, TrialKind.BASELINE), *(done(number, 400.0, 900.0) for number in range(1, 6)))

    expected = ask(Limits(trials=8), trials)

    assert expected.trials == 3
    assert expected.total_s == pytest.approx((3 + 2) * 900 + 400)


def test_until_says_how_many_trials_fit_and_the_latest_start():
    trials = tuple(done(number, 400.0, 900.0, TrialKind.BASELINE) for number in range(3))
    until = datetime(2026, 1, 2, 6, 30, tzinfo=UTC)

    free = ask(Limits(until=until), trials)
    counted = ask(Limits(until=until, trials=20), trials)

    assert free.fitting == math.floor((8.5 * 3600 - 400) / 900)
    assert free.latest_start == until - timedelta(seconds=900 + 400)
    assert counted.latest_start == until - timedelta(seconds=20 * 900 + 400)
    assert counted.end == NOW + timedelta(seconds=20 * 900 + 400)


def test_a_night_that_is_too_short_is_warned_of_with_the_latest_start():
    until = NOW + timedelta(hours=3)
    limits = Limits(trials=20, until=until)

    judged = judge_end(ask(limits), limits)

    assert judged.level is Level.WARNING
    assert "20 were asked for" in judged.found
    assert "for 20 trials start by" in (judged.advice or "")


def test_a_night_in_which_nothing_fits_is_warned_of():
    limits = Limits(duration_s=600.0)

    judged = judge_end(ask(limits), limits)

    assert judged.level is Level.WARNING
    assert judged.found.startswith("about 0 trials fit")


def test_without_a_limit_nothing_is_promised():
    expected = ask(Limits())

    assert (expected.end, expected.total_s, expected.fitting) == (None, None, None)
    assert judge_end(expected, Limits()).level is Level.OK


@pytest.mark.parametrize("limits", [Limits(trials=2), Limits(duration_s=1e5), Limits(trials=2, duration_s=1e5)])
def test_a_night_that_fits_is_ok_and_names_what_the_estimate_rests_on(limits):
    judged = judge_end(ask(limits), limits)

    assert judged.level is Level.OK
    assert "10 min 15 s (of the server that runs now, by its journal)" in judged.found


def test_the_smallest_gain_comes_from_boots_that_were_seen():
    judged = judge_gain(Noise(4, 0.01, 0.036), 4)

    assert judged.found == "the smallest gain that one boot can prove is 3.6 %, by 4 boots of the baseline"


def test_boots_that_differ_too_much_prove_nothing_and_are_warned_of():
    judged = judge_gain(Noise(3, 0.15, 1.03), 3)

    assert judged.level is Level.WARNING
    assert judged.found == "3 boots of the baseline differ so much that no gain can be proven"


@pytest.mark.parametrize("noise", [None, Noise(2, 0.01, None)])
def test_until_three_boots_were_seen_their_spread_is_assumed_and_said_to_be(noise):
    """Student's quantile of two degrees of freedom is 4.303."""
    gain = math.expm1(4.302653 * ASSUMED_SPREAD * math.sqrt(1 + 1 / 3))

    judged = judge_gain(noise, 2)

    assert f"{100 * gain:.0f} %, assuming that boots differ by 5 %" in judged.found
