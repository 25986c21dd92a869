"""Floating point numbers as Go's `strconv.ParseFloat` reads them."""

import re
from math import isinf
from typing import Final

_DIGITS: Final = r"[0-9]+(?:_[0-9]+)*"
_HEX_DIGITS: Final = r"[0-9a-fA-F]+(?:_[0-9a-fA-F]+)*"
_DECIMAL: Final = re.compile(
    rf"[+-]?(?:{_DIGITS}(?:\.(?:{_DIGITS})?)?|\.{_DIGITS})(?:[eE][+-]?{_DIGITS})?", re.ASCII
)
_HEXADECIMAL: Final = re.compile(
    rf"[+-]?0[xX]_?(?:{_HEX_DIGITS}(?:\.(?:{_HEX_DIGITS})?)?|\.{_HEX_DIGITS})[pP][+-]?{_DIGITS}", re.ASCII
)
_SPECIAL: Final = re.compile(r"[+-]?inf(?:inity)?|nan", re.IGNORECASE | re.ASCII)
_MAX_LENGTH: Final = 4000


def parse(text: str) -> float:
    """Return a number: decimal, hexadecimal with a `p` exponent, infinity or NaN; `_` between digits.

    Raises ValueError for any other text, blanks included, and for numbers that do not fit.
    """
    if len(text) <= _MAX_LENGTH:
        if _SPECIAL.fullmatch(text):
            return float(text)
        plain = text.replace("_", "")
        try:
            if _DECIMAL.fullmatch(text):
                number = float(plain)
                if not isinf(number):
                    return number
            elif _HEXADECIMAL.fullmatch(text):
                return float.fromhex(plain)
        except OverflowError:
            pass
    raise ValueError(f"{text[:80]!r} is no number of 64 bits")
