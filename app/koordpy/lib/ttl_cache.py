"""A set whose members expire."""

from .clock import Clock


class TTLCache:
    """Keys with a time to live; times are seconds.

    Expired keys are no longer found; their memory is freed by the first `add` at least `sweep_every` after
    the last sweep.
    """

    def __init__(self, ttl: float, sweep_every: float, clock: Clock) -> None:
        self._ttl, self._sweep_every, self._clock = ttl, sweep_every, clock
        self._expiries: dict[str, float] = {}
        self._swept_at = clock.monotonic()

    def __contains__(self, key: str) -> bool:
        expiry = self._expiries.get(key)
        return expiry is not None and self._clock.monotonic() <= expiry

    def __len__(self) -> int:
        """Return the number of keys held, including expired ones that were not swept yet."""
        return len(self._expiries)

    def add(self, key: str) -> None:
        """Add a key, which expires after the time to live."""
        now = self._clock.monotonic()
        if now - self._swept_at >= self._sweep_every:
            self._swept_at = now
            self._expiries = {known: expiry for known, expiry in self._expiries.items() if now <= expiry}
        self._expiries[key] = now + self._ttl

    def discard(self, key: str) -> None:
        """Remove a key if it is present."""
        self._expiries.pop(key, None)
