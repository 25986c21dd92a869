"""Sets of NUMA nodes as integers: bit i stands for NUMA node i.

Source: Koordinator, `pkg/util/bitmask`.
"""

from collections.abc import Iterable, Iterator

from koordpy.lib.bounded_cache import cached, text_size

WIDTH = 64
"""NUMA nodes have smaller ids than this."""


def of(numa_nodes: Iterable[int]) -> int:
    """Return the mask of some NUMA nodes. Raises ValueError for an id that is not in 0..63."""
    mask = 0
    for numa_node in numa_nodes:
        if not 0 <= numa_node < WIDTH:
            raise ValueError(f"NUMA node {numa_node}: expected an id from 0 to {WIDTH - 1}")
        mask |= 1 << numa_node
    return mask


def bits(mask: int) -> Iterator[int]:
    """Yield the NUMA nodes of a mask, lowest first."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def narrower(mask: int, other: int) -> bool:
    """Return whether a mask has fewer bits, or as many and is the smaller number."""
    count, its_count = mask.bit_count(), other.bit_count()
    return mask < other if count == its_count else count < its_count


@cached("numa_masks", 256 << 10, text_size)
def text(mask: int | None) -> str:
    """Format a mask as in reasons; None is `<nil>`.

    Digits come in pairs, but 4, 16 and the other powers of four have one too few (Koordinator's quirk).
    """
    if mask is None:
        return "<nil>"
    for shift in range(WIDTH - 2, 0, -2):
        if mask > 1 << shift:
            return format(mask, f"0{shift + 2}b")
    return format(mask, "02b")
