"""A set whose members are forgotten after a while."""

from .clock import Clock


class TTLCache:
    """Keys with a time to live; times are seconds.

    What has expired is not found any more; its memory is given back at the first `add` that comes
    `sweep_every` after the last such sweep.
    """

    def __init__(self, ttl: float, sweep_every: float, clock: Clock) -> None:
        self._ttl, self._sweep_every, self._clock = ttl, sweep_every, clock
        self._expiries: dict[str, float] = {}
        self._swept_at = clock.monotonic()

    def __contains__(self, key: str) -> bool:
        expiry = self._expiries.get(key)
        return expiry is not None and self._clock.monotonic() <= expiry

    def __len__(self) -> int:
        """Return how many keys are held, expired ones that no sweep has met included."""
        return len(self._expiries)

    def add(self, key: str) -> None:
        """Remember a key from now on."""
        now = self._clock.monotonic()
        if now - self._swept_at >= self._sweep_every:
            self._swept_at = now
            self._expiries = {known: expiry for known, expiry in self._expiries.items() if now <= expiry}
        self._expiries[key] = now + self._ttl

    def discard(self, key: str) -> None:
        """Forget a key; one that is not there is no error."""
        self._expiries.pop(key, None)
