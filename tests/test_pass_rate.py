from __future__ import annotations

import itertools
import math
import random
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.pass_rate import (
    Tally,
    probability_of_fewer,
    score_pass_at_1,
    score_pass_at_k,
    tally_results,
    wilson_interval,
)
from autotune.trial import ProblemResult, Verdict


def answers(*tallies: tuple[int, int]) -> list[ProblemResult]:
    """Results of problems of which so many of so many answers passed."""
    return [
        ProblemResult(f"p{problem}", Verdict.PASSED if sample < passed else Verdict.WRONG, sample=sample)
        for problem, (passed, answered) in enumerate(tallies)
        for sample in range(answered)
    ]


@pytest.mark.parametrize(
    ("passed", "count", "low", "high"),
    [
        (0, 10, 0.0, 0.2775),
        (10, 10, 0.7225, 1.0),
        (5, 10, 0.2366, 0.7634),
        (81, 263, 0.2553, 0.3662),
        (4, 5, 0.3755, 0.9638),
    ],
)
def test_wilsons_interval_has_its_published_values(passed, count, low, high):
    assert (low, high) == tuple(round(bound, 4) for bound in wilson_interval(passed, count))


@given(st.integers(1, 500).flatmap(lambda count: st.tuples(st.integers(0, count), st.just(count))))
def test_the_interval_holds_the_share_and_mirrors_failures(case):
    passed, count = case
    low, high = wilson_interval(passed, count)
    mirrored = wilson_interval(count - passed, count)

    assert 0 <= low <= passed / count + 1e-12
    assert passed / count - 1e-12 <= high <= 1
    assert pytest.approx((low, high)) == (1 - mirrored[1], 1 - mirrored[0])


@pytest.mark.parametrize(("passed", "count"), [(0, 0), (3, 2), (-1, 2)])
def test_no_share_has_no_interval(passed, count):
    with pytest.raises(ValueError, match="is no share"):
        wilson_interval(passed, count)


def test_several_answers_to_a_problem_are_averaged_before_problems_are():
    figure = score_pass_at_1(answers((4, 4), (0, 1)))

    assert figure is not None
    assert (figure.value, figure.count) == (0.5, 5)


def test_answers_that_are_all_alike_give_no_narrower_interval_than_one_of_each():
    one = score_pass_at_1(answers(*[(1, 1)] * 15, *[(0, 1)] * 5))
    many = score_pass_at_1(answers(*[(10, 10)] * 15, *[(0, 10)] * 5))

    assert one is not None
    assert many is not None
    assert one.value == many.value
    assert one.low == pytest.approx(many.low)
    assert one.high == pytest.approx(many.high)


def test_answers_that_vary_inside_problems_alone_count_as_what_they_are():
    figure = score_pass_at_1(answers(*[(5, 10)] * 20))

    assert figure is not None
    assert (figure.low, figure.high) == wilson_interval(10, 20)  # no variance seen between problems: the cautious end
    varied = score_pass_at_1(answers(*[(4, 10), (6, 10)] * 10))
    assert varied is not None
    assert (varied.low, varied.high) == wilson_interval(100, 200)


def test_the_interval_covers_when_problems_differ():
    """95 % intervals of 60 problems with three answers each hold the truth in 93 % and more of 400 draws."""
    rng = random.Random(3)  # noqa: S311 - a simulation
    covered = 0
    for _ in range(400):
        abilities = [rng.betavariate(0.8, 0.5) for _ in range(60)]
        figure = score_pass_at_1(answers(*[(sum(rng.random() < p for _ in range(3)), 3) for p in abilities]))
        assert figure is not None
        assert figure.low is not None
        assert figure.high is not None
        covered += figure.low <= 0.8 / 1.3 <= figure.high

    assert covered >= 0.93 * 400


@pytest.mark.parametrize(("passed", "n", "k"), [(0, 5, 1), (5, 5, 3), (1, 5, 2), (3, 10, 4), (9, 10, 2)])
def test_pass_at_k_is_the_share_of_subsets_that_hold_a_pass(passed, n, k):
    subsets = list(itertools.combinations(range(n), k))
    expected = sum(min(subset) < passed for subset in subsets) / len(subsets)

    figure = score_pass_at_k(answers((passed, n)), k)

    assert figure is not None
    assert figure.value == pytest.approx(expected)


def test_pass_at_1_by_either_formula_is_the_same():
    results = answers((3, 4), (0, 4), (4, 4))
    one, k = score_pass_at_1(results), score_pass_at_k(results, 1)

    assert one is not None
    assert k is not None
    assert one.value == pytest.approx(k.value)


def test_a_problem_with_fewer_answers_than_k_says_nothing_about_k():
    results = [*answers((2, 3), (0, 3)), ProblemResult("q", Verdict.PASSED), ProblemResult("r", Verdict.NO_ANSWER)]

    figure = score_pass_at_k(results, 3)

    assert figure is not None
    assert (figure.value, figure.count) == (0.5, 2)
    assert score_pass_at_k(answers((1, 1)), 2) is None
    assert list(tally_results(results)) == ["p0", "p1", "q"]


tallies = st.integers(1, 4).flatmap(lambda answered: st.tuples(st.integers(0, answered), st.just(answered)))


@settings(max_examples=60)
@given(st.lists(st.tuples(tallies, tallies), min_size=1, max_size=3))
def test_the_exact_test_counts_the_ways_to_deal_out_the_answers(cases):
    pairs = [(Tally(*ours), Tally(*theirs)) for ours, theirs in cases]
    ways, fewer = 0, 0
    dealt = [
        [
            sum(hand)
            for hand in itertools.combinations(
                [1] * (a.passed + b.passed) + [0] * (a.answered + b.answered - a.passed - b.passed), a.answered
            )
        ]
        for a, b in pairs
    ]
    seen = sum(ours.passed for ours, _ in pairs)
    for hands in itertools.product(*dealt):
        ways += 1
        fewer += sum(hands) <= seen

    assert probability_of_fewer(pairs) == pytest.approx(float(Fraction(fewer, ways)))


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40))
def test_one_answer_each_is_mcnemars_exact_test(cases):
    lost = sum(there and not here for here, there in cases)
    changed = sum(here != there for here, there in cases)
    expected = sum(math.comb(changed, count) for count in range(lost, changed + 1)) / 2**changed

    found = probability_of_fewer([(Tally(here, 1), Tally(there, 1)) for here, there in cases])

    assert found == pytest.approx(expected)


def test_the_exact_test_calls_equal_configurations_worse_no_more_often_than_its_level():
    """Against a baseline of three boots, with problems of very different difficulty."""
    rng = random.Random(5)  # noqa: S311 - a simulation
    called = 0
    for _ in range(600):
        abilities = [rng.betavariate(0.5, 0.3) for _ in range(40)]
        pairs = [
            (Tally(int(rng.random() < p), 1), Tally(sum(rng.random() < p for _ in range(3)), 3)) for p in abilities
        ]
        probability = probability_of_fewer(pairs)
        assert probability is not None
        called += probability <= 0.05

    assert called <= 0.05 * 600 + 2 * math.sqrt(600 * 0.05 * 0.95)


def test_no_problem_has_no_probability():
    assert probability_of_fewer([]) is None
