from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import ImpossibleMetric
from autotune.objectives import (
    check_cell,
    check_evaluation,
    check_objectives,
    judge,
    log_ratios,
    paired_p_value,
    ranked_pass_at_1,
    score,
    told_values,
)
from autotune.trial import Figure, ProblemResult, TrialKind, TrialRecord, TrialState, Verdict
from tests.records import STUDY, make_cell, make_evaluation, make_settings, make_trial

TWO_CONTEXTS = (
    STUDY
    + """
[[benchmark.stages]]
name = "long"
cells = [{ context = 768, concurrency = 1 }, { context = 768, concurrency = 32 }]
"""
)
SETTINGS = make_settings()
LONG = make_settings(TWO_CONTEXTS)


def long_trial(number: int, short_c1: float, long_c1: float, c32: float = 400.0, **changes: Any) -> TrialRecord:
    spread = changes.pop("spread", None)
    cells = (
        make_cell(32, c32, spread=spread),
        make_cell(1, short_c1, spread=spread),
        make_cell(1, long_c1, context=768, spread=spread),
        make_cell(32, c32, context=768, spread=spread),
    )
    evaluation = make_evaluation()
    return replace(
        make_trial(number), cells=cells, evaluation=evaluation, objectives=score(cells, evaluation, LONG), **changes
    )


def test_a_speed_is_the_weighted_geometric_mean_over_contexts():
    weighted = make_settings(TWO_CONTEXTS + "[objectives]\ncontext_weights = { 768 = 3.0 }\n")

    assert score(long_trial(1, 100, 400).cells, None, LONG).tokens_per_s_c1 == Figure(200.0, 4)
    known = score(long_trial(1, 16, 81).cells, None, weighted).tokens_per_s_c1
    assert known is not None
    assert known.value == pytest.approx(16**0.25 * 81**0.75)


def test_an_objective_is_unknown_until_all_its_cells_are_measured():
    cells = long_trial(1, 100, 400).cells

    partial = score(cells[:2], None, LONG)

    assert partial.tokens_per_s_c1 is None
    assert partial.tokens_per_s_c32 is None
    assert partial.pass_at_1 is None
    assert log_ratios(partial, score(cells, None, LONG)) is None


def test_a_cell_measured_again_stands_as_measured_last():
    cells = (make_cell(32, 400.0), make_cell(1, 50.0), make_cell(1, 70.0))

    known = score(cells, None, SETTINGS).tokens_per_s_c1

    assert known == Figure(70.0, 2)


@given(st.floats(0.1, 10), st.floats(0.1, 10))
def test_log_ratios_undo_a_scale_and_are_zero_for_the_baseline(c1: float, c32: float):
    baseline = make_trial(0)
    trial = make_trial(1, 100 * c1, 400 * c32)

    assert log_ratios(baseline.objectives, baseline.objectives) == (0.0, 0.0)
    assert log_ratios(trial.objectives, baseline.objectives) == pytest.approx((math.log(c1), math.log(c32)))


def test_a_gain_on_average_that_gives_up_one_context_is_infeasible():
    baseline = long_trial(0, 100, 100, kind=TrialKind.BASELINE)

    judgement = judge(long_trial(1, 130, 90), baseline, LONG)

    assert judgement.violation is not None
    assert judgement.violation.startswith("context 768 at C=1 loses 10.0% of the baseline's speed")
    assert judgement.constraints["context_loss"] == pytest.approx(0.07)


def test_a_loss_within_the_allowance_is_met():
    baseline = long_trial(0, 100, 100, kind=TrialKind.BASELINE)

    assert judge(long_trial(1, 130, 98), baseline, LONG).violation is None


def test_a_loss_that_the_objective_shows_is_a_trade_off_and_not_a_violation():
    # Slower everywhere at C=32, much faster at C=1: that is what a front is for.
    baseline = long_trial(0, 100, 100, kind=TrialKind.BASELINE)

    assert judge(long_trial(1, 150, 150, c32=200.0), baseline, LONG).violation is None
    assert judge(long_trial(1, 70, 60), baseline, LONG).violation is None


