"""Resource quantities: `100m`, `1.5Gi`, `2e3`.

Amounts in Kubernetes are texts. Their parsing, rounding to integers and formatting is implemented only here,
digit for digit as in Kubernetes, since annotations, patches and quota checks compare these texts and integers
with those of other components.

There are two ways to use it. Code on hot paths calls `value`, `milli_value` or `resource_value` for the
integer of a wire value; results are cached by the value, and no object is created. Code that writes amounts
back uses `Quantity`, an immutable number that keeps its format and, while it is unchanged, its original text.

Source of all rules: Kubernetes, `k8s.io/apimachinery/pkg/api/resource`.
"""

from __future__ import annotations

import re
from math import isfinite
from typing import Final, Literal

from koordpy.lib import int64
from koordpy.lib.bounded_cache import cached, text_size

from .quantity_number import (
    BINARY_EXPONENTS,
    DECIMAL_EXPONENTS,
    MAX_DIGITS,
    MILLI,
    NANO,
    UNSET,
    ZERO,
    Format,
    Quantity,
    divide_away_from_zero,
)

__all__ = [
    "MILLI",
    "NANO",
    "UNSET",
    "ZERO",
    "Format",
    "Quantity",
    "QuantityError",
    "WireQuantity",
    "from_wire",
    "milli_value",
    "nano_value",
    "parse",
    "parse_json",
    "resource_value",
    "value",
]

WireQuantity = str | int | float
"""An amount in a JSON document."""


_LONGEST_SHOWN: Final = 200


class QuantityError(ValueError):
    """A text is not a quantity. `reason` is the invalid part: `format`, `numeric` or `suffix`."""

    def __init__(self, text: object, reason: Literal["format", "numeric", "suffix"], expected: str) -> None:
        shown = repr(text)
        if len(shown) > _LONGEST_SHOWN:
            shown = f"{shown[:_LONGEST_SHOWN]}... ({len(shown)} characters)"
        super().__init__(f"quantity {shown}: {expected}")
        self.reason = reason


_SMALL_DIGITS: Final = 18
_NUMBER: Final = re.compile(r"([+-]?)0*([0-9]*)(?:(\.)([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)")
_BLANKS: Final = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)


@cached("quantities", 8 << 20, text_size)
def parse(text: str) -> Quantity:
    """Read a quantity from its text.

    Blanks are not allowed. Missing digits count as 0 (`.5`, `1.`, even `m`). Amounts other than 0 that are
    smaller than a billionth are rounded up to one; BinarySI amounts are capped to the largest 64-bit integer.
    The text is kept, and written verbatim, if it is close enough to the canonical form.

    Raises:
        QuantityError: the text is not a quantity, or a number of more than 4000 digits.
    """
    if text == "0":
        return Quantity(0, 0, Format.DECIMAL_SI, kept="0")
    parts = _NUMBER.fullmatch(text) if len(text) <= MAX_DIGITS else None
    if not text or parts is None:
        raise QuantityError(
            text, "format", "expected digits, an optional point and a suffix such as m, k, Mi or e3"
        )
    sign, digits, point, decimals, suffix = parts.groups()
    exponent, format = _interpret_suffix(text, suffix)
    if not digits and point is None and not suffix:
        return Quantity(0, 0, Format.DECIMAL_SI)
    number = (digits or "0") + (decimals or "")
    unscaled = int(number)
    if len(number) + exponent > MAX_DIGITS and unscaled:
        raise QuantityError(text, "numeric", f"expected a number of at most {MAX_DIGITS} digits")
    small = _parse_small(text, number, unscaled, exponent, format, len(decimals or ""))
    if small is not None:
        return small
    if not decimals and not text.lstrip("+-")[:1].isdecimal():
        raise QuantityError(text, "numeric", "expected a digit before the suffix")
    return _parse_big(-unscaled if sign == "-" else unscaled, exponent, format, len(decimals or ""))


