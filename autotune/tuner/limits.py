"""May another boot start? Limits of one command, any of which ends it; pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Limits:
    """When the command ends; with no limit it ends when every configuration was measured.

    Attributes:
        trials: trials of the whole study that ended complete, pruned or infeasible; 0 boots only what was listed.
        duration_s: time that this command may take, restore included.
        until: moment at which the host has to be as it was found; without a time zone it is local time.
    """

    trials: int | None = None
    duration_s: float | None = None
    until: datetime | None = None

    def left_s(self, elapsed_s: float, now: datetime) -> float | None:
        """Return the seconds until the host must be restored; ``None`` without a time limit.

        Args:
            elapsed_s: since the command started.
            now: with a time zone.
        """
        left = []
        if self.duration_s is not None:
            left.append(self.duration_s - elapsed_s)
        if self.until is not None:
            left.append((self.until.astimezone() - now).total_seconds())
        return min(left, default=None)

    def is_counted_out(self, counted: int) -> bool:
        """Whether the trials are used up."""
        return self.trials is not None and counted >= self.trials

    def explain_time(self) -> str:
        """Name the time limits in words."""
        parts = []
        if self.duration_s is not None:
            parts.append(f"the time of {self.duration_s:.0f} s")
        if self.until is not None:
            parts.append(f"{self.until.astimezone():%H:%M}")
        return " or ".join(parts) or "no time limit"
