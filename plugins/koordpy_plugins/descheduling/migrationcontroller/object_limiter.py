"""How many pods of one workload or namespace may be evicted within a time.

Each workload and each namespace has a token bucket, which the first eviction creates, full, and which is
dropped when 1.5 durations pass without another one. Nothing outlives a restart. Source: Koordinator,
`pkg/descheduler/controllers/migration/controller.go`.
"""

import re
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from koordpy.api.core import Pod
from koordpy.lib import duration, int64
from koordpy.lib.clock import Clock
from koordpy.lib.token_bucket import TokenBucket

from .args import NAMESPACE, WORKLOAD, MigrationControllerArgs, ObjectLimiter
from .limit import limit_of

MAX_OBJECTS: Final = 100_000
"""Buckets of one kind of object that are kept; beyond it the longest unused one is dropped."""

_DECIMAL: Final = re.compile(r"[+-]?[0-9]{1,64}", re.ASCII)

ExpectedScale = Callable[[Pod], int]
"""Returns the replicas of a pod's workload. Raises ValueError if they cannot be determined."""


class ObjectLimiters:
    """The limiters of a configuration; kinds of objects without a duration have none."""

    def __init__(self, args: MigrationControllerArgs, expected_scale: ExpectedScale, clock: Clock) -> None:
        self._per_workload = args.max_migrating_per_workload
        self._expected_scale, self._clock = expected_scale, clock
        # A fixed order: a limit of 0 ends the work on the kinds after it.
        self._kinds = {
            kind: (limiter, _Buckets(limiter, clock))
            for kind, limiter in sorted(args.object_limiters.items(), reverse=True)
            if limiter.duration > 0 and kind in (WORKLOAD, NAMESPACE)
        }

    def exceeded(self, pod: Pod) -> bool:
        """Return whether one more eviction would exceed a limit; nothing is taken."""
        return self.reason_against(pod) is not None

    def reason_against(self, pod: Pod) -> str | None:
        """Return which limit one more eviction would exceed, None if there is none."""
        for kind, (limiter, buckets) in self._kinds.items():
            key = _key(kind, pod)
            if key and buckets.is_empty(key):
                every = duration.format(limiter.duration)
                return f"the limiter of its {kind} allows no more evictions now (duration {every})"
        return None

    def track(self, pod: Pod) -> None:
        """Count a successful eviction."""
        for kind, (limiter, buckets) in self._kinds.items():
            key = _key(kind, pod)
            if not key:
                continue
            most = self._most(kind, limiter, pod)
            if most == 0:
                return
            rate = max(most, 0) * duration.SECOND / limiter.duration
            buckets.take(key, rate, limiter.burst or 1)

    def _most(self, kind: str, limiter: ObjectLimiter, pod: Pod) -> int:
        most = limiter.max_migrating
        if kind == NAMESPACE:
            return _as_int(most)
        try:
            return limit_of(self._expected_scale(pod), self._per_workload if most is None else most)
        except ValueError:
            return 0


class _Buckets:
    def __init__(self, limiter: ObjectLimiter, clock: Clock) -> None:
        self._lifetime = 1.5 * limiter.duration / duration.SECOND
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[TokenBucket, float]] = OrderedDict()

    def is_empty(self, key: str) -> bool:
        self._expire()
        known = self._buckets.get(key)
        return known is not None and known[0].tokens < 1

    def take(self, key: str, rate: float, burst: int) -> None:
        self._expire()
        known = self._buckets.pop(key, None)
        if known is None:
            bucket = TokenBucket(rate, burst, self._clock)
        else:
            bucket = known[0]
            bucket.set_rate(rate)  # its burst stays
        bucket.take()
        self._buckets[key] = bucket, self._clock.monotonic() + self._lifetime
        if len(self._buckets) > MAX_OBJECTS:
            self._buckets.popitem(last=False)

    def _expire(self) -> None:
        """Drop what expired: all have the same lifetime, so the order of their use is that of their ends."""
        now = self._clock.monotonic()
        while self._buckets:
            _, end = next(iter(self._buckets.values()))
            if end >= now:
                return
            self._buckets.popitem(last=False)


def _key(kind: str, pod: Pod) -> str:
    if kind == NAMESPACE:
        return pod.metadata.namespace
    owner = pod.metadata.controller
    return owner.uid if owner is not None else ""


def _as_int(value: int | str | None) -> int:
    """Return a number, or text that is one (Go's `IntOrString.IntValue`); 0 for anything else."""
    if isinstance(value, int):
        return value
    if value is None or not _DECIMAL.fullmatch(value):
        return 0
    return max(int64.MIN, min(int64.MAX, int(value)))
