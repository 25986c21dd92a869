"""Decaying histograms: the distribution of a value over time, in which newer samples weigh more.

The weight of a sample is 2 to the power of its age in half-lives, relative to a reference time that moves
forward before weights become too large. Only the weights' proportions matter. Times are nanoseconds since
the beginning of the year 1, Go's zero time, because the reference time is a multiple of the half-life counted
from there.
"""

import math
from array import array
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

ZERO_TIME: Final = datetime(1, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_LONGEST: Final = 2**63 - 1
"""The longest duration that Go can express, in nanoseconds; longer ones count as this one."""

_GREATEST_EXPONENT: Final = 100
EPSILON: Final = 0.0001
"""Buckets with less weight count as empty."""
GREATEST_SAVED_WEIGHT: Final = 10_000
"""The weight of the fullest bucket of a checkpoint."""


def nanoseconds(time: datetime) -> int:
    """Return a time as nanoseconds since the beginning of the year 1."""
    return duration_nanoseconds(time - ZERO_TIME)


def duration_nanoseconds(duration: timedelta) -> int:
    """Return a duration in nanoseconds."""
    return duration // _MICROSECOND * 1000


def time_of(nanoseconds: int) -> datetime:
    """Return the time so many nanoseconds after the beginning of the year 1, cut to microseconds."""
    return ZERO_TIME + nanoseconds // 1000 * _MICROSECOND


class Buckets:
    """Buckets whose sizes grow by a ratio: the first one from 0 to `first`, the last one without an end."""

    def __init__(self, greatest: float, first: float, ratio: float = 1.0 + 0.05) -> None:
        self.first, self.ratio = first, ratio
        self.count = math.ceil(self._logarithm(greatest * (ratio - 1) / first + 1)) + 1

    def find(self, value: float) -> int:
        """Return the index of the bucket of a value."""
        if value < self.first:
            return 0
        return min(int(self._logarithm(value * (self.ratio - 1) / self.first + 1)), self.count - 1)

    def start(self, bucket: int) -> float:
        """Return the least value of a bucket."""
        if bucket == 0:
            return 0.0
        return self.first * (math.pow(self.ratio, float(bucket)) - 1) / (self.ratio - 1)

    def _logarithm(self, value: float) -> float:
        return math.log(value) / math.log(self.ratio)


CPU_BUCKETS: Final = Buckets(1024, 0.025)
"""Cores."""
MEMORY_BUCKETS: Final = Buckets(1 << 41, 5 << 20)
"""Bytes."""


class CheckpointError(ValueError):
    """A histogram's saved content is no content of a histogram."""


class DecayingHistogram:
    """The weights of all buckets. `half_life` is in nanoseconds, above 0."""

    __slots__ = ("_buckets", "_half_life", "_highest", "_lowest", "_weights", "reference", "total")

    def __init__(self, buckets: Buckets, half_life: int) -> None:
        self._buckets = buckets
        self._half_life = half_life
        self._weights = array("d", bytes(8 * buckets.count))
        self._lowest = buckets.count - 1
        self._highest = 0
        self.reference = 0
        self.total = 0.0

    def add(self, value: float, now: int) -> None:
        """Add a sample taken at a time."""
        weight = self._factor(now)
        bucket = self._buckets.find(value)
        self._weights[bucket] += weight
        self.total += weight
        if self._weights[bucket] >= EPSILON:
            self._lowest = min(self._lowest, bucket)
            self._highest = max(self._highest, bucket)

    def percentile(self, share: float) -> float:
        """Return the end of the bucket that holds a percentile, `share` from 0 to 1; 0 if there is none."""
        if self._weights[self._lowest] < EPSILON:
            return 0.0
        threshold = share * self.total
        passed = 0.0
        bucket = self._lowest
        while bucket < self._highest:
            passed += self._weights[bucket]
            if passed >= threshold:
                break
            bucket += 1
        return self._buckets.start(min(bucket + 1, self._buckets.count - 1))

    def saved_weights(self) -> dict[int, int]:
        """Return the weights of the buckets that are not empty, in proportion to the greatest one."""
        used = range(self._lowest, self._highest + 1)
        greatest = max((self._weights[bucket] for bucket in used), default=0.0)
        if greatest <= 0:
            return {}
        ratio = GREATEST_SAVED_WEIGHT / greatest
        saved = {bucket: math.floor(self._weights[bucket] * ratio + 0.5) for bucket in used}
        return {bucket: weight for bucket, weight in saved.items() if weight > 0}

    def load(self, weights: Mapping[int, int], total: float, reference: int) -> None:
        """Fill an empty histogram from a checkpoint. Raises CheckpointError, and then nothing is changed."""
        if total < 0:
            raise CheckpointError(f"the total weight is negative: {total}")
        for bucket in weights:
            if not 0 <= bucket < self._buckets.count:
                raise CheckpointError(f"there is no bucket {bucket}, only 0 to {self._buckets.count - 1}")
        self.reference = reference
        together = sum(weights.values())
        if not together:
            return
        ratio = total / together
        for bucket, weight in weights.items():
            self._lowest = min(self._lowest, bucket)
            self._highest = max(self._highest, bucket)
            self._weights[bucket] += weight * ratio
        self.total += total

    def _factor(self, now: int) -> float:
        if now > self.reference + self._half_life * _GREATEST_EXPONENT:
            self._move_reference(now)
        return math.exp2(self._since_reference(now) / self._half_life)

    def _move_reference(self, now: int) -> None:
        """Move the reference time to a time, rounded to a multiple of the half-life."""
        past = now % self._half_life
        moved = now - past if 2 * past < self._half_life else now - past + self._half_life
        exponent = math.floor(-self._since_reference(moved) / self._half_life + 0.5)
        self._scale(math.ldexp(1.0, exponent))
        self.reference = moved

    def _since_reference(self, time: int) -> int:
        return max(min(time - self.reference, _LONGEST), -_LONGEST - 1)

    def _scale(self, factor: float) -> None:
        for bucket in range(self._lowest, self._highest + 1):
            self._weights[bucket] *= factor
        self.total *= factor
        while self._weights[self._lowest] < EPSILON and self._lowest < self._buckets.count - 1:
            self._lowest += 1
        while self._weights[self._highest] < EPSILON and self._highest > 0:
            self._highest -= 1
