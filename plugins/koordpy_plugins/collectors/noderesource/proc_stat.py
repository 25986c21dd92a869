"""Busy CPU time from /proc/stat."""

import os

JIFFIES_PER_SECOND = os.sysconf("SC_CLK_TCK")


def busy_jiffies(text: bytes) -> int:
    """Return the time that all CPUs were busy, in jiffies. Raises ValueError."""
    if not text.startswith(b"cpu "):
        raise ValueError("it does not begin with a line of CPU times")
    return _busy(text[: text.find(b"\n")] if b"\n" in text else text)


def busy_by_cpu(text: bytes) -> dict[int, int]:
    """Return the time that each CPU was busy, in jiffies. Raises ValueError."""
    found: dict[int, int] = {}
    begin = text.find(b"\ncpu")
    while begin >= 0:
        end = text.find(b"\n", begin + 1)
        line = text[begin + 1 :] if end < 0 else text[begin + 1 : end]
        found[int(line[3 : line.index(b" ")])] = _busy(line)
        begin = end if end >= 0 and text.startswith(b"cpu", end + 1) else -1
    return found


def _busy(line: bytes) -> int:
    """Add user, nice, system, irq and softirq."""
    fields = line.split(None, 8)
    if len(fields) < 8:
        raise ValueError(f"a line of CPU times has {len(fields) - 1} numbers, expected 7 or more")
    return int(fields[1]) + int(fields[2]) + int(fields[3]) + int(fields[6]) + int(fields[7])
