"""One series: a ring of blocks, sorted by time."""

from bisect import bisect_left, bisect_right
from collections import deque
from typing import Final, Protocol

from .blocks import LONGEST_BLOCK, POINTS, Blocks, Place
from .share import Share

LATE_MILLISECONDS: Final = 60_000
"""How much older than the newest point a point may be, and is still put in its place (koordlet's window)."""


class Owner(Protocol):
    """What a series needs to know of the cache that it belongs to."""

    blocks: Blocks

    def claim(self, series: "BlockSeries") -> "BlockSeries":
        """Register a series that gets its first point; return the series that is registered already."""
        ...

    def take_block(self, series: "BlockSeries", base: int) -> int:
        """Return the number of an empty block, within the limit of the cache."""
        ...

    def retention_milliseconds(self, kind: str) -> int:
        """Return how long points of a kind are kept."""
        ...

    def is_ahead(self, time: int) -> bool:
        """Return whether a point lies in the future: the clock was set back."""
        ...


class BlockSeries:
    """The points of one series; see `koordpy.agent.interface.metrics.Series`.

    `kind` and `identity`, the values of the kind's properties, name it. `id` marks its blocks; it is 0 before
    the first point.
    """

    __slots__ = (
        "_base",
        "_count",
        "_last",
        "_numbers",
        "_owner",
        "_place",
        "id",
        "identity",
        "kind",
        "share",
    )

    _place: Place
    _base: int
    _count: int
    _last: int

    def __init__(
        self, owner: Owner, kind: str, identity: tuple[str, ...], id_: int = 0, *, share: Share
    ) -> None:
        self._owner = owner
        self.kind = kind
        self.identity = identity
        self.id = id_
        self.share = share
        self._numbers: deque[int] = deque()
        self._forget()

    # --- writing ---------------------------------------------------------------------------------

    def add(self, value: float, at: float) -> None:
        """Add a point taken `at` seconds after the epoch; parts of a millisecond are cut off."""
        self.append(value, int(at * 1000 + 0.001))

    def append(self, value: float, at: int) -> None:
        """Add a point; `at` is in Unix milliseconds."""
        offset = at - self._base
        count = self._count
        if count == POINTS or not self._last <= offset <= LONGEST_BLOCK or value - value != 0:
            self._append_with_care(value, at)
            return
        segment, header, _, values, times = self._place
        segment.longs[times + count] = offset
        segment.doubles[values + count] = value
        segment.longs[header + 1] = self._count = count + 1
        self._last = offset

    def close(self) -> None:
        """Drop all points."""
        while self._numbers:
            self._free(self._numbers.pop())
        self._forget()

    def move(self, share: Share) -> None:
        """Count for another plugin from now on."""
        for each, sign in ((self.share, -1), (share, 1)):
            each.blocks += sign * len(self._numbers)
            each.series += sign * bool(self.id)
        self.share = share

    def drop_before(self, time: int) -> None:
        """Free the blocks whose points are all older than a time, in Unix milliseconds."""
        while self._numbers and self._owner.blocks.newest(self._numbers[0]) < time:
            if len(self._numbers) == 1:
                self.close()
            else:
                self._free(self._numbers.popleft())

    def drop_oldest_block(self) -> None:
        """Free the oldest block, whatever its age."""
        if len(self._numbers) > 1:
            self._free(self._numbers.popleft())
        else:
            self.close()

    def adopt(self, number: int) -> None:
        """Take over a block that is in place already, newer than all others."""
        self._numbers.append(number)
        self.share.blocks += 1
        self._open(number)

    # --- reading ---------------------------------------------------------------------------------

    @property
    def block_count(self) -> int:
        """The number of blocks."""
        return len(self._numbers)

    @property
    def point_count(self) -> int:
        """The number of points."""
        return sum(self._count_of(number) for number in self._numbers)

    @property
    def oldest(self) -> int:
        """The time of the oldest point, in Unix milliseconds; 0 if there is none."""
        if not self._numbers:
            return 0
        place = self._owner.blocks.place(self._numbers[0])
        return place.segment.quads[place.base]

    @property
    def newest(self) -> int:
        """The time of the newest point, in Unix milliseconds; 0 if there is none."""
        return self._base + self._last if self._numbers else 0

    @property
    def interval(self) -> float:
        """The mean time between the points of the newest block, in milliseconds; 0 if it has only one."""
        return self._last / (self._count - 1) if self._numbers and self._count > 1 else 0.0

    def between(self, start: int, end: int) -> tuple[list[int], list[float]]:
        """Return the times and values of the points in [start, end], in Unix milliseconds, oldest first."""
        times: list[int] = []
        values: list[float] = []
        first = 0
        for position in range(len(self._numbers) - 1, -1, -1):
            place = self._owner.blocks.place(self._numbers[position])
            if place.segment.quads[place.base] <= start:
                first = position
                break
        for position in range(first, len(self._numbers)):
            place = self._owner.blocks.place(self._numbers[position])
            base = place.segment.quads[place.base]
            if base > end:
                break
            longs, low, high = place.segment.longs, place.times, place.times + self._count_of_place(place)
            if start > base:
                low = bisect_left(longs, start - base, low, high)
            if base + longs[high - 1] > end:
                high = bisect_right(longs, end - base, low, high)
            shift = place.values - place.times
            times.extend([base + offset for offset in longs[low:high].tolist()])
            values.extend(place.segment.doubles[low + shift : high + shift].tolist())
        return times, values

    def last_between(self, start: int, end: int) -> float | None:
        """Return the value of the newest point in [start, end]; None if there is none.

        Of points with the same time it is the first.
        """
        last = self._last
        newest = self._base + last
        if not self._numbers or newest < start:
            return None
        if newest <= end:
            segment, _, _, values, times = self._place
            count = self._count
            if count > 1 and segment.longs[times + count - 2] < last:
                return segment.doubles[values + count - 1]
            at = bisect_left(segment.longs, self._last, times, times + self._count) - times
            if at:  # otherwise points of the block before may have the same time
                return segment.doubles[values + at]
        found_times, found = self.between(start, end)
        return found[bisect_left(found_times, found_times[-1])] if found else None

    # --- blocks ----------------------------------------------------------------------------------

    def _free(self, number: int) -> None:
        self._owner.blocks.free(number)
        self.share.blocks -= 1

    def _forget(self) -> None:
        self._base = 0
        self._count = POINTS
        self._last = 0

    def _open(self, number: int) -> None:
        self._place = self._owner.blocks.place(number)
        self._base = self._place.segment.quads[self._place.base]
        self._count = self._count_of_place(self._place)
        self._last = self._place.segment.longs[self._place.times + self._count - 1] if self._count else 0

    def _append_with_care(self, value: float, at: int) -> None:
        if value - value != 0 or at < 0:
            return
        if not self._numbers:
            registered = self._owner.claim(self)
            if registered is not self:
                registered.append(value, at)
                return
        elif at < self.newest:
            self._append_late(value, at)
            return
        else:
            self.drop_before(at - self._owner.retention_milliseconds(self.kind))
        self._numbers.append(self._owner.take_block(self, at))
        self.share.blocks += 1
        self._open(self._numbers[-1])
        self.append(value, at)

    def _append_late(self, value: float, at: int) -> None:
        if self._owner.is_ahead(self.newest):
            self._drop_after(at)
            self.append(value, at)
        elif at >= self.newest - LATE_MILLISECONDS:
            times, values = self._cut(at)
            self.append(value, at)
            for later, kept in zip(times, values, strict=True):
                self.append(kept, later)

    def _drop_after(self, time: int) -> None:
        self._cut(time)

    def _cut(self, time: int) -> tuple[list[int], list[float]]:
        """Remove the points after a time, and return them."""
        times, values = self.between(time + 1, self.newest)
        while self._numbers:
            place = self._owner.blocks.place(self._numbers[-1])
            base = place.segment.quads[place.base]
            if base <= time:
                end = place.times + self._count_of_place(place)
                kept = bisect_right(place.segment.longs, time - base, place.times, end) - place.times
                place.segment.longs[place.header + 1] = kept
                self._open(self._numbers[-1])
                return times, values
            self._free(self._numbers.pop())
        self._forget()
        return times, values

    def _count_of(self, number: int) -> int:
        return self._count_of_place(self._owner.blocks.place(number))

    def _count_of_place(self, place: Place) -> int:
        return place.segment.longs[place.header + 1]
