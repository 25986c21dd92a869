"""Durations as Go writes them: `1h30m`, `90s`, `-1.5ms`. Configuration files of Go programs use them.

A duration is an integer of nanoseconds in 64 bits.
"""

import re
from datetime import timedelta
from typing import Final

from . import int64

NANOSECOND: Final = 1
MICROSECOND: Final = 1_000
MILLISECOND: Final = 1_000_000
SECOND: Final = 1_000_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE

_UNITS: Final = {
    "ns": NANOSECOND,
    "us": MICROSECOND,
    "µs": MICROSECOND,
    "μs": MICROSECOND,
    "ms": MILLISECOND,
    "s": SECOND,
    "m": MINUTE,
    "h": HOUR,
}
_PART: Final = re.compile(r"(?:([0-9]+)(?:\.([0-9]*))?|\.([0-9]+))(ns|us|µs|μs|ms|s|m|h)", re.ASCII)


def parse(text: str) -> int:
    """Read a duration into nanoseconds, truncated. Raises ValueError naming the text."""
    unsigned = text[1:] if text[:1] in ("+", "-") else text
    if unsigned == "0":
        return 0
    total, position = 0, 0
    while position < len(unsigned):
        part = _PART.match(unsigned, position)
        if part is None:
            break
        whole, fraction = part[1] or "0", part[2] or part[3] or ""
        unit = _UNITS[part[4]]
        total += int(whole) * unit + (int(fraction) * unit // 10 ** len(fraction) if fraction else 0)
        position = part.end()
    if not unsigned or position < len(unsigned):
        raise ValueError(
            f"{text!r} is not a duration: expected numbers with units, such as 1h30m, 90s or 1.5s"
        )
    signed = -total if text[0] == "-" else total
    if not int64.fits(signed):
        raise ValueError(f"{text!r} is not a duration: expected less than about 292 years")
    return signed


def of_seconds(seconds: int) -> timedelta:
    """Return seconds, to the microsecond, wrapped as Go's `time.Duration` wraps (after 292 years)."""
    return timedelta(microseconds=int64.wrap(seconds * SECOND) // MICROSECOND)


def format(nanoseconds: int) -> str:
    """Write a duration: hours, minutes and seconds, or a single smaller unit below one second."""
    if nanoseconds == 0:
        return "0s"
    sign, rest = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    for unit, size in (("ns", NANOSECOND), ("µs", MICROSECOND), ("ms", MILLISECOND)):
        if rest < size * 1000:
            return f"{sign}{_decimal(rest, size)}{unit}"
    minutes, seconds = divmod(rest, MINUTE)
    hours, minutes = divmod(minutes, 60)
    text = f"{_decimal(seconds, SECOND)}s"
    if hours or minutes:
        text = f"{minutes}m{text}"
    return f"{sign}{hours}h{text}" if hours else f"{sign}{text}"


def _decimal(number: int, unit: int) -> str:
    whole, rest = divmod(number, unit)
    if not rest:
        return str(whole)
    digits = len(str(unit)) - 1
    return f"{whole}.{rest:0{digits}d}".rstrip("0")