def test_a_loss_that_the_noise_may_explain_is_not_held_against_a_trial():
    baseline = long_trial(0, 100, 100, kind=TrialKind.BASELINE, spread=0.08)

    assert judge(long_trial(1, 130, 92, spread=0.08), baseline, LONG).violation is None
    assert judge(long_trial(1, 140, 80, spread=0.08), baseline, LONG).violation is not None


def test_paired_prompts_prove_a_loss_that_the_spread_of_prompts_would_hide():
    prompts = {f"p{index}": float(index) for index in range(8)}
    slower = {prompt: value + math.log(0.9) for prompt, value in prompts.items()}

    def with_prompts(trial: TrialRecord, long_prompts: dict[str, float]) -> TrialRecord:
        cells = tuple(
            replace(cell, per_prompt_log_speed=long_prompts) if cell.cell.context == 768 else cell
            for cell in trial.cells
        )
        return replace(trial, cells=cells)

    baseline = with_prompts(long_trial(0, 100, 100, kind=TrialKind.BASELINE, spread=0.3), prompts)
    trial = with_prompts(long_trial(1, 130, 90, spread=0.3), slower)

    assert judge(trial, baseline, LONG).violation is not None


def test_without_a_baseline_nothing_is_missed_and_the_constraints_are_unknown():
    judgement = judge(long_trial(1, 130, 10), None, LONG)

    assert judgement.violation is None
    assert judgement.constraints == {"context_loss": None, "launch": -1.0, "pass_guard": None}


@pytest.mark.parametrize(
    ("lost", "won", "expected"), [(0, 0, 1.0), (5, 0, 1 / 32), (4, 0, 1 / 16), (0, 5, 1.0), (3, 1, 5 / 16)]
)
def test_the_paired_test_is_mcnemars_exact_one(lost: int, won: int, expected: float):
    before = [True] * lost + [False] * won + [True] * 10
    after = [False] * lost + [True] * won + [True] * 10

    def evaluation(verdicts: list[bool]):
        results = tuple(
            ProblemResult(f"p{index}", Verdict.PASSED if passed else Verdict.ERROR)
            for index, passed in enumerate(verdicts)
        )
        return replace(make_evaluation(), results=results)

    assert paired_p_value(evaluation(after), evaluation(before)) == expected


def test_a_problem_without_an_answer_is_not_held_against_either_side():
    ours = make_evaluation(30, 10)
    unanswered = tuple(
        replace(item, verdict=Verdict.NO_ANSWER) if index < 10 else item for index, item in enumerate(ours.results)
    )

    assert paired_p_value(replace(ours, results=unanswered), make_evaluation(30, 10)) == 1.0
    assert paired_p_value(replace(ours, results=()), make_evaluation(30, 10)) is None


def test_pass_at_1_that_is_proven_worse_makes_a_trial_infeasible():
    baseline = make_trial(0, kind=TrialKind.BASELINE, pass_at_1=0.75)

    worse = judge(make_trial(1, pass_at_1=0.6), baseline, SETTINGS)
    unproven = judge(make_trial(1, pass_at_1=0.675), baseline, SETTINGS)

    assert worse.violation is not None
    assert "60% against 75%" in worse.violation
    assert unproven.violation is None
    assert unproven.constraints["pass_guard"] is not None
    assert unproven.constraints["pass_guard"] <= 0


