"""Whether a gain is more than the noise between boots."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autotune.export.findings import Noise
from autotune.export.notes import render_study_note
from autotune.export.proof import judge_proof
from autotune.export.wording import render_noise
from autotune.trial import Figure

LITTLE_NOISE = Noise(boots=3, spread=0.01, smallest_gain=0.051)
MUCH_NOISE = Noise(boots=3, spread=1.171, smallest_gain=334.836)


def judge(view, findings, c1: Figure | None, c32: Figure | None, noise: Noise | None = LITTLE_NOISE) -> str:
    gains = [{1: Figure(1.0, 8), **({} if gain is None else {3: gain})} for gain in (c1, c32)]
    found = replace(findings, noise=noise, gains_c1=gains[0], gains_c32=gains[1])
    return str(judge_proof(view.trials[3], found))


def test_two_gains_beyond_the_noise_are_proven(view, findings):
    assert judge(view, findings, Figure(1.2, 8, 1.1, 1.3), Figure(1.08, 32)) == (
        "proven: both gains are beyond 6.9%, the smallest gain that one boot can prove when it is the best of 2"
    )


@pytest.mark.parametrize(
    ("c1", "c32", "why"),
    [
        (
            Figure(1.2, 8, 1.1, 1.3),
            Figure(1.03, 32, 1.02, 1.04),
            (
                "+3.0% at C=32 is within the noise between boots (6.9%, the smallest gain that one boot can prove when it is the best of 2); "
                "the gain at C=1 is proven"
            ),
        ),
        (
            Figure(1.03, 8),
            Figure(0.9, 32),
            (
                "+3.0% at C=1 is within the noise between boots; -10.0% at C=32 is a loss "
                "(6.9%, the smallest gain that one boot can prove when it is the best of 2)"
            ),
        ),
        (
            Figure(1.2, 8),
            Figure(2.231, 0, 0.203, 24.5),
            (
                "the interval of +123.1% at C=32 reaches down to a loss (6.9%, the smallest gain that one boot can prove when it is the best of 2); "
                "the gain at C=1 is proven"
            ),
        ),
        (
            Figure(1.2, 8),
            None,
            "nothing to compare at C=32 (6.9%, the smallest gain that one boot can prove when it is the best of 2); the gain at C=1 is proven",
        ),
    ],
)
def test_a_gain_that_is_not_proven_says_which(view, findings, c1, c32, why):
    assert judge(view, findings, c1, c32) == f"not proven: {why}"


@pytest.mark.parametrize(
    ("noise", "boots"), [(None, "1 boot"), (Noise(boots=2, spread=0.01, smallest_gain=None), "2 boots")]
)
def test_nothing_is_proven_before_the_third_boot_of_the_baseline(view, findings, noise, boots):
    known = replace(findings, baseline_boots=1)

    assert judge(view, known, Figure(9.0, 8), Figure(9.0, 32), noise) == (
        f"not proven: the noise between boots is unknown: {boots} of the baseline, three are needed"
    )


def test_noise_that_no_gain_exceeds_comes_without_a_figure(view, findings):
    assert judge(view, findings, Figure(2.549, 8), Figure(2.231, 32), MUCH_NOISE) == (
        "not proven: boots of the baseline differ by 117.1%, so that no gain can be proven when it is the best of 2"
    )
    assert render_noise(MUCH_NOISE) == "3 boots of the baseline differ by 117.1%; no gain can be proven"


def test_a_study_of_one_concurrency_is_judged_by_it(view, findings):
    found = replace(findings, noise=LITTLE_NOISE, gains_c1={3: Figure(1.2, 8, 1.1, 1.3)}, gains_c32={})

    assert str(judge_proof(view.trials[3], found)).startswith(
        "proven: the gain at C=1 is beyond 5.1%, the smallest gain that one boot can prove"
    )


def test_the_baseline_claims_nothing(view, findings):
    assert judge_proof(view.trials[0], findings) is None


def test_the_dashboard_says_it_too(view, findings):
    text = render_study_note(view, findings)

    assert "**Recommended: trial 3** (not proven)" in text
    assert "not proven: the noise between boots is unknown" in text


def test_the_best_of_many_has_to_be_further_ahead_than_one_that_was_named_before(view, findings):
    """The luckiest of twenty boots without any gain is beyond the noise of one boot in three of twenty studies."""
    many = {number: Figure(1.0, 8) for number in range(20)} | {3: Figure(1.08, 8)}
    one = {3: Figure(1.08, 8)}

    few = judge_proof(view.trials[3], replace(findings, noise=LITTLE_NOISE, gains_c1=one, gains_c32=one))
    best = judge_proof(view.trials[3], replace(findings, noise=LITTLE_NOISE, gains_c1=many, gains_c32=many))

    assert few is not None
    assert best is not None
    assert few.is_proven
    assert not best.is_proven
    assert "13.5%, the smallest gain that one boot can prove when it is the best of 20" in best.why


def test_a_boot_that_drifted_proves_nothing_whatever_it_gained(view, findings):
    found = replace(
        findings,
        noise=LITTLE_NOISE,
        gains_c1={3: Figure(2.0, 8, 1.9, 2.1)},
        gains_c32={3: Figure(2.0, 8, 1.9, 2.1)},
        drifts={3: ("GPU 3 was slowed down",)},
    )

    assert str(judge_proof(view.trials[3], found)) == "not proven: its boot drifted: GPU 3 was slowed down"
