"""Signed 64-bit arithmetic, for rules ported from a language whose integers wrap.

Python's integers never overflow and its `//` floors. A rule that must give the same answers as 64-bit code
calls these functions where the difference matters.
"""

import re

MIN = -(1 << 63)
MAX = (1 << 63) - 1

_MASK = (1 << 64) - 1
_SIGN = 1 << 63

# Longer texts are not 64-bit numbers, except for leading zeros; Python refuses to convert very long ones.
_MAX_DIGITS = 4000
_GO_INTEGER = re.compile(
    r"(?P<sign>[+-]?)(?:0(?P<prefix>[xXbBoO])_?|(?P<octal>0_?(?=[0-9])))?(?P<digits>[0-9a-fA-F]+(?:_[0-9a-fA-F]+)*)"
)


def wrap(number: int) -> int:
    """Return the low 64 bits of a number, as two's complement."""
    if MIN <= number <= MAX:
        return number
    number &= _MASK
    return number - (1 << 64) if number & _SIGN else number


def wrap_32(number: int) -> int:
    """Return the low 32 bits of a number, as two's complement: what a conversion to int32 keeps."""
    return (number + (1 << 31)) % (1 << 32) - (1 << 31)


def fits(number: int) -> bool:
    """Return whether a number fits in 64 bits."""
    return MIN <= number <= MAX


def quotient(dividend: int, divisor: int) -> int:
    """Return the quotient truncated toward zero; raise ZeroDivisionError on a zero divisor."""
    if (dividend < 0) == (divisor < 0):
        return dividend // divisor
    return -(-dividend // divisor)


def from_float(number: float) -> int:
    """Return a double truncated toward zero; MIN if it is out of range or NaN (as on amd64)."""
    if -9223372036854775808.0 <= number < 9223372036854775808.0:
        return int(number)
    return MIN


def parse(text: str, bits: int = 64) -> int | None:
    """Read a decimal integer of `bits` bits: a sign (also `+`), then ASCII digits. None if invalid."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()) or len(digits) > _MAX_DIGITS:
        return None
    number = int(text)
    return number if -(1 << (bits - 1)) <= number < 1 << (bits - 1) else None


def parse_any_base(text: str, bits: int = 64) -> int | None:
    """Read an integer as Go source writes it: `0x`, `0b`, `0o`, a leading 0 for octal, `_` between digits.

    Underscores are allowed after a base prefix and between digits. None if invalid or out of range.
    """
    match = _GO_INTEGER.fullmatch(text)
    if match is None or len(text) > _MAX_DIGITS:
        return None
    sign, prefix, octal, digits = match["sign"], match["prefix"], match["octal"], match["digits"]
    base = {"x": 16, "b": 2, "o": 8}[prefix.lower()] if prefix else 8 if octal else 10
    try:
        # The zeros keep Python from reading a second prefix.
        number = int(f"00{digits}", base)
    except ValueError:
        return None
    number = -number if sign == "-" else number
    return number if -(1 << (bits - 1)) <= number < 1 << (bits - 1) else None