def test_the_baselines_pass_at_1_ranks_a_feasible_trial_and_the_raw_value_an_infeasible_one():
    baseline = make_trial(0, kind=TrialKind.BASELINE, pass_at_1=0.75)
    lucky = make_trial(1, pass_at_1=0.85)
    worse = make_trial(2, pass_at_1=0.5, state=TrialState.INFEASIBLE)

    assert ranked_pass_at_1(lucky, baseline) == 0.75
    assert ranked_pass_at_1(lucky, None) == 0.85
    assert told_values(lucky, baseline, SETTINGS) == [100.0, 400.0, 0.75]
    assert told_values(worse, baseline, SETTINGS) == [100.0, 400.0, 0.5]
    assert told_values(make_trial(3, None), baseline, SETTINGS) is None


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, -1.0])
@pytest.mark.parametrize("name", ["decode_tokens_per_s", "total_tokens_per_s", "ttft_s", "tpot_s", "accept_length"])
def test_impossible_figures_are_refused_with_cell_and_metric_named(name: str, value: float):
    """case 39: a throughput of inf, NaN or -1 is refused before anything is told."""
    changes: dict[str, Any] = {name: Figure(value, 1)}

    with pytest.raises(ImpossibleMetric) as caught:
        check_cell(replace(make_cell(32, 400.0), **changes))

    assert "ctx128-c32" in str(caught.value)
    assert name in str(caught.value)


def test_a_speed_of_zero_an_infinite_bound_and_an_infinite_prompt_are_refused():
    """case 39, its kind: every number that reaches the front is finite."""
    good = make_cell(1, 100.0)
    for bad in (
        make_cell(1, 0.0),
        replace(good, decode_tokens_per_s=Figure(100.0, 2, 90.0, math.inf)),
        replace(good, per_prompt_log_speed={"p": -math.inf}),
        replace(good, duration_s=math.nan),
    ):
        with pytest.raises(ImpossibleMetric):
            check_cell(bad)
    check_cell(good)


@pytest.mark.parametrize("value", [math.inf, math.nan, -0.1, 1.1])
def test_an_impossible_pass_at_1_is_refused(value: float):
    with pytest.raises(ImpossibleMetric, match="pass_at_1"):
        check_evaluation(replace(make_evaluation(), pass_at_1=Figure(value, 40)))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"ttft_s": Figure(0.0, 8)}, "ttft_s is 0"),
        ({"tpot_s": Figure(0.0, 8)}, "tpot_s is 0"),
        ({"accept_length": Figure(0.5, 8)}, "accept_length is 0.5"),
        ({"succeeded": 9}, "succeeded is 9 of 8 requests"),
        ({"requests": -1, "succeeded": -1}, "requests is -1"),
        ({"output_tokens": -3}, "output_tokens is -3"),
        ({"prompt_tokens": -3}, "prompt_tokens is -3"),
        ({"cached_tokens": -3}, "cached_tokens is -3"),
        ({"accept_length": Figure(4.0, -1)}, "accept_length rests on -1 observations"),
        ({"decode_tokens_per_s": Figure(5.0, 0)}, "decode_tokens_per_s rests on 0 observations"),
        ({"tpot_s": Figure(5.0, 3, 9.0, 1.0)}, "tpot_s lies between 9.0 and 1.0"),
    ],
)
def test_figures_that_contradict_each_other_are_refused_with_their_value(changes: dict[str, Any], said: str):
    """case 39, its kind: nothing upstream can have measured this."""
    with pytest.raises(ImpossibleMetric) as caught:
        check_cell(replace(make_cell(32, 400.0), **changes))

    assert said in str(caught.value)
    assert "ctx128-c32" in str(caught.value)


@pytest.mark.parametrize("value", [math.inf, math.nan, 0.0])
def test_an_objective_that_cannot_be_is_refused(value: float):
    """case 39."""
    known = replace(make_trial(1).objectives, tokens_per_s_c32=Figure(value, 2))

    with pytest.raises(ImpossibleMetric, match="trial 1: tokens_per_s_c32 is"):
        check_objectives(known, "trial 1")
    check_objectives(make_trial(1).objectives, "trial 1")


def test_an_accept_length_may_rest_on_an_unknown_number_of_steps():
    """Case 33: a server's average comes without its count."""
    check_cell(replace(make_cell(32, 400.0), accept_length=Figure(4.0, 0)))
