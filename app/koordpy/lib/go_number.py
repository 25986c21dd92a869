"""Numbers and booleans as Go reads and writes them.

Source: Go, `strconv` and the verb `%v` of `fmt`.
"""

import re
from decimal import Decimal
from functools import lru_cache
from math import copysign
from typing import Final

_DIGITS: Final = r"[0-9]+(?:_[0-9]+)*"
_HEX_DIGITS: Final = r"[0-9a-fA-F]+(?:_[0-9a-fA-F]+)*"
_EXPONENT: Final = rf"[+-]?{_DIGITS}"
_DECIMAL: Final = re.compile(rf"[+-]?(?:{_DIGITS}\.?|{_DIGITS}\.{_DIGITS}|\.{_DIGITS})(?:[eE]{_EXPONENT})?")
_HEXADECIMAL: Final = re.compile(
    rf"[+-]?0[xX](?:_?{_HEX_DIGITS}\.?|_?{_HEX_DIGITS}\.{_HEX_DIGITS}|\.{_HEX_DIGITS})[pP]{_EXPONENT}"
)
_INFINITE: Final = re.compile(r"[+-]?inf(?:inity)?|nan", re.IGNORECASE)
_LONGEST: Final = 4000
_LEAST_EXPONENT, _LARGEST_EXPONENT = -4, 5

_BOOLEANS: Final = dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True) | dict.fromkeys(
    ("0", "f", "F", "false", "FALSE", "False"), False
)


def parse_float(text: str) -> float | None:
    """Read a double: decimal, hexadecimal with a `p` exponent, `inf` or `nan`; `_` between digits.

    None for any other text, blanks included, and for numbers out of range.
    """
    if len(text) > _LONGEST:
        return None
    if _INFINITE.fullmatch(text):
        return float(text)
    if _DECIMAL.fullmatch(text):
        number = float(text.replace("_", ""))
    elif _HEXADECIMAL.fullmatch(text):
        try:
            number = float.fromhex(text.replace("_", ""))
        except OverflowError:
            return None
    else:
        return None
    return None if number in (float("inf"), float("-inf")) else number


def parse_bool(text: str) -> bool | None:
    """Read a boolean, None if it is none."""
    return _BOOLEANS.get(text)


def general(number: float) -> str:
    """Write a double as `%v` does: the shortest digits, with an exponent below 0.0001 and from 1e+06 on."""
    if number == 0:  # both zeros are equal, so a cache would mix them up
        return "-0" if copysign(1.0, number) < 0 else "0"
    return _general(number)


@lru_cache(maxsize=1024)
def _general(number: float) -> str:
    if number != number or number in (float("inf"), float("-inf")):
        return {"nan": "NaN", "inf": "+Inf", "-inf": "-Inf"}[str(number)]
    sign, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    assert isinstance(exponent, int)
    point = len(digits) + exponent - 1
    text = "".join(map(str, digits))
    prefix = "-" if sign else ""
    if _LEAST_EXPONENT <= point <= _LARGEST_EXPONENT:
        return prefix + format(Decimal(repr(abs(number))).normalize(), "f")
    mantissa = text[0] + (f".{text[1:]}" if len(text) > 1 else "")
    return f"{prefix}{mantissa}e{'-' if point < 0 else '+'}{abs(point):02d}"


def fixed(number: float, decimals: int) -> str:
    """Write a double with a number of decimals, its exact value rounded half to even."""
    return f"{number:.{decimals}f}"
