"""A clock that moves only when somebody waits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


class FakeClock:
    """Starts at 0 s, at a given time of day."""

    def __init__(self, now: datetime = datetime(2026, 1, 1, 22, 0, tzinfo=UTC)) -> None:
        self._start = now
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        self.seconds += seconds

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self.seconds)
