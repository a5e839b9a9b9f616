"""An evaluation during which the tuner slept is not believed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from autotune.benchmark.pause_watch import PauseWatch
from autotune.errors import MeasurementError, MeasurementPaused, NothingSucceeded
from autotune.trial import EvaluationMeasurement, Figure, ProblemResult, Verdict
from autotune.tuner.wakeful_evaluation import WakefulEvaluation


class Evaluated:
    """Fails as told, and counts how often it was run."""

    def __init__(self, *failures: MeasurementError | None) -> None:
        self.runs = 0
        self._failures = failures

    def run(self) -> EvaluationMeasurement:
        self.runs += 1
        failure = self._failures[self.runs - 1]
        if failure is not None:
            raise failure
        problem = ProblemResult(f"run {self.runs}", Verdict.PASSED)
        return EvaluationMeasurement((problem,), "set", Figure(1.0, 1, 0.5, 1.0), 100.0, None, 60.0)


def sleeping(*slept_s: float) -> Callable[[], PauseWatch]:
    """Return what opens watches that see a machine which slept so long in each block."""
    blocks = iter(slept_s)

    def open_watch() -> PauseWatch:
        clock = iter((0.0, *[next(blocks)] * 2))
        return PauseWatch(lambda: next(clock))

    return open_watch


@pytest.mark.parametrize(("slept_s", "runs"), [((0.0,), 1), ((400.0, 0.0), 2)])
def test_an_evaluation_that_slept_is_run_again_in_the_same_boot(slept_s: Sequence[float], runs: int):
    evaluated = Evaluated(None, None)
    measured = WakefulEvaluation(evaluated, open_watch=sleeping(*slept_s)).run()

    assert evaluated.runs == runs
    assert [problem.problem for problem in measured.results] == [f"run {runs}"]
    assert ["slept for 400 s" in note for note in measured.notes] == [True] * (runs - 1)


def test_a_tuner_that_sleeps_each_time_measures_nothing():
    with pytest.raises(MeasurementPaused, match="slept for 9 s"):
        WakefulEvaluation(Evaluated(None, None), open_watch=sleeping(5.0, 9.0)).run()


def test_a_pause_is_the_reason_why_nothing_was_answered():
    evaluated = Evaluated(NothingSucceeded("nobody answered"), None)

    assert WakefulEvaluation(evaluated, open_watch=sleeping(5.0, 0.0)).run().notes


def test_without_a_pause_a_failure_is_what_it_says():
    evaluated = Evaluated(NothingSucceeded("nobody answered"))
    with pytest.raises(NothingSucceeded, match="nobody answered"):
        WakefulEvaluation(evaluated, open_watch=sleeping(0.0)).run()

    assert evaluated.runs == 1
