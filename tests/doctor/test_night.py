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
    count_candidates,
    expect,
    judge_end,
    judge_gain,
)
from autotune.export.findings import Noise, smallest_gain
from autotune.interval import ASSUMED_SPREAD
from autotune.settings import ConfirmationSettings, EvaluationSettings, ProfileSettings
from autotune.trial import TrialKind, TrialRecord, TrialState
from autotune.tuner.limits import Limits
from tests.records import STUDY, make_boot, make_settings, make_trial

NOW = datetime(2026, 1, 1, 22, 0, tzinfo=UTC)
NO_EVALUATION = EvaluationSettings(enabled=False)
SETTINGS = make_settings(evaluation=NO_EVALUATION, profile=ProfileSettings(enabled=False))


def ask(limits: Limits, trials: tuple[TrialRecord, ...] = (), journal_load_s: float | None = 615.0) -> Expectation:
    return expect(SETTINGS, limits, trials, journal_load_s=journal_load_s, now=NOW)


def done(number: int, load_s: float, duration_s: float, kind: TrialKind = TrialKind.SEARCH) -> TrialRecord:
    return replace(
        make_trial(number, kind=kind), boot=replace(make_boot(), ready_after_s=load_s), duration_s=duration_s
    )


def test_a_trial_is_measured_in_waves_as_wide_as_the_concurrency():
    """Two repeats of 512 tokens at 32 in three rounds, of four single requests each in two; warm-ups and two canaries."""
    waves = 2 * 3 + 4 * 2 * 2 + 2
    prompts = 32 * 2 * 3 + 4 * 2 * 2 + 32 + 1 + 2 * 7
    tokens = 512 * waves + 2 * 7

    assert assume_measuring_s(SETTINGS) == pytest.approx(tokens / ASSUMED_TOKENS_PER_S + prompts * 128 / 5000)


def test_rounds_are_expected_only_while_their_limit_lasts():
    """A round at C=1 takes 137 s: two fit into 300 s, and one at least is always sent."""
    three, two, one = (
        assume_measuring_s(make_settings(STUDY.replace("[benchmark]", f"[benchmark]\nrounds_limit_s = {limit_s}")))
        for limit_s in (1000.0, 300.0, 1.0)
    )
    single = 512 * 8 / ASSUMED_TOKENS_PER_S + 8 * 128 / 5000
    many = 512 * 2 / ASSUMED_TOKENS_PER_S + 64 * 128 / 5000

    assert three - two == pytest.approx(single)
    assert two - one == pytest.approx(single + 2 * many)


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


def test_the_best_of_many_trials_needs_more_than_one_that_was_named_before():
    judged = judge_gain(Noise(3, 0.01, smallest_gain(3, 0.01)), 3, 20)

    assert judged.found == (
        "the smallest gain that one boot can prove is 13.5 % for the best of 20 trials, 5.1 % for a configuration that is "
        "named before, by 3 boots of the baseline"
    )


@pytest.mark.parametrize("candidates", [None, 1])
def test_without_a_number_of_trials_the_gain_of_a_named_one_is_said_to_be_that(candidates):
    judged = judge_gain(Noise(4, 0.01, smallest_gain(4, 0.01)), 4, candidates)

    assert judged.found == (
        "the smallest gain that one boot can prove is 3.6 % for a configuration that is named before, and more for the best "
        "of several, by 4 boots of the baseline"
    )


def test_a_night_chooses_among_what_is_counted_and_what_is_still_to_come():
    trials = (done(0, 400.0, 900.0, TrialKind.BASELINE), *(done(number, 400.0, 900.0) for number in range(1, 6)))

    assert count_candidates(ask(Limits(trials=8), trials)) == 8
    assert count_candidates(ask(Limits(duration_s=400.0 + 900 * 4), trials)) == 5 + 2
    assert count_candidates(ask(Limits(), trials)) is None
    assert count_candidates(None) is None


