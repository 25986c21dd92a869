"""The memory of all series: blocks of a fixed size in segments of mapped memory.

A series is a ring of blocks: points go into its newest block, and its oldest block becomes free once all its
points are older than the retention. A block has a header and room for `POINTS` points of 12 bytes:

    bytes 0-4      id of the series, 0 if the block is free
    bytes 4-8      number of points
    bytes 8-16     Unix time of the first point, in milliseconds
    bytes 16-688   values, as doubles
    bytes 688-1024 times, as milliseconds after the first point

Numbers are in the byte order of the machine.
"""

import mmap
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

BLOCK_BYTES: Final = 1024
POINTS: Final = 84
SEGMENT_BLOCKS: Final = 1024
SEGMENT_BYTES: Final = BLOCK_BYTES * SEGMENT_BLOCKS

LONGEST_BLOCK: Final = 2**32 - 1
"""The longest time, in milliseconds, between the first and the last point of a block."""


class Segment(NamedTuple):
    """One mapping of memory, as numbers of each size that blocks have."""

    memory: mmap.mmap
    longs: "memoryview[int]"
    quads: "memoryview[int]"
    doubles: "memoryview[float]"


class Place(NamedTuple):
    """Where a block is: its segment, and the indexes of its parts there."""

    segment: Segment
    header: int
    """Index of the id in `longs`; the number of points follows."""
    base: int
    """Index of the time of the first point in `quads`."""
    values: int
    """Index of the first value in `doubles`."""
    times: int
    """Index of the first time in `longs`."""


def segment_of(memory: mmap.mmap) -> Segment:
    """Return the views of a mapping of SEGMENT_BYTES."""
    view = memoryview(memory)
    return Segment(memory, view.cast("I"), view.cast("Q"), view.cast("d"))


def anonymous_segment(index: int) -> mmap.mmap:
    """Map memory that no file has; all its bytes are 0."""
    return mmap.mmap(-1, SEGMENT_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


class Blocks:
    """All blocks, numbered from 0, and which of them are free.

    `map_segment` maps the memory of the segment with an index; it may raise OSError.
    """

    def __init__(self, map_segment: Callable[[int], mmap.mmap] = anonymous_segment) -> None:
        self._map_segment = map_segment
        self._segments: list[Segment] = []
        self._free: list[int] = []

    @property
    def used(self) -> int:
        """The number of blocks in use."""
        return len(self._segments) * SEGMENT_BLOCKS - len(self._free)

    def take(self, series: int, base: int) -> int:
        """Return the number of an empty block that now belongs to a series, and begins at a time.

        Raises OSError if there is no memory for it.
        """
        if not self._free:
            self.grow()
        number = self._free.pop()
        place = self.place(number)
        place.segment.longs[place.header + 1] = 0
        place.segment.quads[place.base] = base
        place.segment.longs[place.header] = series
        return number

    def free(self, number: int) -> None:
        """Give a block back."""
        place = self.place(number)
        place.segment.longs[place.header] = 0
        self._free.append(number)

    def place(self, number: int) -> Place:
        """Return where a block is."""
        within = number % SEGMENT_BLOCKS
        return Place(
            self._segments[number // SEGMENT_BLOCKS],
            within * (BLOCK_BYTES // 4),
            within * (BLOCK_BYTES // 8) + 1,
            within * (BLOCK_BYTES // 8) + 2,
            within * (BLOCK_BYTES // 4) + 4 + 2 * POINTS,
        )

    def grow(self) -> None:
        """Add a segment. Raises OSError if there is no room for it."""
        first = len(self._segments) * SEGMENT_BLOCKS
        self._segments.append(segment_of(self._map_segment(len(self._segments))))
        self._free.extend(range(first + SEGMENT_BLOCKS - 1, first - 1, -1))

    def load(self, segments: int) -> list[int]:
        """Map segments that exist; return the numbers of the blocks in use, in order."""
        for _ in range(segments):
            self.grow()
        used = {number for number in self._free if self.owner(number)}
        self._free = [number for number in self._free if number not in used]
        return sorted(used)

    def base(self, number: int) -> int:
        """Return the time of the first point of a block, in Unix milliseconds."""
        place = self.place(number)
        return place.segment.quads[place.base]

    def newest(self, number: int) -> int:
        """Return the time of the last point of a block, in Unix milliseconds."""
        place = self.place(number)
        count = place.segment.longs[place.header + 1]
        return self.base(number) + place.segment.longs[place.times + max(count - 1, 0)]

    def owner(self, number: int) -> int:
        """Return the id of the series that a block belongs to; 0 if it is free."""
        place = self.place(number)
        return place.segment.longs[place.header]

    def close(self) -> None:
        """Unmap all memory; no block can be used any more."""
        while self._segments:
            segment = self._segments.pop()
            for view in (segment.longs, segment.quads, segment.doubles):
                view.release()
            with suppress(BufferError):
                segment.memory.close()
        self._free.clear()
