"""What time is it on an imaginary machine? Only waiting moves this clock, so a night of hours passes in seconds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

_EVENING: Final = datetime(2026, 1, 1, 22, 0, tzinfo=UTC)


class SimulatedClock:
    """A clock that starts at 0 s, at ten in the evening."""

    def __init__(self) -> None:
        self._seconds = 0.0

    def monotonic(self) -> float:
        """Return the simulated seconds so far."""
        return self._seconds

    def sleep(self, seconds: float) -> None:
        """Let simulated time pass.

        Raises:
            ValueError: time would run backwards.
        """
        if seconds < 0:
            raise ValueError(f"nobody can wait {seconds} s")
        self._seconds += seconds

    def now(self) -> datetime:
        """Return the simulated time of day."""
        return _EVENING + timedelta(seconds=self._seconds)
