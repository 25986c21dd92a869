"""Reads the texts of the kernel's cgroup files."""

import errno
import re
from typing import Final

from koordpy.agent.interface.cgroups import Pressure, PressureStall

GONE: Final = (errno.ENOENT, errno.ENODEV, errno.ESRCH, errno.ENOTDIR)
"""Errors that mean that a cgroup or process has ended."""

MEMORY_STAT_V1: Final = (
    "total_cache",
    "total_rss",
    "total_inactive_file",
    "total_active_file",
    "total_inactive_anon",
    "total_active_anon",
    "total_unevictable",
)
MEMORY_STAT_V2: Final = (
    "file",
    "anon",
    "inactive_file",
    "active_file",
    "inactive_anon",
    "active_anon",
    "unevictable",
)
_PRESSURE: Final = re.compile(r"(some|full) avg10=([\d.]+) avg60=([\d.]+) avg300=([\d.]+) total=(\d+)")
_PAGE: Final = 4096


def field(text: str, key: str) -> int:
    """Return the number in the line `key number`. Raises KeyError without the line, ValueError."""
    if text.startswith(f"{key} "):
        start = 0
    else:
        start = text.find(f"\n{key} ") + 1
        if start == 0:
            raise KeyError(key)
    start += len(key) + 1
    end = text.find("\n", start)
    return int(text[start:] if end < 0 else text[start:end])


def numa_v1(text: str) -> dict[int, int]:
    """Return pages by NUMA node from the line `total=N N0=N ...`. Raises ValueError."""
    first, *nodes = text.partition("\n")[0].split()
    if not first.startswith("total") or not nodes:
        raise ValueError(f"expected total=PAGES N0=PAGES, got {text[:80]!r}")
    return _by_node(nodes)


def numa_v2(text: str) -> dict[int, int]:
    """Return pages of 4 KiB by NUMA node: anonymous memory and files. Raises ValueError."""
    total: dict[int, int] = {}
    lines = {words[0]: words[1:] for line in text.splitlines() if (words := line.split())}
    for key in ("anon", "file"):
        if not lines.get(key):
            raise ValueError(f"expected a line {key} N0=BYTES, got {text[:80]!r}")
        for node, used in _by_node(lines[key]).items():
            total[node] = total.get(node, 0) + used // _PAGE
    return total


def pressure(text: str) -> PressureStall:
    """Return the two lines of a pressure file. Raises ValueError."""
    found = {match[1]: match for match in _PRESSURE.finditer(text)}
    if "some" not in found:
        raise ValueError(f"expected some avg10=... avg60=... avg300=... total=..., got {text[:80]!r}")
    lines = {
        name: Pressure(float(match[2]), float(match[3]), float(match[4]), int(match[5]))
        for name, match in found.items()
    }
    return PressureStall(lines["some"], lines.get("full"))


def _by_node(words: list[str]) -> dict[int, int]:
    found = {}
    for word in words:
        node, mark, number = word.partition("=")
        if not mark or not node.startswith("N"):
            raise ValueError(f"expected N0=NUMBER, got {word!r}")
        found[int(node[1:])] = int(number)
    return found
