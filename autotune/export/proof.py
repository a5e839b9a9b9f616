"""Is the gain of a trial more than the noise between boots? Said in words wherever a trial is recommended (pure)."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.confirmation.recommendation import find_statement
from autotune.confirmation.verdict import Outcome
from autotune.export.findings import Findings, smallest_gain
from autotune.export.wording import can_prove, render_count, render_gain, render_percent
from autotune.trial import Figure, TrialKind, TrialRecord


@dataclass(frozen=True, slots=True)
class Proof:
    """Whether a gain is proven.

    Attributes:
        is_proven: every gain that could be compared is beyond the noise between boots, and beyond its own interval.
        why: the reason for either.
        outcome: of the confirmation that says so; ``None``: it rests on the boots of the search.
    """

    is_proven: bool
    why: str
    outcome: Outcome | None = None

    @property
    def verdict(self) -> str:
        """The verdict in a word or two."""
        if self.outcome is not None:
            return self.outcome.value
        return "proven" if self.is_proven else "not proven"

    def __str__(self) -> str:
        """Return the verdict with its reason."""
        return f"{self.verdict}: {self.why}"


def judge_proof(trial: TrialRecord, findings: Findings) -> Proof | None:
    """Return whether the gains of a trial are proven; ``None`` for the baseline, which claims none.

    What a confirmation says comes first: it booted the trial again, and asked no other question.
    """
    if trial.kind is TrialKind.BASELINE:
        return None
    statement = find_statement(trial.number, findings.confirmations)
    if statement is not None:
        is_confirmed = statement.outcome is Outcome.CONFIRMED
        return Proof(is_confirmed, str(statement), statement.outcome)
    if trial.number in findings.drifts:
        return Proof(is_proven=False, why=f"its boot drifted: {'; '.join(findings.drifts[trial.number])}")
    noise = findings.noise
    if noise is None or noise.smallest_gain is None:
        boots = render_count(findings.baseline_boots if noise is None else noise.boots, "boot")
        return Proof(
            is_proven=False, why=f"the noise between boots is unknown: {boots} of the baseline, three are needed"
        )
    # It was chosen for being fast: it has to be further ahead than a trial that was named before it was measured.
    candidates = len({*findings.gains_c1, *findings.gains_c32, trial.number})
    needed = smallest_gain(noise.boots, noise.spread, candidates)
    chosen = "" if candidates == 1 else f" when it is the best of {candidates}"
    if not can_prove(needed):
        return Proof(
            is_proven=False,
            why=f"boots of the baseline differ by {render_percent(noise.spread)}, so that no gain can be proven{chosen}",
        )
    compared = [
        (name, gains.get(trial.number))
        for name, gains in (("C=1", findings.gains_c1), ("C=32", findings.gains_c32))
        if gains
    ]
    doubts = {name: doubt for name, gain in compared if (doubt := _doubt(name, gain, needed)) is not None}
    smallest = f"{render_percent(needed)}, the smallest gain that one boot can prove{chosen}"
    if not compared:
        return Proof(is_proven=False, why="nothing was measured that the baseline has measured too")
    if not doubts:
        return Proof(is_proven=True, why=f"{_name_gains(list(dict(compared)))} beyond {smallest}")
    certain = [name for name, _ in compared if name not in doubts]
    tail = f"; the gain at {certain[0]} is proven" if certain else ""
    return Proof(is_proven=False, why=f"{'; '.join(doubts.values())} ({smallest}){tail}")


def _doubt(name: str, gain: Figure | None, smallest_gain: float) -> str | None:
    """Say what keeps one gain from being proven, if anything does."""
    if gain is None:
        return f"nothing to compare at {name}"
    if gain.value - 1 <= -smallest_gain:
        return f"{render_gain(gain)} at {name} is a loss"
    if gain.value - 1 < smallest_gain:
        return f"{render_gain(gain)} at {name} is within the noise between boots"
    if gain.low is not None and gain.low <= 1:
        return f"the interval of {render_gain(gain)} at {name} reaches down to a loss"
    return None


def _name_gains(names: list[str]) -> str:
    return "both gains are" if len(names) > 1 else f"the gain at {names[0]} is"
