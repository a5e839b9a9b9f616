"""What did one check see, how bad is it, and what is to be done? And which exit code do many findings make? Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from autotune.errors import AutotuneError, EvaluationError, HostError, MeasurementError, ServerError, UserError

WORST_FIRST: Final = (AutotuneError, HostError, ServerError, MeasurementError, EvaluationError, UserError)
"""The branch of the worst problem decides the exit code: the machine before the server, a file that can be edited last."""


class Level(Enum):
    """How much a finding matters."""

    OK = "ok"
    """As it should be."""
    WARNING = "warning"
    """A night can begin, and something about it should be known first."""
    PROBLEM = "problem"
    """A night cannot begin, or cannot be trusted to put the host back."""
    SKIPPED = "skipped"
    """Not looked at; the reason is given."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What somebody who looked has to say.

    Attributes:
        level: how much it matters.
        found: one sentence; may hold text of the host, which is untrusted.
        advice: what to do; ``None`` when there is nothing to do.
        branch: of a problem, the branch of ``autotune/errors.py`` that a night would end with.
    """

    level: Level
    found: str
    advice: str | None = None
    branch: type[AutotuneError] = AutotuneError


@dataclass(frozen=True, slots=True)
class Finding:
    """A judgement with the name of its check, which ``docs/doctor.md`` explains."""

    check: str
    judgement: Judgement

    @property
    def exit_code(self) -> int:
        """The exit code that this finding alone makes: 0 unless it is a problem."""
        return self.judgement.branch.exit_code if self.judgement.level is Level.PROBLEM else 0


def ok(found: str) -> Judgement:
    """Say that something is as it should be."""
    return Judgement(Level.OK, found)


def warning(found: str, advice: str) -> Judgement:
    """Say what should be known before a night."""
    return Judgement(Level.WARNING, found, advice)


def problem(found: str, advice: str, branch: type[AutotuneError] = HostError) -> Judgement:
    """Say what a night would end with."""
    return Judgement(Level.PROBLEM, found, advice, branch)


def skipped(reason: str) -> Judgement:
    """Say why nothing was looked at."""
    return Judgement(Level.SKIPPED, reason)


def judge_error(error: AutotuneError) -> Judgement:
    """Turn the error that a question ended with into a problem."""
    found = f"{error.where}: {error.message}" if error.where else error.message
    return problem(found, error.hint or "mend it, then run autotune doctor again", type(error))


def exit_code_of(findings: Iterable[Finding]) -> int:
    """Return the exit code of the worst finding; 0 when there is no problem, whatever the warnings.

    >>> bad = [Finding("a", problem("", "", UserError)), Finding("b", problem("", "", HostError))]
    >>> exit_code_of(bad), exit_code_of(bad[:1]), exit_code_of([Finding("c", warning("", ""))])
    (3, 2, 0)
    """
    codes = {finding.exit_code for finding in findings}
    return next((branch.exit_code for branch in WORST_FIRST if branch.exit_code in codes), 0)
