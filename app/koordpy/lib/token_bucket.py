"""A token bucket: limits the average rate of actions, and their bursts."""

from .clock import Clock


class TokenBucket:
    """`rate` tokens are added per second, up to `burst`, with which the bucket starts.

    An infinite rate fills it at once. Source: `golang.org/x/time/rate`.
    """

    def __init__(self, rate: float, burst: int, clock: Clock) -> None:
        self.rate, self.burst = rate, burst
        self._clock = clock
        self._tokens = float(burst)
        self._since = clock.monotonic()

    @property
    def tokens(self) -> float:
        """The tokens in the bucket now, negative after reservations in advance."""
        self._fill()
        return self._tokens

    def set_rate(self, rate: float) -> None:
        """Change the rate from now on; the tokens that were added until now stay."""
        self._fill()
        self.rate = rate

    def take(self) -> bool:
        """Take a token if there is one; return whether there was."""
        self._fill()
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def reserve(self) -> float:
        """Take a token, now or in advance; return the seconds until it is available (infinite if never)."""
        self._fill()
        if self._tokens < 1 and self.rate <= 0:
            return float("inf")
        self._tokens -= 1
        return max(0.0, -self._tokens / self.rate) if self.rate > 0 else 0.0

    def _fill(self) -> None:
        now = self._clock.monotonic()
        if self.rate == float("inf"):
            self._tokens = float(self.burst)
        else:
            self._tokens = min(float(self.burst), self._tokens + (now - self._since) * self.rate)
        self._since = now
