"""What fresh boots say about a leader."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.confirmation.plan import Plan
from autotune.confirmation.spending import find_student_levels
from autotune.confirmation.verdict import Outcome, Verdict, judge_all, judge_plan, predict
from autotune.interval import LogRatio, student_quantile
from autotune.trial import BootCondition, Figure, TrialRecord, TrialState
from tests.confirmation.boots import PLAN, confirm, ended, make_baseline, make_boot, soaked
from tests.records import make_settings

SETTINGS = make_settings()
LEADER = make_boot(1, 130, 520)
"""Its boot in the search was lucky."""
CLEAR: list[dict[int | None, float]] = [{None: 100, 1: 120}, {None: 101, 1: 121}]
UNCLEAR: list[dict[int | None, float]] = [{None: 100, 1: 104}, {None: 108, 1: 106}]


def verdict_of(boots: list[TrialRecord], plan: Plan = PLAN) -> Verdict:
    return judge_plan(plan, [make_baseline(), LEADER, *boots], SETTINGS)


def test_before_the_first_boot_the_first_round_is_missing():
    verdict = verdict_of([])

    assert verdict.next_boot == PLAN.boot(0, None)
    assert verdict.missing == (None, 1)
    assert not verdict.is_decided
    assert verdict.recommended is None


def test_one_round_decides_nothing():
    verdict = verdict_of(confirm(PLAN, CLEAR[:1]))

    assert verdict.rounds == 1
    assert verdict.of(1).outcome is Outcome.OPEN
    assert verdict.next_boot == PLAN.boot(1, 1)


def test_a_clear_gain_is_confirmed_before_all_boots_are_used():
    verdict = verdict_of(confirm(PLAN, CLEAR))

    assert verdict.is_decided
    assert verdict.next_boot is None
    assert verdict.recommended == 1
    assert verdict.boots == 4
    gain = verdict.of(1).gain
    assert gain is not None
    assert math.exp(gain.value) == pytest.approx(math.sqrt(1.2 * 121 / 101))


def test_the_boot_for_which_a_leader_was_chosen_does_not_count():
    boots = confirm(PLAN, CLEAR)
    luckier = judge_plan(PLAN, [make_baseline(0, 50, 200), make_boot(1, 900, 3600), *boots], SETTINGS)

    assert luckier == verdict_of(boots)


def test_the_bounds_are_those_of_student_at_the_level_of_the_look():
    boots = [{None: 100.0, 1: 104.0}, {None: 102.0, 1: 110.0}, {None: 99.0, 1: 108.0}]
    gain = verdict_of(confirm(PLAN, boots)).of(1).gain
    logs = [[math.log(speeds[who]) for speeds in boots] for who in (None, 1)]
    means = [sum(side) / 3 for side in logs]
    variance = sum((log - mean) ** 2 for side, mean in zip(logs, means, strict=True) for log in side) / 4
    half = student_quantile(4, find_student_levels(2, 3, 0.05)[-1]) * math.sqrt(variance * 2 / 3)

    assert gain is not None
    assert gain.low == pytest.approx(means[1] - means[0] - half)


def test_boots_that_end_without_a_decision_say_no_significant_gain():
    verdict = verdict_of(confirm(PLAN, [*UNCLEAR, {None: 100, 1: 103}]))

    assert verdict.is_decided
    assert verdict.of(1).outcome is Outcome.NO_GAIN
    assert "after all 3 rounds" in verdict.of(1).reason
    assert verdict.recommended is None


def test_a_leader_that_is_slower_beyond_chance_is_refuted():
    verdict = verdict_of(confirm(PLAN, [{None: 120, 1: 100}, {None: 121, 1: 101}]))

    assert verdict.of(1).outcome is Outcome.REFUTED
    assert "slower" in verdict.of(1).reason


def test_a_leader_that_could_hardly_be_confirmed_any_more_ends_it_early():
    plan = replace(PLAN, rounds=8)
    rounds: list[dict[int | None, float]] = [{None: 100 + index % 2, 1: 100 - (index + 1) % 2} for index in range(6)]
    verdict = judge_plan(plan, [make_baseline(), LEADER, *confirm(plan, rounds)], SETTINGS)

    assert verdict.is_decided
    assert verdict.rounds < 6
    assert verdict.of(1).outcome in (Outcome.NO_GAIN, Outcome.REFUTED)


@pytest.mark.parametrize(
    ("state", "outcome"),
    [
        (TrialState.INFEASIBLE, Outcome.REFUTED),
        (TrialState.FAILED, Outcome.NO_GAIN),
        (TrialState.DUPLICATE, Outcome.NO_GAIN),
    ],
)
def test_a_leader_that_does_not_come_up_again_is_not_recommended_and_says_why(state: TrialState, outcome: Outcome):
    boots = confirm(PLAN, CLEAR[:1])
    verdict = verdict_of([boots[0], ended(boots[1], state, "out of memory")])

    assert verdict.is_decided
    assert verdict.of(1).outcome is outcome
    assert "out of memory" in verdict.of(1).reason


def test_an_interrupted_boot_is_booted_again_in_its_place():
    first, second = confirm(PLAN, CLEAR[:1])
    cut = ended(second, TrialState.INTERRUPTED)
    verdict = verdict_of([first, cut])

    assert verdict.next_boot == PLAN.boot(0, 1)
    assert verdict_of([first, cut, replace(second, number=150)]).rounds == 1


def test_a_leader_whose_boot_is_cut_off_again_and_again_is_given_up():
    first, second = confirm(PLAN, CLEAR[:1])
    cut = [replace(ended(second, TrialState.INTERRUPTED), number=number) for number in (150, 151, 152)]

    assert verdict_of([first, *cut]).of(1).outcome is Outcome.NO_GAIN


def test_a_baseline_that_failed_is_booted_again():
    first, second = confirm(PLAN, CLEAR[:1])
    verdict = verdict_of([ended(first, TrialState.FAILED, "no answer"), second])

    assert verdict.next_boot == PLAN.boot(0, None)


def test_a_boot_that_drifted_is_left_out():
    plan = replace(PLAN, rounds=4)
    boots = confirm(plan, [*CLEAR, {None: 100, 1: 119}, {None: 60, 1: 120}])
    steady = [replace(boot, condition=BootCondition((Figure(1000.0, 6), Figure(1000.0, 6)))) for boot in boots]
    slow = next(index for index, boot in enumerate(boots) if boot.objectives.tokens_per_s_c1 == Figure(60, 2))
    steady[slow] = replace(steady[slow], condition=BootCondition((Figure(500.0, 6), Figure(500.0, 6))))
    # Only the last rounds are looked at: what was decided before is not asked again.
    early = [{None: 100.0, 1: 101.0}, {None: 108.0, 1: 106.0}]
    open_boots = [
        replace(boot, condition=BootCondition((Figure(1000.0, 6), Figure(1000.0, 6)))) for boot in confirm(plan, early)
    ]
    verdict = judge_plan(plan, [make_baseline(), LEADER, *open_boots, *steady[4:]], SETTINGS)

    assert verdict.baseline_boots == 3


def test_a_concurrency_that_loses_beyond_chance_refutes_the_largest_gain():
    boots: list[TrialRecord] = []
    for index in range(3):
        for who in PLAN.order(index):
            c1, c32 = (100, 400 + index) if who is None else (200, 350 + index)
            boot = make_boot(100 + len(boots), c1, c32)
            boots.append(replace(boot, confirmation=PLAN.boot(index, who)))
    verdict = verdict_of(boots)

    assert verdict.of(1).outcome is Outcome.REFUTED
    assert "C=32" in verdict.of(1).reason


def test_the_worst_cell_is_named():
    verdict = verdict_of(confirm(PLAN, CLEAR))
    worst = verdict.of(1).worst

    assert worst is not None
    assert worst[0].concurrency in (1, 32)


def test_of_several_confirmed_leaders_the_fastest_is_recommended():
    plan = replace(PLAN, leaders=(1, 2))
    rounds: list[dict[int | None, float]] = [{None: 100, 1: 130, 2: 140}, {None: 100.1, 1: 130.1, 2: 140.1}]
    trials = [make_baseline(), LEADER, make_boot(2, 129, 520), *confirm(plan, rounds)]
    verdict = judge_plan(plan, trials, SETTINGS)

    assert verdict.recommended == 2
    assert verdict.of(1).outcome is Outcome.CONFIRMED


def test_several_leaders_share_the_error():
    """Bonferroni: with two leaders each look of each has the level of a test at half of the error."""
    plan = replace(PLAN, leaders=(1, 2))
    rounds: list[dict[int | None, float]] = [{None: 100, 1: 103, 2: 104}, {None: 103, 1: 108, 2: 101}]
    trials = [make_baseline(), LEADER, make_boot(2, 129, 520), *confirm(plan, rounds)]

    assert judge_plan(plan, trials, SETTINGS).of(2).level == pytest.approx(find_student_levels(2, 3, 0.025)[0])


def test_a_leader_that_is_out_is_not_booted_again_while_another_goes_on():
    plan = replace(PLAN, leaders=(1, 2), rounds=4)
    boots = confirm(plan, [{None: 100, 1: 103, 2: 104}, {None: 103, 1: 108, 2: 101}])
    boots = [
        ended(boot, TrialState.INFEASIBLE, "dead") if boot.confirmation == plan.boot(1, 2) else boot for boot in boots
    ]
    verdict = judge_plan(plan, [make_baseline(), LEADER, make_boot(2, 129, 520), *boots], SETTINGS)

    assert verdict.of(2).outcome is Outcome.REFUTED
    assert not verdict.is_decided
    assert set(verdict.missing) == {None, 1}


def test_a_soak_that_was_not_survived_takes_the_recommendation_back():
    boots = confirm(PLAN, CLEAR)
    assert verdict_of(boots).next_soak == PLAN.boot(1, 1, is_soak=True)

    survived = verdict_of([*boots, soaked(PLAN, 1, 150, TrialState.COMPLETE, "it survived")])
    crashed = verdict_of([*boots, soaked(PLAN, 1, 150, TrialState.INFEASIBLE, "illegal memory access")])
    cut = verdict_of([*boots, soaked(PLAN, 1, 150, TrialState.INTERRUPTED, "Ctrl-C")])

    assert survived.recommended == 1
    assert survived.next_soak is None
    assert crashed.recommended is None
    assert crashed.soak is not None
    assert "illegal memory access" in crashed.soak.reason
    assert cut.next_soak is not None


def test_what_was_decided_is_not_changed_by_what_comes_later():
    boots = confirm(PLAN, CLEAR)
    later = [make_boot(300 + index, 50 + index, 200) for index in range(5)]

    assert judge_all([make_baseline(), LEADER, *boots, *later], SETTINGS) == (verdict_of(boots),)


@settings(max_examples=50, deadline=None)
@given(
    value=st.floats(-0.2, 0.2),
    error=st.floats(0.001, 0.1),
    through=st.integers(2, 6),
    more=st.integers(1, 6),
)
def test_the_chance_of_a_confirmation_is_one_and_grows_with_the_gain(
    value: float, error: float, through: int, more: int
):
    degrees, level = 2 * through - 2, 0.01
    half = error * student_quantile(degrees, level)

    def chance(gain: float) -> float:
        return predict(LogRatio(gain, gain - half, gain + half, degrees), level, through, through + more, 0.045)

    assert 0 <= chance(value) <= chance(value + 0.05) <= 1
    assert chance(-20 * error) < chance(20 * error)


def test_the_chance_of_a_confirmation_is_how_often_it_comes():
    """By simulation: what is seen after 4 of 8 rounds, then four more from the distribution that it leaves (a flat prior)."""
    rng, rounds, through, level = np.random.default_rng(2), 8, 4, 0.045
    degrees, error, value = 2 * through - 2, 0.03, 0.05
    gain = LogRatio(value, 0.0, value + error * student_quantile(degrees, 0.01), degrees)
    spreads = error / np.sqrt(rng.chisquare(degrees, 200_000) / degrees)
    truths = value + spreads * rng.normal(size=200_000)
    rest = truths + spreads * math.sqrt(through / (rounds - through)) * rng.normal(size=200_000)
    final = (through * value + (rounds - through) * rest) / rounds
    needed = student_quantile(2 * rounds - 2, level) * error * math.sqrt(through / rounds)

    assert predict(gain, 0.01, through, rounds, level) == pytest.approx(float((final > needed).mean()), abs=0.01)
