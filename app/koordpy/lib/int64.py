"""Signed 64-bit arithmetic, for rules that were written in a language whose integers wrap.

Python's integers never overflow and its `//` floors. A rule that must give the same answers as 64-bit
code says so by calling these functions at the places where the difference shows.
"""

MIN = -(1 << 63)
MAX = (1 << 63) - 1

_MASK = (1 << 64) - 1
_SIGN = 1 << 63


def wrap(number: int) -> int:
    """Return the number that is left when only the low 64 bits are kept, read as two's complement."""
    if MIN <= number <= MAX:
        return number
    number &= _MASK
    return number - (1 << 64) if number & _SIGN else number


def fits(number: int) -> bool:
    """Tell whether a number can be held in 64 bits."""
    return MIN <= number <= MAX


def quotient(dividend: int, divisor: int) -> int:
    """Return the quotient cut toward zero; raise ZeroDivisionError on a zero divisor."""
    if (dividend < 0) == (divisor < 0):
        return dividend // divisor
    return -(-dividend // divisor)


def from_float(number: float) -> int:
    """Return a double cut toward zero; MIN stands for everything out of range and for NaN (as on amd64)."""
    if -9223372036854775808.0 <= number < 9223372036854775808.0:
        return int(number)
    return MIN
