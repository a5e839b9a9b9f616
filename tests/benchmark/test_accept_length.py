from __future__ import annotations

import math

import pytest

from autotune.benchmark.accept_length import Reading, choose_accept_length, read_counters, sum_accepted
from autotune.benchmark.request_record import Outcome, RequestRecord
from autotune.servers.server_metrics import CounterDifference
from autotune.trial import Figure


def test_gauges_of_zero_are_unknown_without_speculation():
    """case 33."""
    assert choose_accept_length([Reading("/metrics", 0.0)], speculative=False) == (None, ())


def test_the_log_is_preferred_to_an_impossible_zero():
    """case 33."""
    figure, notes = choose_accept_length([Reading("/metrics", 0.0), Reading("the log", 4.0)], speculative=True)

    assert figure == Figure(4.0, 0)
    assert notes == ("/metrics says accept length 0.00, which is impossible; ignored",)


@pytest.mark.parametrize("value", [0.0, 0.5, -1.0, math.nan, math.inf])
def test_impossible_values_alone_are_inconsistent(value: float):
    """case 33."""
    figure, notes = choose_accept_length([Reading("/server_info", value)], speculative=True)

    assert figure is None
    assert len(notes) == 2
    assert "impossible" in notes[0]


def test_speculation_without_any_source_is_said():
    """case 30."""
    figure, notes = choose_accept_length([Reading("/metrics", None)], speculative=True)

    assert figure is None
    assert notes == ("speculation is on but no source gives an accept length",)


def test_the_most_trusted_source_wins_and_disagreement_is_said():
    readings = [Reading("/metrics", 4.0, 50), Reading("/server_info", 4.2), Reading("the log", 3.0)]

    figure, notes = choose_accept_length(readings, speculative=True)

    assert figure == Figure(4.0, 50)
    assert notes == ("accept length is 4.00 by /metrics but 3.00 by the log",)


def test_acceptance_without_speculation_is_said():
    figure, notes = choose_accept_length([Reading("/metrics", 3.2)], speculative=False)

    assert figure is None
    assert notes == ("/metrics says accept length 3.20 although speculation is off",)


@pytest.mark.parametrize(
    "counted", [CounterDifference(None, 9.0), CounterDifference(9.0, None), CounterDifference(9.0, 0.0)]
)
def test_counters_that_say_nothing_are_no_zero(counted: CounterDifference):
    """case 33."""
    assert read_counters(counted, 9, 1) == Reading("/metrics", None)


def test_a_first_token_is_no_verify_step_whether_or_not_the_server_counts_it():
    assert read_counters(CounterDifference(170.0, 40.0), 170, 10) == Reading("/metrics", 4.0, 40)
    assert read_counters(CounterDifference(160.0, 40.0), 170, 10) == Reading("/metrics", 4.0, 40)


def test_steps_of_whole_answers_are_added_up():
    def record(outcome: Outcome, *accepted: int) -> RequestRecord:
        return RequestRecord("p", 0, 1, 0.0, 1.0, outcome, accepted=accepted)

    whole = [record(Outcome.OK, 1, 2), record(Outcome.OK, 0, 1, 5), record(Outcome.OK)]

    assert sum_accepted([*whole, record(Outcome.FAILED, 9)]) == (1, 3, 5)
    assert sum_accepted([record(Outcome.OK)]) == ()
