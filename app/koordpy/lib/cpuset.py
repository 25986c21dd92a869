"""Linux CPU lists (`0-3,8`), as in cgroup and sysfs files."""

from collections.abc import Iterable
from typing import Final

from . import int64

MOST_CPUS: Final = 65536
"""CPUs have smaller numbers than this; Linux has 8192 at most."""

LAST_OF_RANGE: Final = 4096
"""The largest end of a range in Koordinator's annotations."""

_MOST_NAMED: Final = 4 * MOST_CPUS
"""How many CPUs the ranges of one list may have together, repeated ones included."""
_SHOWN: Final = 80


def parse(text: str) -> frozenset[int]:
    """Read a CPU list; blanks and the empty text are fine. Raises ValueError naming the bad part.

    Lists come from annotations, too: no text makes more than `MOST_CPUS` CPUs.
    """
    cpus: set[int] = set()
    named = 0
    for part in text.strip().split(","):
        if not part and not text.strip():
            break
        first, dash, last = part.strip().partition("-")
        try:
            low = int(first)
            high = int(last) if dash else low
        except ValueError:
            raise ValueError(f"not a CPU list: {_shown(text)}: bad part {_shown(part)}") from None
        if low < 0 or high < low:
            raise ValueError(f"not a CPU list: {_shown(text)}: bad range {_shown(part)}")
        named += high - low + 1
        if high >= MOST_CPUS or named > _MOST_NAMED:
            raise ValueError(f"not a CPU list: {_shown(text)}: too many CPUs in {_shown(part)}")
        cpus.update(range(low, high + 1))
    return frozenset(cpus)


def parse_koordinator(text: str) -> frozenset[int]:
    """Read a CPU list as Koordinator reads those of annotations. Raises ValueError with its message.

    Blanks are errors, a reversed range is empty, and a range ends at `LAST_OF_RANGE` at most. Lists whose
    parts name more than `MOST_CPUS` CPUs, repeated ones included, are refused, too. Source: Koordinator,
    `pkg/util/cpuset/cpuset.go` (`Parse`).
    """
    cpus: set[int] = set()
    named = 0
    for part in text.split(",") if text else ():
        first, *rest = part.split("-")
        if len(rest) > 1:
            raise ValueError(f"invalid format: {_shown(part)}")
        low = high = _int32(first)
        if rest:
            high = _int32(rest[0])
            if high > LAST_OF_RANGE:
                raise ValueError(f"end {high} exceed the maximum available CPU count: {LAST_OF_RANGE}")
        named += max(high - low + 1, 0)
        if named > MOST_CPUS:
            raise ValueError(f"not a CPU list: {_shown(text)}: too many CPUs")
        cpus.update(range(low, high + 1))
    return frozenset(cpus)


def _int32(text: str) -> int:
    number = int64.parse(text, 32)
    if number is None:
        raise ValueError(f"not a CPU: {_shown(text)}: expected an integer of 32 bits")
    return number


def _shown(text: str) -> str:
    return repr(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!r}..."


def render(cpus: Iterable[int]) -> str:
    """Write CPUs as sorted ranges; no CPU is the empty text."""
    parts: list[str] = []
    ordered = sorted(set(cpus))
    start = 0
    for i, cpu in enumerate(ordered):
        if i + 1 == len(ordered) or ordered[i + 1] != cpu + 1:
            first = ordered[start]
            parts.append(str(first) if first == cpu else f"{first}-{cpu}")
            start = i + 1
    return ",".join(parts)
