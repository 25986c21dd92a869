"""Sets of minors as integers, as Koordinator computes with them: 64 bits, of which the last is the sign.

Source: Koordinator, `pkg/scheduler/plugins/deviceshare/allocator_gpu.go` (`hashMinors`).
"""

from collections.abc import Iterable
from typing import Final

WIDTH: Final = 64
_SIGN: Final = 1 << 63


def bits_of(minors: Iterable[int]) -> int:
    """Return the set of some minors; those that are not in 0..63 have no bit."""
    bits = 0
    for minor in minors:
        if 0 <= minor < WIDTH:
            bits |= 1 << minor
    return bits


def overlap(left: int, right: int) -> bool:
    """Return whether two sets have a minor in common; with minor 63 in common they never do."""
    return 0 < left & right < _SIGN
