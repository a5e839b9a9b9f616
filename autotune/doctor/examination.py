"""Who asks the questions? Each one alone: a question that fails is a finding, and what needs its answer is skipped."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from autotune.clock import Clock
from autotune.doctor.catalogue import CHECKS, Area
from autotune.doctor.finding import Finding, Judgement, judge_error, problem, skipped
from autotune.errors import AutotuneError, HostError

Fact = TypeVar("Fact")

PATIENCE_S: Final = 90.0
"""Time after which no further question is asked; each question has a deadline of its own beside it."""


class Examination:
    """Collects one finding for each check; may be used from several threads.

    Args:
        clock: what the patience is measured by.
        patience_s: after that time what is left is skipped.
    """

    def __init__(self, clock: Clock, patience_s: float = PATIENCE_S) -> None:
        self._clock = clock
        self._end_s = clock.monotonic() + patience_s
        self._patience_s = patience_s
        self._judgements: dict[str, Judgement] = {}
        self._lock = threading.Lock()

    def ask(self, check: str, question: Callable[[], Fact], judge: Callable[[Fact], Judgement]) -> Fact | None:
        """Ask one question and note what its answer means.

        Returns:
            The answer, also when it is judged to be a problem; ``None`` when there is none.
        """
        if self._clock.monotonic() > self._end_s:
            self.note(check, skipped(f"the time of {self._patience_s:.0f} s was over before this was looked at"))
            return None
        try:
            fact = question()
            judgement = judge(fact)
        except AutotuneError as error:
            self.note(check, judge_error(error))
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            self.note(check, problem(f"{where}{error.strerror or error}", "see to it, then look again", HostError))
        except Exception as error:  # noqa: BLE001 - a mistake in one check must not hide what the others see
            self.note(
                check,
                problem(
                    f"unexpected {type(error).__name__} while looking: {error}",
                    "report it, with the output of autotune doctor --json",
                    AutotuneError,
                ),
            )
        else:
            self.note(check, judgement)
            return fact
        return None

    def judge(self, check: str, fact: Fact | None, judge: Callable[[Fact], Judgement], *, needs: str) -> None:
        """Note what a fact that is known already means for a check, or that it is not known.

        Args:
            check: the check.
            fact: ``None`` when the check that finds it has failed.
            judge: from the fact to a judgement.
            needs: the check that finds the fact.
        """
        if fact is None:
            self.note(check, skipped(f"needs {needs}"))
        else:
            known = fact
            self.ask(check, lambda: known, judge)

    def note(self, check: str, judgement: Judgement) -> None:
        """Note a judgement; the first one of a check stays.

        Raises:
            KeyError: the catalogue has no such check.
        """
        CHECKS[check]  # what is not explained is not reported
        with self._lock:
            self._judgements.setdefault(check, judgement)

    def skip_rest(self, area: Area, reason: str) -> None:
        """Note that what was not looked at in an area was skipped."""
        for name, check in CHECKS.items():
            if check.area is area:
                self.note(name, skipped(reason))

    def fail_rest(self, areas: Sequence[Area], error: AutotuneError) -> None:
        """Note an error that ended the examination of some areas at the first check that was not looked at."""
        with self._lock:
            left = [name for name, check in CHECKS.items() if check.area in areas and name not in self._judgements]
        for name in left:
            self.note(name, judge_error(error) if name == left[0] else skipped(f"needs {left[0]}"))

    def findings(self) -> tuple[Finding, ...]:
        """Return all findings in the order of the catalogue."""
        with self._lock:
            return tuple(Finding(name, self._judgements[name]) for name in CHECKS if name in self._judgements)