def _interpret_suffix(text: str, suffix: str) -> tuple[int, Format]:
    """The exponent that a suffix stands for (of two in BinarySI, else of ten), and the format it implies."""
    if suffix in DECIMAL_EXPONENTS:
        return DECIMAL_EXPONENTS[suffix], Format.DECIMAL_SI
    if suffix in BINARY_EXPONENTS:
        return BINARY_EXPONENTS[suffix], Format.BINARY_SI
    if (
        suffix[0] in "eE"
        and re.fullmatch(r"[-+]?[0-9]+", suffix[1:])
        and int64.fits(exponent := int(suffix[1:]))
    ):
        # Kubernetes keeps the low 32 bits of an exponent.
        return int64.wrap(exponent << 32) >> 32, Format.DECIMAL_EXPONENT
    raise QuantityError(
        text, "suffix", "expected one of n, u, m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei or e and digits"
    )


def _parse_small(
    text: str, number: str, unscaled: int, exponent: int, format: Format, decimals: int
) -> Quantity | None:
    """Parse a number into small form, or return None if it needs the big one."""
    signed = -unscaled if text[0] == "-" else unscaled
    if format is Format.BINARY_SI:
        # An upper estimate of the decimal digits of the product: what passes fits 64 bits.
        if decimals or len(number) > 14 - exponent * 3 // 10:
            return None
        return Quantity(signed << exponent, 0, format, kept=text if unscaled & 0x07 else "")
    scale = exponent - decimals
    if len(number) > _SMALL_DIGITS or scale < NANO:
        return None
    keeps = scale % 3 == 0 and not number.endswith("000") and number[0] != "0"
    return Quantity(signed, scale if unscaled else min(scale, MAX_DIGITS), format, kept=text if keeps else "")


def _parse_big(signed: int, exponent: int, format: Format, decimals: int) -> Quantity:
    """Make the big form: not below a billionth, in BinarySI not above the largest 64-bit integer."""
    scale = -decimals
    if format is Format.BINARY_SI:
        signed <<= exponent
    else:
        scale += exponent
    if signed == 0:
        return Quantity(0, max(-MAX_DIGITS, min(scale, MAX_DIGITS)), format, big=True)
    unscaled = (
        divide_away_from_zero(signed, NANO - scale)[0] if scale < NANO else signed * 10 ** (scale - NANO)
    )
    if format is Format.BINARY_SI and abs(unscaled) > int64.MAX * 10**9:
        return Quantity(int64.MAX if signed > 0 else -int64.MAX, 0, format, big=True)
    if format is Format.BINARY_SI and abs(unscaled) < 10**9:
        format = Format.DECIMAL_SI
    return Quantity(unscaled, NANO, format, big=True)


def parse_json(raw: str) -> Quantity:
    """Read a quantity from the JSON text of a field: a string (blanks are trimmed), a number or null.

    Escapes in a string are not interpreted, as in Kubernetes. null gives `UNSET`.
    """
    if raw == "null":
        return UNSET
    if len(raw) >= 2 and raw[0] == raw[-1] == '"':
        raw = raw[1:-1]
    return parse(raw.strip(_BLANKS))


def from_wire(quantity: WireQuantity | None) -> Quantity:
    """Read a quantity from a decoded JSON value; None gives `UNSET`. Raises QuantityError."""
    if quantity is None:
        return UNSET
    if isinstance(quantity, str):
        return parse(quantity.strip(_BLANKS))
    if type(quantity) is not int and (type(quantity) is not float or not isfinite(quantity)):
        raise QuantityError(quantity, "format", "expected a text or a number")
    return parse(str(quantity))


@cached("quantity_values", 4 << 20, text_size)
def value(quantity: WireQuantity) -> int:
    """Return a wire value as a whole number, rounded up, 64 bits. Raises QuantityError."""
    return from_wire(quantity).value()


@cached("quantity_values", 4 << 20, text_size)
def milli_value(quantity: WireQuantity) -> int:
    """Return a wire value in thousandths, rounded up, 64 bits. Raises QuantityError."""
    return from_wire(quantity).milli_value()


@cached("quantity_values", 4 << 20, text_size)
def nano_value(quantity: WireQuantity) -> int:
    """Return a wire value in billionths, exact and unlimited. Raises QuantityError."""
    return from_wire(quantity).nano_value()


def resource_value(name: str, quantity: WireQuantity) -> int:
    """Return an amount in the unit in which its resource is counted: cpu in thousandths, others whole.

    Source: Koordinator, `pkg/util/resource.go` and the quota plugin's `getQuantityValue`.
    """
    return milli_value(quantity) if name == "cpu" else value(quantity)
