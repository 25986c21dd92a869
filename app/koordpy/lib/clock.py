"""Time as a parameter, so that every test is deterministic and simulations run faster than real time."""

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """The source of time."""

    def now(self) -> datetime:
        """Return the wall-clock time, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds on a clock that never goes back."""
        ...


class SystemClock:
    """The machine's time."""

    monotonic = staticmethod(time.monotonic)

    def now(self) -> datetime:
        """Return the wall-clock time, aware, in UTC."""
        return datetime.now(UTC)


class FakeClock:
    """A clock that stands still until it is moved."""

    def __init__(self, start: datetime) -> None:
        if start.tzinfo is None:
            raise ValueError(f"FakeClock needs an aware datetime, got {start!r}")
        self._now = start.astimezone(UTC)
        self._elapsed = 0.0

    def now(self) -> datetime:
        """Return the time the clock was set to."""
        return self._now

    def monotonic(self) -> float:
        """Return the seconds that the clock was advanced by so far."""
        return self._elapsed

    def advance(self, seconds: float) -> None:
        """Move both clocks forward."""
        self._now += timedelta(seconds=seconds)
        self._elapsed += seconds

    def set(self, now: datetime) -> None:
        """Jump the wall clock, as an operator or NTP would; the monotonic clock does not follow."""
        self._now = now.astimezone(UTC)
