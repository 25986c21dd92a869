"""How long a container may exceed its CPU limit: a token bucket for each container."""

import random
from typing import Final

CONSUMES_FROM_PERCENT: Final = 100
SAVES_BELOW_PERCENT: Final = 60


class TokenBucket:
    """Tokens are percents of the limit times seconds; times are seconds on a monotonic clock.

    Using more than the limit takes tokens, using less than 60 % of it adds some. A new bucket is filled at
    random, to less than half, so that containers which start together do not burst together.
    """

    __slots__ = ("capacity", "expires_after", "tokens", "updated_at")

    def __init__(self, period: int, percent: int, now: float, rng: random.Random) -> None:
        """`period` is in seconds, `percent` the share of its limit that the container may use."""
        self._fill(period, percent, now, rng)

    def configure(self, period: int, percent: int, now: float, rng: random.Random) -> None:
        """Start anew if another capacity is configured."""
        if period * (percent - 100) != self.capacity:
            self._fill(period, percent, now, rng)

    def _fill(self, period: int, percent: int, now: float, rng: random.Random) -> None:
        self.capacity = period * (percent - 100)
        self.tokens = int(self.capacity * (rng.random() / 2))
        self.updated_at = now
        self.expires_after = 2.0 * period

    def allows(self, usage_percent: int, now: float) -> bool:
        """Account for the whole seconds since the last call, and return whether tokens are left."""
        seconds = int(now - self.updated_at)
        if usage_percent >= CONSUMES_FROM_PERCENT:
            self.tokens -= (usage_percent - 100) * seconds
        elif usage_percent < SAVES_BELOW_PERCENT:
            self.tokens += (100 - usage_percent) * seconds
        self.tokens = max(min(self.tokens, self.capacity), -self.capacity)
        self.updated_at = now
        return self.tokens > 0

    def is_expired(self, now: float) -> bool:
        """Return whether it was idle for two periods."""
        return now - self.updated_at > self.expires_after