@pytest.mark.parametrize(("spread", "words"), [(0.15, "no gain can"), (0.06, "no gain of the best of 20 trials can")])
def test_boots_that_differ_too_much_prove_nothing_and_are_warned_of(spread, words):
    judged = judge_gain(Noise(3, spread, smallest_gain(3, spread)), 3, 20)

    assert judged.level is Level.WARNING
    assert judged.found == f"3 boots of the baseline differ so much that {words} be proven"


@pytest.mark.parametrize("noise", [None, Noise(2, 0.01, None)])
def test_until_three_boots_were_seen_their_spread_is_assumed_and_said_to_be(noise):
    """Student's quantile of two degrees of freedom is 4.303."""
    gain = math.expm1(4.302653 * ASSUMED_SPREAD * math.sqrt(1 + 1 / 3))

    judged = judge_gain(noise, 2, 20)

    assert f"{100 * smallest_gain(3, ASSUMED_SPREAD, 20):.0f} % for the best of 20 trials" in judged.found
    assert f"{100 * gain:.0f} % for a configuration that is named before" in judged.found
    assert "assuming that boots differ by 5 %" in judged.found


def test_boots_that_confirm_and_their_soak_are_in_the_night():
    confirmation = ConfirmationSettings(boots=6, soak_s=600.0)
    settings = SETTINGS.model_copy(update={"confirmation": confirmation})
    limits = Limits(trials=20)
    plain, confirmed = (expect(each, limits, (), journal_load_s=615, now=NOW) for each in (SETTINGS, settings))

    assert plain.total_s is not None
    assert confirmed.total_s == pytest.approx(plain.total_s + 6 * (615 + assume_measuring_s(SETTINGS)) + 600)
    assert "20 trials and 6 boots to confirm what they find take" in judge_end(confirmed, limits).found


def test_at_most_a_third_of_the_time_is_kept_to_confirm():
    settings = SETTINGS.model_copy(update={"confirmation": ConfirmationSettings(boots=40, soak_s=0.0)})
    limits = Limits(duration_s=8 * 3600.0)
    plain, confirmed = (expect(each, limits, (), journal_load_s=615, now=NOW) for each in (SETTINGS, settings))

    assert plain.fitting is not None
    assert confirmed.fitting is not None
    assert 0 < confirmed.fitting < plain.fitting


def test_a_profile_is_in_the_night_until_it_was_made_or_failed_twice():
    settings = SETTINGS.model_copy(update={"profile": ProfileSettings(enabled=True)})
    limits = Limits(trials=20)
    plain, profiled = (expect(each, limits, (), journal_load_s=615, now=NOW) for each in (SETTINGS, settings))
    profile = replace(make_trial(1, kind=TrialKind.PROFILE), boot=None, duration_s=None)
    failed = replace(profile, state=TrialState.FAILED)

    def profiles(*trials: TrialRecord, asked: Limits = limits) -> int:
        return expect(settings, asked, trials, journal_load_s=615, now=NOW).profiles

    assert plain.total_s is not None
    assert profiled.total_s == pytest.approx(plain.total_s + 615 + assume_measuring_s(SETTINGS))
    assert "20 trials and the profile take" in judge_end(profiled, limits).found
    assert profiles(failed) == 1
    assert profiles(failed, replace(failed, number=2)) == profiles(profile) == profiles(asked=Limits(trials=0)) == 0


@pytest.mark.parametrize("change", [{"command": ("python3", "-m", "sglang.launch_server")}, {"proofs": ()}])
def test_a_server_that_logs_no_drafts_is_booted_for_no_profile(change: dict[str, tuple[str, ...]]):
    server = SETTINGS.server.model_copy(update=change)
    settings = SETTINGS.model_copy(update={"profile": ProfileSettings(), "server": server})

    assert settings.wants_profile
    assert expect(settings, Limits(trials=20), (), journal_load_s=615, now=NOW).profiles == 0
