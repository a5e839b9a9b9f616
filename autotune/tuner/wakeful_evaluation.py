"""Was the tuner awake while a boot answered the coding problems? An evaluation that slept is run once more, in the same boot.

What the server sends while nobody reads comes late or not at all, which looks like the server's fault.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from autotune.benchmark.pause_watch import PauseWatch
from autotune.errors import MeasurementError, MeasurementPaused
from autotune.trial import EvaluationMeasurement
from autotune.tuner.meters import CodingMeter

_WHAT: Final = "coding evaluation"


class WakefulEvaluation:
    """Runs an evaluation that counts only if neither this process nor its machine slept meanwhile.

    Args:
        evaluation: of this boot; may be run more than once.
        open_watch: sees pauses.
    """

    def __init__(self, evaluation: CodingMeter, *, open_watch: Callable[[], PauseWatch] = PauseWatch) -> None:
        self._evaluation = evaluation
        self._open_watch = open_watch

    def run(self) -> EvaluationMeasurement:
        """Run the whole evaluation, once more if there was a pause: another boot may cost a quarter of an hour.

        Raises:
            MeasurementPaused: there was a pause the second time too.
            AutotuneError: as the evaluation's own.
        """
        try:
            return self._run_awake()
        except MeasurementPaused as error:
            measured = self._run_awake()
            return replace(measured, notes=(*measured.notes, f"run again, because {error.message}"))

    def _run_awake(self) -> EvaluationMeasurement:
        with self._open_watch() as watch:
            try:
                measured = self._evaluation.run()
            except MeasurementError:
                watch.check(_WHAT)  # a pause explains it
                raise
        watch.check(_WHAT)
        return measured
