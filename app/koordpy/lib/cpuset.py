"""Linux CPU lists (`0-3,8`), as in cgroup and sysfs files."""

from collections.abc import Iterable


def parse(text: str) -> frozenset[int]:
    """Read a CPU list; blanks and the empty text are fine. Raises ValueError naming the bad part."""
    cpus: set[int] = set()
    for part in text.strip().split(","):
        if not part and not text.strip():
            break
        first, dash, last = part.strip().partition("-")
        try:
            low = int(first)
            high = int(last) if dash else low
        except ValueError:
            raise ValueError(f"not a CPU list: {text!r}: bad part {part!r}") from None
        if low < 0 or high < low:
            raise ValueError(f"not a CPU list: {text!r}: bad range {part!r}")
        cpus.update(range(low, high + 1))
    return frozenset(cpus)


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
